/* SPDX-License-Identifier: MIT */
/*
 * Hooks of primary contexts, and the teardown of any context by its handle. A primary context ends
 * with its last release or with a reset; only the driver knows which release is the last.
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
 * Serialises retain, release and reset of a device's primary context, by ordinal. Otherwise a
 * release that destroys it could find it active again under the same handle. Held across the
 * driver's call, and taken before every other lock.
 */
static struct cm_lock primary_lock[CM_DEVICES_MAX] = {
	[0 ... CM_DEVICES_MAX - 1] = CM_LOCK_FREE(CM_LOCK_PRIMARY)};

/* In a forked child, even if the library has not started and forgets nothing else. */
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

static bool is_active(CUdevice device, bool if_unknown)
{
	unsigned int flags;
	int active;

	return cm_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS
		       ? active
		       : if_unknown;
}

/* `made`: it is new. Else it may have been created without our hooks, and have work. */
static void register_primary(CUcontext ctx, CUdevice device, bool made)
{
	if (!made)
		(void)cm_context_register(ctx, device, CM_CONTEXT_SEEN);
	(void)cm_context_register(ctx, device, CM_CONTEXT_PRIMARY);
}

static CUresult retain_primary(CUcontext *ctx, CUdevice device)
{
	CUresult res;
	bool made;

	cm_cancel_hold();
	cm_lock_acquire(primary_lock_of(device));
	made = !is_active(device, true);
	res = cm_real.cuDevicePrimaryCtxRetain(ctx, device);
	if (res == CUDA_SUCCESS && ctx) {
		if (made)
			cm_context_forget_stale(*ctx);
		else
			cm_registry_await_removal(*ctx);
		register_primary(*ctx, device, made);
	}
	cm_lock_release(primary_lock_of(device));
	cm_cancel_allow();
	return res;
}

/* The primary context may be retained long before it is current on any thread. Trims without the
 * lock: it may wait for a capture that needs another retain. */
CUresult cm_wrap_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuDevicePrimaryCtxRetain(ctx, device);
	CM_RETRY_AFTER_TRIM_ON(device, 0, res, retain_primary(ctx, device));
	if (res == CUDA_SUCCESS && ctx)
		cm_context_track(*ctx);
	cm_hook_leave();
	return res;
}

/* A teardown whose outcome the driver decides. */
struct teardown {
	struct cm_cache *cache; /* NULL: there was none */
	struct cm_heap *heap;
	CUcontext ctx;
};

static struct teardown begin_teardown(CUcontext ctx)
{
	struct teardown teardown = {.ctx = ctx};

	cm_registry_begin_teardown(ctx);
	teardown.cache = cm_process_cache_if_made();
	if (!teardown.cache)
		return teardown;
	cm_cache_lock_contexts(teardown.cache);
	teardown.heap = cm_cache_suspend_heap(teardown.cache, (uintptr_t)ctx);
	if (!teardown.heap)
		cm_cache_context_is_ending(teardown.cache);
	cm_cache_unlock_contexts(teardown.cache);
	cm_heap_await_calls(teardown.heap);
	return teardown;
}

/* Ends a teardown: forgets a context that is gone, and resumes one that stayed. `res` is the
 * driver's result; after a sticky error nothing more is cached. */
static void end_teardown(const struct teardown *teardown, bool gone, CUresult res)
{
	struct cm_cache *cache = teardown->cache;

	if (cache)
		cm_cache_lock_contexts(cache);
	if (gone)
		cm_context_forget(cache, teardown->ctx);
	else if (teardown->heap)
		cm_cache_resume_heap(teardown->heap);
	if (cache) {
		if (!teardown->heap)
			cm_cache_context_has_ended(cache);
		cm_cache_unlock_contexts(cache);
	}
	if (cache && !gone && cm_context_is_sticky(res))
		cm_cache_drain_heap(cache, (uintptr_t)teardown->ctx);
	/* A context that is gone is no longer registered, and its handle may be registered anew. */
	if (gone)
		return;
	cm_registry_abort_teardown(teardown->ctx);
	cm_context_track(teardown->ctx);
}

