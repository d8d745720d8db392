/* SPDX-License-Identifier: MIT */
/*
 * The door by which a context reaches another one's memory.
 */
#include "allocator/cache.h"
#include "interpose/driver/context.h"
#include "interpose/process/process.h"

/* The context may have been made past our doors: then it is known from now on. */
static void meet(CUcontext ctx)
{
	CUdevice own;
	bool told;

	if (cm_context_push((uintptr_t)ctx))
		return;
	told = cm_real.cuCtxGetDevice(&own) == CUDA_SUCCESS;
	cm_context_pop();
	/* While a capture is active none gets a heap, since to ask of a context may spoil it. */
	if (told && cm_context_note(ctx, own, CM_CONTEXT_MET) && !cm_capture_is_active())
		cm_context_watch(ctx);
}

/*
 * The current context was given access to the peer's memory, for which the program hears success.
 * Pages want access of their own, those that the heap has and is to get. Where the driver refuses
 * that, the program hears so and has no access, as on cards that can't: it has another way then,
 * and a kernel that touches a closed page has none.
 */
static CUresult open_pages(CUcontext peer, CUdevice device)
{
	struct cm_cache *cache;
	int err;

	meet(peer);
	cm_registry_open_to(peer, device);
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
