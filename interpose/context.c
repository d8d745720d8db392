/* SPDX-License-Identifier: MIT */
#include "interpose/context.h"

#include <stdatomic.h>
#include <string.h>

#include "allocator/fence.h"
#include "allocator/lock.h"
#include "allocator/paged.h"
#include "interpose/capture.h"
#include "interpose/driver_ops.h"
#include "interpose/hooks.h"
#include "interpose/log.h"
#include "interpose/process.h"
#include "interpose/room.h"

/* The contexts of the process, as many as a fence captures; guarded by the lock. */
static struct cm_lock lock;
static struct noted {
	CUcontext ctx;
	CUdevice device;
	bool primary;
	bool leaving;     /* the driver may be destroying it; the handle may be a new one's */
	unsigned visits;  /* threads that make it current for a while, see begin_visit */
	unsigned users;   /* beyond its maker: cuCtxAttach */
	uint64_t open_to; /* devices that have access to its memory, bit n: of ordinal n */
} noted[CM_FENCE_CONTEXTS];
static size_t noted_count;

/*
 * One thread at a time retains, releases or resets the primary context of a device, by its ordinal. Else
 * a release that destroys it could find it active again, under the same handle. Held across the
 * driver's call, and taken before every other lock.
 */
static struct cm_lock primary_lock[CM_DEVICES_MAX];

_Atomic bool cm_context_uncountable;

/* Also where it is current by its handle: that may be a context that is gone, whose handle a new one
 * has. */
int cm_context_push(uint64_t ctx)
{
	return (int)cm_real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx);
}

void cm_context_pop(void)
{
	CUcontext ctx;

	(void)cm_real.cuCtxPopCurrent_v2(&ctx);
}

/*
 * Those after which, as cuda.h has it, any further work returns the same error, or the context or the
 * process can't go on; and two kinds of broken memory, of which it says nothing and nothing is hoped.
 */
bool cm_context_is_lasting(CUresult res)
{
	return res == CUDA_ERROR_ECC_UNCORRECTABLE || res == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	       res == CUDA_ERROR_CONTAINED || res == CUDA_ERROR_ILLEGAL_ADDRESS ||
	       res == CUDA_ERROR_LAUNCH_TIMEOUT || res == CUDA_ERROR_ASSERT ||
	       (res >= CUDA_ERROR_HARDWARE_STACK_ERROR && res <= CUDA_ERROR_LAUNCH_FAILED) ||
	       res == CUDA_ERROR_TENSOR_MEMORY_LEAK || res == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
	       res == CUDA_ERROR_EXTERNAL_DEVICE;
}

void cm_context_hear(CUresult res)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache && cm_context_is_lasting(res))
		cm_cache_drain_heap(cache, cm_context_current());
}

bool cm_context_serves(struct cm_cache *cache, uint64_t ctx)
{
	cm_thread.heap = cm_cache_find_heap(cache, ctx);
	return cm_cache_serves(cache, ctx);
}

static struct noted *find_noted_locked(CUcontext ctx)
{
	size_t i;

	for (i = 0; i < noted_count; i++)
		if (noted[i].ctx == ctx)
			return &noted[i];
	return NULL;
}

static void nap(void)
{
	cm_driver_ops()->sleep_ns(CM_FENCE_NAP_NS);
}

/*
 * A noted context that need not be current anywhere is about to be named in calls that the program knows
 * nothing of: who ends it waits for end_visit. Waits while it is leaving. False: it has gone.
 */
static bool begin_visit(CUcontext ctx)
{
	struct noted *found;
	bool begins;

	while (true) {
		cm_lock_acquire(&lock);
		found = find_noted_locked(ctx);
		begins = found && !found->leaving;
		if (begins)
			found->visits++;
		cm_lock_release(&lock);
		if (begins || !found)
			return begins;
		nap();
	}
}

static void end_visit(CUcontext ctx)
{
	cm_lock_acquire(&lock);
	find_noted_locked(ctx)->visits--;
	cm_lock_release(&lock);
}