/* Whether the context still exists after a refused call: its handle can then be pushed. */
static bool exists(CUcontext ctx)
{
	const CUresult res = (CUresult)cm_context_push((uintptr_t)ctx);

	if (res == CUDA_SUCCESS)
		cm_context_pop();
	return res != CUDA_ERROR_INVALID_CONTEXT && res != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Whether the context has ended. One created without a hook may have more users than we know. One
 * that was destroyed, or is unknown, must not be named. */
static bool has_ended(const struct cm_known_context *known, bool detaches, CUresult res)
{
	/* A sticky error reports earlier work: the call has taken effect, so the handle must not be
	 * used again. */
	if (res != CUDA_SUCCESS)
		return !known->ctx || cm_context_is_sticky(res) || !exists(known->ctx);
	return !detaches || !(known->kind & CM_CONTEXT_SEEN) ||
	       cm_driver_ops()->ctx_is_dead((uintptr_t)known->ctx);
}

static CUresult end_by_handle(CUcontext ctx, const struct cm_known_context *known, bool detaches,
			      CUresult (*real)(CUcontext ctx))
{
	const struct teardown teardown = begin_teardown(ctx);
	const CUresult res = real(ctx);

	end_teardown(&teardown, has_ended(known, detaches, res), res);
	return res;
}

CUresult cm_context_end(CUcontext ctx, bool detaches, CUresult (*real)(CUcontext ctx))
{
	const struct cm_known_context known = cm_registry_read(ctx);
	struct cm_lock *lock;
	CUresult res;

	if (!(known.kind & (CM_CONTEXT_SEEN | CM_CONTEXT_PRIMARY)))
		return end_by_handle(ctx, &known, detaches, real);
	lock = primary_lock_of(known.device);
	cm_lock_acquire(lock);
	res = end_by_handle(ctx, &known, detaches, real);
	cm_lock_release(lock);
	return res;
}

/* Whether the call, which returned `res`, ended the context. After a reset it may be active again
 * under the same handle, with all memory gone. */
static bool has_gone(CUdevice device, bool reset, CUresult res)
{
	return (reset && res == CUDA_SUCCESS) || !is_active(device, res != CUDA_SUCCESS);
}

static void release_primary(CUdevice device)
{
	if (cm_real_has(cuDevicePrimaryCtxRelease_v2))
		(void)cm_real.cuDevicePrimaryCtxRelease_v2(device);
	else
		(void)cm_real.cuDevicePrimaryCtxRelease(device);
}

/* The primary context of the device, or NULL if there is none. The driver names one that is not
 * registered: retaining it while it is active creates nothing, and is undone at once. */
static CUcontext find_primary(CUdevice device)
{
	CUcontext ctx = cm_registry_find(device, CM_CONTEXT_PRIMARY);

	if (ctx || !is_active(device, false) ||
	    cm_real.cuDevicePrimaryCtxRetain(&ctx, device) != CUDA_SUCCESS)
		return ctx;
	release_primary(device);
	register_primary(ctx, device, false);
	return ctx;
}

/* Releases or resets the primary context; only the driver knows whether it ends. */
static CUresult end_primary(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
{
	CUcontext ctx = find_primary(device);
	struct teardown teardown;
	CUresult res;
	bool gone;

	if (!ctx)
		return real(device);
	teardown = begin_teardown(ctx);
	res = real(device);
	gone = has_gone(device, reset, res);
	end_teardown(&teardown, gone, res);
	if (gone && is_active(device, false))
		(void)cm_context_register(ctx, device, CM_CONTEXT_PRIMARY);
	return res;
}

static CUresult end_primary_locked(CUdevice device, bool reset, CUresult (*real)(CUdevice device))
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

#define END_PRIMARY(symbol, reset)                   \
	CM_WRAP(symbol, (CUdevice device), (device), \
		end_primary_locked(device, reset, cm_real.symbol))

/* clang-format off */
END_PRIMARY(cuDevicePrimaryCtxRelease, false)
END_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
END_PRIMARY(cuDevicePrimaryCtxReset, true)
END_PRIMARY(cuDevicePrimaryCtxReset_v2, true)
/* clang-format on */
