/* SPDX-License-Identifier: MIT */
/*
 * Hooks of the program's waits for all work of a context. After a wait that succeeds, what was
 * freed before it is ready, without an event. The wait for a stream or for an event shows nothing
 * of other streams, and is not hooked. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/driver/context.h"
#include "interpose/driver/current.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"

/* NULL: of the current context. */
static struct cm_program_wait begin_wait(const CUcontext *ctx)
{
	struct cm_program_wait wait = {0};
	struct cm_cache *cache;

	if (!cm_hook_enter())
		return wait;
	cache = cm_process_cache_if_made();
	if (cache)
		wait = cm_cache_begin_wait(cache, ctx ? (uintptr_t)*ctx : cm_context_current());
	cm_hook_leave();
	return wait;
}

/* An error of work that has failed is that of the context, and lasts. */
static void end_wait(const struct cm_program_wait *wait, const CUcontext *ctx, CUresult res)
{
	if ((res == CUDA_SUCCESS && !wait->shards) || !cm_hook_enter())
		return;
	if (res == CUDA_SUCCESS)
		cm_cache_end_wait(wait);
	else
		cm_context_note_error_of(ctx ? (uintptr_t)*ctx : cm_context_current(), res);
	cm_hook_leave();
}

/* Outside the hook, since the call may take long, and its thread may be cancelled in it. */
CUresult cm_wrap_cuCtxSynchronize(void)
{
	const struct cm_program_wait wait = begin_wait(NULL);
	const CUresult res = cm_real.cuCtxSynchronize();

	end_wait(&wait, NULL, res);
	return res;
}

CUresult cm_wrap_cuCtxSynchronize_v2(CUcontext ctx)
{
	const struct cm_program_wait wait = begin_wait(&ctx);
	const CUresult res = cm_real.cuCtxSynchronize_v2(ctx);

	end_wait(&wait, &ctx, res);
	return res;
}
