/* SPDX-License-Identifier: MIT */
/* What can be asked of a context, and set in it. */
#include "capture.h"
#include "context.h"

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = sim_ctx_current()->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	const struct sim_ctx *asked = sim_ctx_of(ctx);

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!asked)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = asked->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	const struct sim_ctx *asked = sim_ctx_of(ctx);

	if (!asked)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	*ctxId = asked->object.id;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_ctx_current()->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_ctx_current()->flags = flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	const struct sim_ctx *asked = sim_ctx_of(ctx);

	if (!asked)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = asked->version;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)limit >= SIM_LIMIT_COUNT)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = sim_ctx_current()->limits[limit];
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
	if ((unsigned)limit >= SIM_LIMIT_COUNT)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_ctx_current()->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	if (!pconfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = sim_ctx_current()->cache;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
	sim_ctx_current()->cache = config;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	if (!pConfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pConfig = sim_ctx_current()->shared;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	sim_ctx_current()->shared = config;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
	return CUDA_SUCCESS;
}

static CUresult synchronize(struct sim_ctx *ctx)
{
	CUresult result = sim_capture_check_context(ctx);

	return result == CUDA_SUCCESS ? sim_ctx_synchronize(ctx) : result;
}

CUresult sim_cuCtxSynchronize(void)
{
	return synchronize(sim_ctx_current());
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct sim_ctx *asked = sim_ctx_of(ctx);

	return asked ? synchronize(asked) : CUDA_ERROR_INVALID_CONTEXT;
}