static bool has_visits(CUcontext ctx)
{
	const struct noted *found;
	bool has;

	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	has = found && found->visits;
	cm_lock_release(&lock);
	return has;
}

static void set_leaving(CUcontext ctx, bool leaving)
{
	struct noted *found;

	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	if (found)
		found->leaving = leaving;
	cm_lock_release(&lock);
}

/* From here on nobody visits the context. No lock is held that a visitor may want. */
static void bid_leave(CUcontext ctx)
{
	set_leaving(ctx, true);
	while (has_visits(ctx))
		nap();
}

static bool is_leaving(CUcontext ctx)
{
	const struct noted *found;
	bool leaving;

	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	leaving = found && found->leaving;
	cm_lock_release(&lock);
	return leaving;
}

/* The driver has just made the context: where another one of this handle is leaving, that one is gone, and
 * about to be forgotten. */
static void await_forgotten(CUcontext ctx)
{
	while (is_leaving(ctx))
		nap();
}

/* The devices that have access to the context's memory. */
static uint64_t read_open_to(CUcontext ctx)
{
	const struct noted *found;
	uint64_t open_to;

	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	open_to = found ? found->open_to : 0;
	cm_lock_release(&lock);
	return open_to;
}

/* What the driver says of the context that is current. */
static bool read_info(CUcontext ctx, struct cm_context_info *info)
{
	unsigned long long id = 0;
	size_t free_bytes, total;
	CUdevice device;
	CUuuid uuid;

	*info = (struct cm_context_info){.ctx = (uintptr_t)ctx, .open_to = read_open_to(ctx)};
	if (cm_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
	    cm_real.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS)
		return false;
	info->ordinal = device;
	/* The context's own total: a part of the device under MIG or MPS. */
	info->total_bytes = total;
	info->free_bytes = free_bytes;
	if (cm_real.cuCtxGetId(ctx, &id) == CUDA_SUCCESS)
		info->id = id;
	if (cm_real.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
		memcpy(info->uuid, &uuid, sizeof(info->uuid));
	if (cm_real.cuDeviceGetName(info->name, sizeof(info->name), device) != CUDA_SUCCESS)
		info->name[0] = '\0';
	info->simulated = !strncmp(info->name, "Simulated", strlen("Simulated"));
	if (cm_real_has(cuCtxRecordEvent) && cm_real_has(cuCtxWaitEvent))
		info->can = CM_CAN_CTX_EVENTS;
	if (cm_process_policy()->expandable_segments && cm_driver_has_pages(device, CM_PAGED_PAGE))
		info->can |= CM_CAN_PAGES;
	return true;
}

static struct cm_heap *add_heap(struct cm_cache *cache, CUcontext ctx)
{
	struct cm_context_info info;
	struct cm_heap *heap = NULL;
	bool ok;

	if (cm_context_push((uintptr_t)ctx))
		return NULL;
	ok = read_info(ctx, &info);
	cm_context_pop();
	if (!ok || cm_cache_add_heap(cache, &info, &heap))
		return NULL;
	/* Who was given access since has not found the heap, and is noted by now; else it finds it. */
	return cm_cache_open_to(cache, info.ctx, read_open_to(ctx) & ~info.open_to) ? NULL : heap;
}

/* False: it stands, and can have no heap. */
static bool visit(struct cm_cache *cache, CUcontext ctx)
{
	bool added;

	if (!begin_visit(ctx))
		return true;
	added = add_heap(cache, ctx);
	end_visit(ctx);
	return added;
}

/* Every noted context has a heap before the first request of any is served. */
static bool add_noted(struct cm_cache *cache)
{
	struct noted copy[CM_FENCE_CONTEXTS];
	size_t i, n;

	cm_lock_acquire(&lock);
	n = noted_count;
	memcpy(copy, noted, n * sizeof(copy[0]));
	cm_lock_release(&lock);
	for (i = 0; i < n; i++)
		if (!cm_cache_find_heap(cache, (uintptr_t)copy[i].ctx) &&
		    !visit(cache, copy[i].ctx))
			return false;
	return true;
}

/* Of the calling thread's context. */
static struct cm_heap *make_heap(struct cm_cache *cache, CUcontext ctx)
{
	return add_noted(cache) ? add_heap(cache, ctx) : NULL;
}

/* Some work may escape the epochs from now on. What is out stays right: it is given back whole. */
static void stop_caching(const char *why)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (atomic_exchange(&cm_context_uncountable, true))
		return;
	cm_log(CM_LOG_WARNING, "%s: nothing is cached from here on", why);
	if (cache)
		cm_cache_drain_all(cache);
}

