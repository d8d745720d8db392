/* SPDX-License-Identifier: MIT */
/*
 * The doors of primary contexts, and the end of any context by its handle. A primary one goes with
 * its last release, or with a reset, and stays with any other release: only the driver knows.
 */
#include "interpose/wrappers/primary.h"

#include "allocator/base/lock.h"
#include "allocator/cache.h"
#include "allocator/state/state.h"
#include "interpose/core/cancel.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/process/process.h"
#include "interpose/wrappers/retry_after_trim.h"

/*
 * One thread at a time retains, releases or resets the primary context of a device, by its ordinal.
 * Else a release that destroys it could find it active again, under the same handle. Held across
 * the driver's call, and taken before every other lock.
 */
static struct cm_lock primary_lock[CM_DEVICES_MAX] = {
	[0 ... CM_DEVICES_MAX - 1] = CM_LOCK_FREE(CM_LOCK_PRIMARY)};

/* In a forked child, also where the library has not started and forgets nothing else. */
static void forget_in_child(void)
{
	size_t i;

	for (i = 0; i < CM_DEVICES_MAX; i++)
		cm_lock_init(&primary_lock[i], CM_LOCK_PRIMARY, 0);
	cm_capture_forget_all();
	cm_context_forget_all();
}

/* Registers for forks before the lock is first held: another thread may fork meanwhile. */
static struct cm_lock *primary_lock_of(CUdevice device)
{
	cm_process_on_fork(forget_in_child);
	return &primary_lock[(unsigned)device % CM_DEVICES_MAX];
}

static bool is_active(CUdevice device, bool unless_told)
{
	unsigned int flags;
	int active;

	return cm_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS
		       ? active
		       : unless_told;
}

static CUresult retain(CUcontext *ctx, CUdevice device)
{
	CUresult res;
	bool made;

	cm_cancel_hold();
	cm_lock_acquire(primary_lock_of(device));
	made = !is_active(device, true);
	res = cm_real.cuDevicePrimaryCtxRetain(ctx, device);
	if (res == CUDA_SUCCESS && ctx) {
		if (made)
			cm_context_forget_former(*ctx);
		else
			cm_registry_await_removal(*ctx);
		(void)cm_context_note(*ctx, device, CM_CONTEXT_PRIMARY);
	}
	cm_lock_release(primary_lock_of(device));
	cm_cancel_allow();
	return res;
}

/* The primary context may be retained long before it is current on any thread. Room is made without
 * the lock, for a capture may be waited for that needs another retain. */
CUresult cm_wrap_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuDevicePrimaryCtxRetain(ctx, device);
	CM_RETRY_AFTER_TRIM_ON(device, 0, res, retain(ctx, device));
	if (res == CUDA_SUCCESS && ctx)
		cm_context_watch(*ctx);
	cm_hook_leave();
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

	cm_registry_begin_teardown(ctx);
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
		cm_context_forget(cache, leave->ctx);
	else if (leave->heap)
		cm_cache_resume_heap(leave->heap);
	if (cache) {
		cm_cache_context_has_ended(cache);
		cm_cache_unlock_contexts(cache);
	}
	if (cache && !gone && cm_context_is_lasting(res))
		cm_cache_drain_heap(cache, (uintptr_t)leave->ctx);
	/* Where it has gone, so has the note, and the handle may be noted anew. */
	if (gone)
		return;
	cm_registry_abort_teardown(leave->ctx);
	cm_context_watch(leave->ctx);
}

/* Of a call that was refused, whatever for: the handle is good to ask by. */
static bool stands(CUcontext ctx)
{
	const CUresult res = (CUresult)cm_context_push((uintptr_t)ctx);

	if (res == CUDA_SUCCESS)
		cm_context_pop();
	return res != CUDA_ERROR_INVALID_CONTEXT && res != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* What was met past our doors may have more users than are known, of whom one has left. What was
 * destroyed, or is not known, is not named. */
static bool has_ended(const struct cm_known_context *registry, bool detaches, CUresult res)
{
	/* An error that lasts is of work that has failed before: the call has done what it was to
	 * do, and the handle is not touched again. */
	if (res != CUDA_SUCCESS)
		return !registry->ctx || cm_context_is_lasting(res) || !stands(registry->ctx);
	return !detaches || !(registry->kind & CM_CONTEXT_MET) ||
	       cm_driver_ops()->ctx_is_dead((uintptr_t)registry->ctx);
}

static CUresult end_by_word(CUcontext ctx, const struct cm_known_context *registry, bool detaches,
			    CUresult (*real)(CUcontext ctx))
{
	const struct leave leave = begin_leave(ctx);
	const CUresult res = real(ctx);

	end_leave(&leave, has_ended(registry, detaches, res), res);
	return res;
}

CUresult cm_context_end(CUcontext ctx, bool detaches, CUresult (*real)(CUcontext ctx))
{
	const struct cm_known_context registry = cm_registry_read(ctx);
	struct cm_lock *lock;
	CUresult res;

	if (!(registry.kind & (CM_CONTEXT_MET | CM_CONTEXT_PRIMARY)))
		return end_by_word(ctx, &registry, detaches, real);
	lock = primary_lock_of(registry.device);
	cm_lock_acquire(lock);
	res = end_by_word(ctx, &registry, detaches, real);
	cm_lock_release(lock);
	return res;
}

/* Whether it has gone by a call that was answered so. After a reset it may be active again under
 * the same handle, with all memory gone. */
static bool has_gone(CUdevice device, bool reset, CUresult res)
{
	return (reset && res == CUDA_SUCCESS) || !is_active(device, res != CUDA_SUCCESS);
}

static void release(CUdevice device)
{
	if (cm_real_has(cuDevicePrimaryCtxRelease_v2))
		(void)cm_real.cuDevicePrimaryCtxRelease_v2(device);
	else
		(void)cm_real.cuDevicePrimaryCtxRelease(device);
}

/*
 * The noted primary context of the device, NULL: it is not noted. Where others were only met the
 * driver tells which it is, if any: retaining one that is active makes nothing, and is taken back
 * at once.
 */
static CUcontext find_primary(CUdevice device)
{
	CUcontext ctx = cm_registry_find(device, CM_CONTEXT_PRIMARY);

	if (ctx || !cm_registry_find(device, CM_CONTEXT_MET) || !is_active(device, false) ||
	    cm_real.cuDevicePrimaryCtxRetain(&ctx, device) != CUDA_SUCCESS)
		return ctx;
	release(device);
	if (!cm_registry_read(ctx).ctx)
		return NULL;
	(void)cm_context_note(ctx, device, CM_CONTEXT_PRIMARY);
	return ctx;
}

/* A primary context goes with its last release, or with a reset: the driver knows whether. */
static CUresult end_primary(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
{
	CUcontext ctx = find_primary(device);
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
		(void)cm_context_note(ctx, device, CM_CONTEXT_PRIMARY);
	return res;
}

static CUresult end_primary_alone(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
{
	struct cm_cache *cache;
	CUresult res;

	cm_cancel_hold();
	cm_lock_acquire(primary_lock_of(device));
	res = end_primary(device, reset, real);
	cm_lock_release(primary_lock_of(device));
	cm_cancel_allow();
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
