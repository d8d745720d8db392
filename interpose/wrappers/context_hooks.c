/* SPDX-License-Identifier: MIT */
/*
 * Hooks that create and destroy contexts, except primary ones (primary.c). Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/core/cancel.h"
#include "interpose/driver/context.h"
#include "interpose/process/process.h"
#include "interpose/wrappers/primary.h"
#include "interpose/wrappers/retry_after_trim.h"

/* After a creation: the new context is current. */
static CUresult register_created(CUresult res, CUcontext *ctx, CUdevice device)
{
	if (res != CUDA_SUCCESS || !ctx)
		return res;
	cm_context_forget_stale(*ctx);
	(void)cm_context_register(*ctx, device, CM_CONTEXT_CREATED);
	cm_context_track(*ctx);
	return res;
}

#define CREATE(symbol, params, pass)                                         \
	CUresult cm_wrap_##symbol params                                     \
	{                                                                    \
		CUresult res;                                                \
                                                                             \
		if (!cm_hook_enter())                                        \
			return cm_real.symbol pass;                          \
		CM_RETRY_AFTER_TRIM_ON(device, 0, res, cm_real.symbol pass); \
		res = register_created(res, ctx, device);                    \
		cm_hook_leave();                                             \
		return res;                                                  \
	}

/* clang-format off */
CREATE(cuCtxCreate, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CREATE(cuCtxCreate_v2, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CREATE(cuCtxCreate_v3,
       (CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags, CUdevice device),
       (ctx, params, n, flags, device))
/* clang-format on */

/* A context may be shared with a graphics API, which runs the work recorded in its streams at any
 * time: no event of the context covers that (cuda.h, cuStreamBeginCaptureToCig). */
CUresult cm_wrap_cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags,
				CUdevice device)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuCtxCreate_v4(ctx, params, flags, device);
	CM_RETRY_AFTER_TRIM_ON(device, 0, res, cm_real.cuCtxCreate_v4(ctx, params, flags, device));
	if (res == CUDA_SUCCESS && params && params->cigParams)
		cm_context_stop_caching("the program shares a context with a graphics API");
	res = register_created(res, ctx, device);
	cm_hook_leave();
	return res;
}

static CUresult end_context(CUcontext ctx, bool detaches, CUresult (*real)(CUcontext ctx))
{
	const CUresult res = cm_context_end(ctx, detaches, real);
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		cm_cache_forgotten(cache);
	return res;
}

static CUresult destroy_context(CUcontext ctx, CUresult (*real)(CUcontext ctx))
{
	return end_context(ctx, false, real);
}

/* Whether, as far as we know, the next detach destroys the context. It must be current. The driver
 * refuses to detach a primary context. */
static bool is_last_user(CUcontext ctx)
{
	const struct cm_known_context known = cm_registry_read(ctx);

	return known.ctx && known.kind != CM_CONTEXT_PRIMARY && !known.users &&
	       cm_context_current() == (uintptr_t)ctx;
}

static CUresult detach_context(CUcontext ctx, CUresult (*real)(CUcontext ctx))
{
	CUresult res;

	if (is_last_user(ctx))
		return end_context(ctx, true, real);
	/* It is the last one, after all, where the context has users that we do not know. */
	cm_context_forget_streams();
	res = real(ctx);
	if (res == CUDA_SUCCESS)
		cm_registry_count_users(ctx, -1);
	return res;
}

/* A wrapper that may destroy a context; the driver refuses NULL. Not cancellable: other threads
 * wait for a teardown that has begun. */
#define END(symbol, way)                            \
	CUresult cm_wrap_##symbol(CUcontext ctx)    \
	{                                           \
		CUresult res;                       \
                                                    \
		if (!ctx || !cm_hook_enter())       \
			return cm_real.symbol(ctx); \
		cm_cancel_hold();                   \
		res = way(ctx, cm_real.symbol);     \
		cm_cancel_allow();                  \
		cm_hook_leave();                    \
		return res;                         \
	}

END(cuCtxDestroy, destroy_context)
END(cuCtxDestroy_v2, destroy_context)
END(cuCtxDetach, detach_context)

static CUresult attach_context(CUcontext *ctx, unsigned int flags)
{
	const CUresult res = cm_real.cuCtxAttach(ctx, flags);

	if (res == CUDA_SUCCESS)
		cm_registry_count_users(*ctx, 1);
	return res;
}

static CUresult create_green(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device,
			     unsigned int flags)
{
	CUresult res;

	CM_RETRY_AFTER_TRIM_ON(device, 0, res,
			       cm_real.cuGreenCtxCreate(green, desc, device, flags));
	if (res == CUDA_SUCCESS)
		cm_context_stop_caching("the program uses green contexts");
	return res;
}

/* clang-format off */
CM_WRAP(cuCtxAttach, (CUcontext *ctx, unsigned int flags), (ctx, flags),
	attach_context(ctx, flags))
CM_WRAP(cuGreenCtxCreate,
	(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags),
	(green, desc, device, flags), create_green(green, desc, device, flags))
/* clang-format on */