/* Adds a context that the program has. False: there are too many, and nothing is cached any more. */
static bool note(CUcontext ctx, CUdevice device, bool primary)
{
	bool full;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < noted_count && noted[i].ctx != ctx; i++)
		;
	full = i == CM_FENCE_CONTEXTS;
	if (i == noted_count && !full)
		noted[noted_count++] = (struct noted){.ctx = ctx};
	if (!full) {
		noted[i].device = device;
		noted[i].primary |= primary;
	}
	cm_lock_release(&lock);
	if (full)
		stop_caching("more contexts than can be watched");
	return !full;
}

/* The current context may have been made past our doors. False: it can't be watched. */
static bool note_current(CUcontext ctx)
{
	CUdevice device;

	return cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && note(ctx, device, false);
}

CM_NOINLINE struct cm_heap *cm_context_find_heap(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap;

	if (!ctx || atomic_load_explicit(&cm_context_uncountable, memory_order_relaxed))
		return NULL;
	heap = cm_cache_find_heap(cache, ctx);
	if (!heap && note_current((CUcontext)(uintptr_t)ctx))
		heap = make_heap(cache, (CUcontext)(uintptr_t)ctx);
	cm_thread.heap = heap;
	return heap;
}

bool cm_context_find_row(struct cm_cache *cache, uint32_t *ret_row)
{
	uint64_t ctx = cm_context_current();
	struct cm_heap *heap = ctx ? cm_cache_find_heap(cache, ctx) : NULL;

	if (ctx && !heap && !cm_capture_is_active()) {
		/* Counted is also what can't be watched. */
		(void)note_current((CUcontext)(uintptr_t)ctx);
		heap = make_heap(cache, (CUcontext)(uintptr_t)ctx);
	}
	if (heap)
		*ret_row = cm_heap_device(heap);
	return heap;
}

static void unnote(CUcontext ctx)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < noted_count; i++)
		if (noted[i].ctx == ctx)
			noted[i--] = noted[--noted_count];
	cm_lock_release(&lock);
}

/* A noted context of the device: the primary one, or the last of any kind. */
static CUcontext find_noted(CUdevice device, bool primary)
{
	CUcontext ctx = NULL;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < noted_count; i++)
		if (noted[i].device == device && (noted[i].primary || !primary))
			ctx = noted[i].ctx;
	cm_lock_release(&lock);
	return ctx;
}

bool cm_context_find_row_of(struct cm_cache *cache, int ordinal, uint32_t *ret_row)
{
	uint32_t row = cm_cache_device_row(cache, ordinal);
	struct cm_heap *heap = NULL;
	CUcontext ctx;

	if (row == UINT32_MAX && !cm_capture_is_active()) {
		ctx = find_noted(ordinal, false);
		if (ctx && add_noted(cache))
			heap = cm_cache_find_heap(cache, (uintptr_t)ctx);
		if (heap)
			row = cm_heap_device(heap);
	}
	if (row != UINT32_MAX)
		*ret_row = row;
	return row != UINT32_MAX;
}

void cm_context_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock);
	for (i = 0; i < CM_DEVICES_MAX; i++)
		cm_lock_init(&primary_lock[i]);
	noted_count = 0;
	atomic_store(&cm_context_uncountable, false);
}

static struct cm_lock *primary_lock_of(CUdevice device)
{
	return &primary_lock[(unsigned)device % CM_DEVICES_MAX];
}

/* The context is about to be destroyed, or has just been; the contexts are locked. */
static struct cm_heap *forget(struct cm_cache *cache, CUcontext ctx)
{
	struct cm_heap *heap = NULL;

