/* SPDX-License-Identifier: MIT */
/* Launching kernels. */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "graph.h"
#include "launch.h"
#include "module.h"
#include "stream.h"

enum { MAX_THREADS = 1024 };

/* The parameters as one buffer, each at its natural alignment: the form that "extra" may give. */
static bool read_packed(const struct sim_kernel *kernel, void **extra, uint64_t *values)
{
	const char *buffer = NULL;
	size_t size = 0;
	size_t offset = 0;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[1];
		else
			return false;
	}
	for (unsigned i = 0; i < kernel->param_count; i++) {
		size_t bytes = kernel->param_bytes[i];

		offset = (offset + bytes - 1) & ~(bytes - 1);
		if (!buffer || offset + bytes > size)
			return false;
		memcpy(&values[i], buffer + offset, bytes);
		offset += bytes;
	}
	return true;
}

static bool read_params(const struct sim_kernel *kernel, void **params, void **extra,
			uint64_t *values)
{
	if (!kernel->param_count)
		return true;
	if (extra)
		return !params && read_packed(kernel, extra, values);
	for (unsigned i = 0; params && i < kernel->param_count; i++)
		memcpy(&values[i], params[i], kernel->param_bytes[i]);
	return params != NULL;
}

static CUresult prepare(CUfunction handle, void **params, void **extra, struct sim_op *ret_op)
{
	struct sim_function *function = sim_function_of(handle);
	struct sim_kernel_run *run;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	run = calloc(1, sizeof(*run));
	if (!run)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run->kernel = function->kernel;
	run->ctx = sim_ctx_handle(function->module->ctx);
	if (!read_params(&run->kernel, params, extra, run->values)) {
		free(run);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_op = (struct sim_op){.kind = SIM_OP_KERNEL, .u.kernel = run};
	ret_op->duration_ns = run->kernel.time_ns + sim_kernel_amount(run, &run->kernel.more_ns);
	return CUDA_SUCCESS;
}

static bool is_grid(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz)
{
	return gx && gy && gz && bx && by && bz && gy < 65536 && gz < 65536 &&
	       (uint64_t)bx * by * bz <= MAX_THREADS;
}

static CUresult launch(CUfunction function, CUstream handle, void **params, void **extra)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(handle, &result);
	struct sim_op op;

	if (!stream)
		return result;
	result = prepare(function, params, extra, &op);
	return result == CUDA_SUCCESS ? sim_stream_submit(stream, &op, NULL) : result;
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			    void **kernelParams, void **extra)
{
	(void)sharedMemBytes;
	if (!is_grid(gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, hStream, kernelParams, extra);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			      void **extra)
{
	if (!config || !is_grid(config->gridDimX, config->gridDimY, config->gridDimZ,
				config->blockDimX, config->blockDimY, config->blockDimZ))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, config->hStream, kernelParams, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				       unsigned int gridDimZ, unsigned int blockDimX,
				       unsigned int blockDimY, unsigned int blockDimZ,
				       unsigned int sharedMemBytes, CUstream hStream,
				       void **kernelParams)
{
	return sim_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
				  sharedMemBytes, hStream, kernelParams, NULL);
}

CUresult sim_launch_describe(CUfunction function, CUkernel kernel, CUcontext ctx, void **params,
			     void **extra, struct sim_op *ret_op)
{
	CUresult result;

	if (function)
		return prepare(function, params, extra, ret_op);
	if (ctx && !sim_ctx_of(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = prepare((CUfunction)(void *)kernel, params, extra, ret_op);
	if (result == CUDA_SUCCESS)
		ret_op->u.kernel->ctx = ctx ? ctx : sim_ctx_handle(sim_ctx_current());
	return result;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_op op;
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_launch_describe(nodeParams->func, nodeParams->kern, nodeParams->ctx,
				     nodeParams->kernelParams, nodeParams->extra, &op);
	if (result != CUDA_SUCCESS)
		return result;
	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_KERNEL, &op, NULL);
}

/* The form of CUDA 11, which knows functions alone. */
CUresult sim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_op op;
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = prepare(nodeParams->func, nodeParams->kernelParams, nodeParams->extra, &op);
	if (result != CUDA_SUCCESS)
		return result;
	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_KERNEL, &op, NULL);
}
