/* SPDX-License-Identifier: MIT */
/*
 * The hook that gives a context access to the memory of another one. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/driver/context.h"
#include "interpose/process/process.h"
#include "interpose/stacks/record.h"

/* Registers a peer that was created without a hook. */
static void register_peer(CUcontext ctx)
{
	CUdevice own;
	bool known;

	if (cm_context_push((uintptr_t)ctx))
		return;
	known = cm_real.cuCtxGetDevice(&own) == CUDA_SUCCESS;
	cm_context_pop();
	/* While a capture is active no heap is made: querying a context may invalidate the
	 * capture. */
	if (known && cm_context_register(ctx, own, CM_CONTEXT_SEEN) && !cm_capture_is_active())
		cm_context_track(ctx);
}

/*
 * cuCtxEnablePeerAccess succeeded: maps the peer's pages, present and future, for the current
 * device too. If the driver refuses that, access is taken back and the program gets the error, as
 * on cards without peer access: it can handle that, but a kernel that touches an unmapped page
 * cannot.
 */
static CUresult open_pages(CUcontext peer, CUdevice device)
{
	struct cm_cache *cache;
	int err;

	register_peer(peer);
	cm_registry_open_to(peer, device);
	/* After open_to was recorded: a cache or heap made meanwhile reads it. */
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
	CUresult res, opened;

	if (!cm_hook_enter())
		return cm_real.cuCtxEnablePeerAccess(peer, flags);
	/* Before the call: as soon as it returns, work may reach the memory. */
	cache = cm_process_cache_if_made();
	if (cache)
		cm_cache_mark_shared(cache, (uintptr_t)peer);
	res = cm_real.cuCtxEnablePeerAccess(peer, flags);
	/* If it was given already, the thread that asked for it may not have opened the pages. */
	if ((res == CUDA_SUCCESS || res == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) &&
	    cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device < CM_DEVICES_MAX) {
		opened = open_pages(peer, device);
		if (opened != CUDA_SUCCESS)
			res = opened;
	}
	if (res == CUDA_SUCCESS)
		cm_record_cause(CM_CAUSE_PEERS, "cuCtxEnablePeerAccess", true);
	cm_hook_leave();
	return res;
}