	if (cache)
		heap = cm_cache_forget_heap(cache, (uintptr_t)ctx);
	cm_capture_forget_context((uintptr_t)ctx);
	unnote(ctx);
	return heap;
}

/* A new context is current. Its events must be in every epoch from now on, so where there is a
 * cache it gets its heap at once. */
static CUresult created(CUresult res, CUcontext *ctx)
{
	struct cm_cache *cache;
	CUdevice device = 0;

	if (res != CUDA_SUCCESS || !ctx)
		return res;
	(void)cm_real.cuCtxGetDevice(&device);
	await_forgotten(*ctx);
	(void)note(*ctx, device, false);
	cache = cm_process_cache_if_made();
	if (cache && !add_heap(cache, *ctx))
		stop_caching("a context that can't be watched");
	return res;
}

#define CREATE(symbol, params, pass)                               \
	CUresult cm_wrap_##symbol params                           \
	{                                                          \
		CUresult res;                                      \
                                                                   \
		if (!cm_hook_enter())                              \
			return cm_real.symbol pass;                \
		CM_WITH_ROOM_ON(device, res, cm_real.symbol pass); \
		res = created(res, ctx);                           \
		cm_hook_leave();                                   \
		return res;                                        \
	}

/* clang-format off */
CREATE(cuCtxCreate, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CREATE(cuCtxCreate_v2, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CREATE(cuCtxCreate_v3,
       (CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags, CUdevice device),
       (ctx, params, n, flags, device))
CREATE(cuCtxCreate_v4,
       (CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice device),
       (ctx, params, flags, device))
/* clang-format on */

/* The primary context may be retained long before it is current on any thread. */
CUresult cm_wrap_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	struct cm_cache *cache;
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuDevicePrimaryCtxRetain(ctx, device);
	cm_lock_acquire(primary_lock_of(device));
	CM_WITH_ROOM_ON(device, res, cm_real.cuDevicePrimaryCtxRetain(ctx, device));
	if (res == CUDA_SUCCESS && ctx) {
		await_forgotten(*ctx);
		(void)note(*ctx, device, true);
	}
	cm_lock_release(primary_lock_of(device));
	if (res == CUDA_SUCCESS && ctx) {
		cache = cm_process_cache_if_made();
		if (cache && !cm_cache_find_heap(cache, (uintptr_t)*ctx) && !add_heap(cache, *ctx))
			stop_caching("a context that can't be watched");
	}
	cm_hook_leave();
	return res;
}

/*
 * Forgets first: once the driver has begun, the handle may be another context's. The call may take as
 * long as the context's work, for which others need not wait with their requests.
 */
static CUresult destroy_made(CUcontext ctx, CUresult (*real)(CUcontext ctx))
{
	struct cm_cache *cache;
	struct cm_heap *heap;
	CUresult res;

	bid_leave(ctx);
	/* The last visitor may have made it. */
	cache = cm_process_cache_if_made();
	if (!cache) {
		(void)forget(NULL, ctx);
		return real(ctx);
	}
	cm_cache_lock_contexts(cache);
	heap = forget(cache, ctx);
	cm_cache_context_is_ending(cache);
	cm_cache_unlock_contexts(cache);
	cm_heap_await_calls(heap);
	res = real(ctx);
	cm_cache_lock_contexts(cache);
	cm_cache_context_has_ended(cache);
	cm_cache_unlock_contexts(cache);
	return res;
}

/* A context that goes or stays by the driver's word. */
struct leave {
	struct cm_cache *cache; /* NULL: there was none */
	struct cm_heap *heap;
	CUcontext ctx;
};

static struct leave begin_leave(CUcontext ctx)
{
	struct leave leave = {.ctx = ctx};

	bid_leave(ctx);
	leave.cache = cm_process_cache_if_made();
	if (!leave.cache)
		return leave;
	cm_cache_lock_contexts(leave.cache);
	leave.heap = cm_cache_suspend_heap(leave.cache, (uintptr_t)ctx);
	cm_cache_context_is_ending(leave.cache);
	cm_cache_unlock_contexts(leave.cache);
	cm_heap_await_calls(leave.heap);
	return leave;
}

/* `res`: the driver's answer. After an error that lasts nothing is cached in what has stayed. */
static void end_leave(const struct leave *leave, bool gone, CUresult res)
{
	struct cm_cache *cache = leave->cache;

	if (cache)
		cm_cache_lock_contexts(cache);
	if (gone)
		(void)forget(cache, leave->ctx);
	else if (leave->heap)
		cm_cache_resume_heap(leave->heap);
	if (cache) {
		cm_cache_context_has_ended(cache);
		cm_cache_unlock_contexts(cache);
	}
	if (cache && !gone && cm_context_is_lasting(res))
		cm_cache_drain_heap(cache, (uintptr_t)leave->ctx);
	/* Where it has gone, so has the note, and the handle may be noted anew. */
	if (!gone)
		set_leaving(leave->ctx, false);
}

/* Of a primary context, which the driver refuses to destroy. */
static CUresult destroy_primary(CUcontext ctx, CUdevice device, CUresult (*real)(CUcontext ctx))
{
	struct leave leave;
	CUresult res;

	cm_lock_acquire(primary_lock_of(device));
	leave = begin_leave(ctx);
	res = real(ctx);
	end_leave(&leave, res == CUDA_SUCCESS, res);
	cm_lock_release(primary_lock_of(device));
	return res;
}

static bool find_primary(CUcontext ctx, CUdevice *ret_device)
{
	const struct noted *found;
	bool primary;

	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	primary = found && found->primary;
	if (primary)
		*ret_device = found->device;
	cm_lock_release(&lock);
	return primary;
}

static CUresult destroy(CUcontext ctx, CUresult (*real)(CUcontext ctx))
{
	struct cm_cache *cache;
	CUdevice device;
	CUresult res;

	if (!cm_hook_enter())
		return real(ctx);
	if (find_primary(ctx, &device))
		res = destroy_primary(ctx, device, real);
	else
		res = destroy_made(ctx, real);
	cache = cm_process_cache_if_made();
	if (cache)
		cm_cache_forgotten(cache);
	cm_hook_leave();
	return res;
}

CUresult cm_wrap_cuCtxDestroy(CUcontext ctx)
{
	return destroy(ctx, cm_real.cuCtxDestroy);
}

CUresult cm_wrap_cuCtxDestroy_v2(CUcontext ctx)
{
	return destroy(ctx, cm_real.cuCtxDestroy_v2);
}

/* A primary context is not counted so: the driver refuses to detach it. NULL: not noted. The caller
 * locks. */
static struct noted *find_counted(CUcontext ctx)
{
	struct noted *found = find_noted_locked(ctx);

	return found && !found->primary ? found : NULL;
}

static void count_users(CUcontext ctx, int change)
{
	struct noted *found;

	cm_lock_acquire(&lock);
	found = find_counted(ctx);
	if (found)
		found->users += (unsigned)change;
	cm_lock_release(&lock);
}

/* Will the driver let the context go with its next detach? It must be current. */
static bool is_last_user(CUcontext ctx)
{
	const struct noted *found;
	bool last;

	cm_lock_acquire(&lock);
	found = find_counted(ctx);
	last = found && !found->users;
	cm_lock_release(&lock);
	return last && cm_context_current() == (uintptr_t)ctx;
}

CUresult cm_wrap_cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	CUresult res = cm_real.cuCtxAttach(ctx, flags);

	if (res == CUDA_SUCCESS)
		count_users(*ctx, 1);
	return res;
}

