/* SPDX-License-Identifier: MIT */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "memory.h"
#include "stream.h"

/* One end of a copy: where its first byte is, and how its rows lie. */
struct place {
	uint64_t addr;
	size_t pitch;
	size_t slice;
};

static bool find_array_place(CUarray handle, struct place *ret_place)
{
	const struct sim_array *array = sim_array_of(handle);

	if (!array)
		return false;
	*ret_place = (struct place){
		.addr = array->base,
		.pitch = sim_array_pitch(array),
		.slice = sim_array_slice(array),
	};
	return true;
}

static bool find_place(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
		       size_t pitch, size_t height, struct place *ret_place)
{
	*ret_place = (struct place){.pitch = pitch, .slice = pitch * height};
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		ret_place->addr = (uint64_t)(uintptr_t)host;
		return host != NULL;
	case CU_MEMORYTYPE_DEVICE:
		ret_place->addr = device;
		return sim_mem_find(device) != NULL;
	case CU_MEMORYTYPE_UNIFIED:
		ret_place->addr = device;
		return device != 0;
	case CU_MEMORYTYPE_ARRAY:
		return find_array_place(array, ret_place);
	}
	return false;
}

/* A pitch of 0 means rows without gaps, as a slice of 0 does for planes. */
static void complete_place(struct place *place, const CUDA_MEMCPY3D *params, size_t x, size_t y,
			   size_t z)
{
	if (!place->pitch)
		place->pitch = params->WidthInBytes;
	if (!place->slice)
		place->slice = place->pitch * params->Height;
	place->addr += x + y * place->pitch + z * place->slice;
}

CUresult sim_copy_describe(const CUDA_MEMCPY3D *params, struct sim_op *ret_op)
{
	struct place src;
	struct place dst;

	if (!params ||
	    !find_place(params->srcMemoryType, params->srcHost, params->srcDevice, params->srcArray,
			params->srcPitch, params->srcHeight, &src) ||
	    !find_place(params->dstMemoryType, params->dstHost, params->dstDevice, params->dstArray,
			params->dstPitch, params->dstHeight, &dst))
		return CUDA_ERROR_INVALID_VALUE;
	complete_place(&src, params, params->srcXInBytes, params->srcY, params->srcZ);
	complete_place(&dst, params, params->dstXInBytes, params->dstY, params->dstZ);
	if (params->Height > 1 &&
	    (src.pitch < params->WidthInBytes || dst.pitch < params->WidthInBytes))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_op = (struct sim_op){
		.kind = SIM_OP_COPY,
		.duration_ns = sim_op_move_ns(params->WidthInBytes * params->Height *
					      params->Depth),
		.u.copy =
			{
				.dst = dst.addr,
				.src = src.addr,
				.width = params->WidthInBytes,
				.height = params->Height,
				.depth = params->Depth,
				.dst_pitch = dst.pitch,
				.src_pitch = src.pitch,
				.dst_slice = dst.slice,
				.src_slice = src.slice,
			},
	};
	return sim_op_is_possible(ret_op) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_pageable(uint64_t addr)
{
	return !sim_mem_find(addr);
}

/* Managed memory, too: a copy between it and a device may be one that the host does not wait
 * for. */
static bool is_on_device(uint64_t addr)
{
	const struct sim_mem *mem = sim_mem_find(addr);

	return mem && (sim_mem_is_on_device(mem) || mem->kind == SIM_MEM_MANAGED);
}

/* The rows of the source are put one after the other. */
static bool stage(struct sim_copy *copy)
{
	struct sim_op gather = {.kind = SIM_OP_COPY, .u.copy = *copy};
	char *bytes = malloc(copy->width * copy->height * copy->depth + 1);

	if (!bytes)
		return false;
	gather.u.copy.dst = (uint64_t)(uintptr_t)bytes;
	gather.u.copy.dst_pitch = copy->width;
	gather.u.copy.dst_slice = copy->width * copy->height;
	(void)sim_op_run(&gather);
	copy->staged = bytes;
	copy->src_pitch = copy->width;
	copy->src_slice = copy->width * copy->height;
	return true;
}

CUresult sim_copy_submit(CUstream handle, struct sim_op *op, bool wait)
{
	struct sim_copy *copy = &op->u.copy;
	CUresult result;
	struct sim_stream *stream = sim_stream_of(handle, &result);

	if (!stream)
		return result;
	if (!copy->width || !copy->height || !copy->depth)
		return CUDA_SUCCESS;
	if (stream->capture)
		return sim_stream_submit(stream, op, NULL);
	if (is_pageable(copy->src)) {
		result = wait ? sim_stream_wait(stream) : CUDA_SUCCESS;
		if (result == CUDA_SUCCESS && !stage(copy))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (result != CUDA_SUCCESS)
			return result;
		wait = false;
	} else if (is_on_device(copy->src) && is_on_device(copy->dst)) {
		wait = false;
	}
	if (is_pageable(op->u.copy.dst))
		wait = true;
	return wait ? sim_stream_submit_and_wait(stream, op) : sim_stream_submit(stream, op, NULL);
}