CUresult cm_wrap_cuCtxDetach(CUcontext ctx)
{
	CUresult res;

	if (is_last_user(ctx))
		return destroy(ctx, cm_real.cuCtxDetach);
	res = cm_real.cuCtxDetach(ctx);
	if (res == CUDA_SUCCESS)
		count_users(ctx, -1);
	return res;
}

static bool is_active(CUdevice device, bool unless_told)
{
	unsigned int flags;
	int active;

	return cm_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS
		       ? active
		       : unless_told;
}

/* Whether it has gone by a call that was answered so. After a reset it may be active again under the same
 * handle, with all memory gone. */
static bool has_gone(CUdevice device, bool reset, CUresult res)
{
	return (reset && res == CUDA_SUCCESS) || !is_active(device, res != CUDA_SUCCESS);
}

/* A primary context goes with its last release, or with a reset: the driver knows whether. */
static CUresult end_primary(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
{
	CUcontext ctx = find_noted(device, true);
	struct leave leave;
	CUresult res;
	bool gone;

	if (!ctx)
		return real(device);
	leave = begin_leave(ctx);
	res = real(device);
	gone = has_gone(device, reset, res);
	end_leave(&leave, gone, res);
	if (gone && is_active(device, false))
		(void)note(ctx, device, true);
	return res;
}

static CUresult end_primary_alone(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
{
	struct cm_cache *cache;
	CUresult res;

	cm_lock_acquire(primary_lock_of(device));
	res = end_primary(device, reset, real);
	cm_lock_release(primary_lock_of(device));
	cache = cm_process_cache_if_made();
	if (cache)
		cm_cache_forgotten(cache);
	return res;
}

#define ON_PRIMARY(symbol, reset)                                       \
	CUresult cm_wrap_##symbol(CUdevice device)                      \
	{                                                               \
		CUresult res;                                           \
                                                                        \
		if (!cm_hook_enter())                                   \
			return cm_real.symbol(device);                  \
		res = end_primary_alone(device, reset, cm_real.symbol); \
		cm_hook_leave();                                        \
		return res;                                             \
	}

/* clang-format off */
ON_PRIMARY(cuDevicePrimaryCtxRelease, false)
ON_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
ON_PRIMARY(cuDevicePrimaryCtxReset, true)
ON_PRIMARY(cuDevicePrimaryCtxReset_v2, true)
/* clang-format on */

CUresult cm_wrap_cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device,
				  unsigned int flags)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuGreenCtxCreate(green, desc, device, flags);
	res = cm_real.cuGreenCtxCreate(green, desc, device, flags);
	if (res == CUDA_SUCCESS)
		stop_caching("the program uses green contexts");
	cm_hook_leave();
	return res;
}

/* Notes that the device has access to the context's memory, which may have been made past our doors. */
static void note_open_to(CUcontext ctx, CUdevice device)
{
	struct noted *found;
	CUdevice own;

	if (!cm_context_push((uintptr_t)ctx)) {
		if (cm_real.cuCtxGetDevice(&own) == CUDA_SUCCESS)
			(void)note(ctx, own, false);
		cm_context_pop();
	}
	cm_lock_acquire(&lock);
	found = find_noted_locked(ctx);
	if (found)
		found->open_to |= UINT64_C(1) << device;
	cm_lock_release(&lock);
}

/*
 * The current context was given access to the peer's memory, for which the program hears success. Pages
 * want access of their own, those that the heap has and is to get. Where the driver refuses that, the
 * program hears so and has no access, as on cards that can't: it has another way then, and a kernel
 * that touches a closed page has none.
 */
static CUresult open_pages(CUcontext peer, CUdevice device)
{
	struct cm_cache *cache;
	int err;

	note_open_to(peer, device);
	/* After the note: who makes cache or heap meanwhile finds it. */
	cache = cm_process_cache_if_made();
	err = cache ? cm_cache_open_to(cache, (uintptr_t)peer, UINT64_C(1) << device) : 0;
	if (err)
		(void)cm_real.cuCtxDisablePeerAccess(peer);
	return (CUresult)err;
}

CUresult cm_wrap_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct cm_cache *cache;
	CUdevice device;
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuCtxEnablePeerAccess(peer, flags);
	/* Before the call: once it has returned, work that reaches the memory may be under way. */
	cache = cm_process_cache_if_made();
	if (cache)
		cm_cache_mark_shared(cache, (uintptr_t)peer);
	res = cm_real.cuCtxEnablePeerAccess(peer, flags);
	if (res == CUDA_SUCCESS && cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	    device < CM_DEVICES_MAX)
		res = open_pages(peer, device);
	cm_hook_leave();
	return res;
}
