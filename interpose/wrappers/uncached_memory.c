/* SPDX-License-Identifier: MIT */
/*
 * Hooks of managed and pitched memory, arrays and mipmaps: passed on and counted.
 */
#include "interpose/wrappers/uncached_memory.h"

#include "allocator/cache.h"
#include "allocator/state/limit.h"
#include "interpose/driver/context.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/wrappers/array_size.h"

struct cm_uncached_request cm_uncached_begin(CUdevice device, uint64_t ctx,
					     enum cm_uncached_kind kind, uint64_t bytes)
{
	struct cm_uncached_request request = {.memory = {.ctx = ctx, .kind = kind, .bytes = bytes}};
	struct cm_cache *cache = cm_process_cache_for_request();
	uint32_t *row = &request.memory.device;

	if (cache && (device == CM_CURRENT_DEVICE ? cm_context_find_row(cache, row)
						  : cm_context_find_row_of(cache, device, row)))
		request.cache = cache;
	return request;
}

bool cm_uncached_may_ask(struct cm_uncached_request *request)
{
	struct cm_uncached_memory *memory = &request->memory;

	if (!request->cache || memory->taken == memory->bytes)
		return true;
	request->limited = !cm_cache_take_limit(request->cache, memory->device, memory->bytes);
	if (!request->limited)
		memory->taken = memory->bytes;
	return !request->limited;
}

void cm_uncached_settle(struct cm_uncached_request *request, enum cm_uncached_name name,
			uint64_t key, uint64_t bytes)
{
	request->memory.bytes = bytes;
	if (request->cache)
		cm_uncached_add(request->cache, name, key, &request->memory);
}

void cm_uncached_fail(const struct cm_uncached_request *request, CUresult res, uint64_t asked)
{
	const struct cm_uncached_memory *memory = &request->memory;

	if (!request->cache)
		return;
	cm_cache_give_limit(request->cache, memory->device, memory->taken);
	if (res == CUDA_ERROR_OUT_OF_MEMORY)
		cm_cache_report_uncached_oom(request->cache, memory->device, cm_context_current(),
					     memory->kind, asked, request->limited);
}

uint32_t cm_uncached_begin_free(enum cm_uncached_name name, uint64_t key)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache ? cm_uncached_take(cache, name, key) : 0;
}

CUresult cm_uncached_finish(uint32_t taken, CUresult res)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!taken || !cache)
		return res;
	if (res == CUDA_SUCCESS)
		cm_uncached_drop(cache, taken);
	else
		cm_uncached_put_back(cache, taken);
	return res;
}

/* More than any card has, if the product overflows. */
static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

static uint64_t plane_size(const CUDA_ARRAY_DESCRIPTOR *shape)
{
	return shape ? cm_array_size_2d(shape) : 0;
}

static uint64_t shape_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	return shape ? cm_array_size(shape, levels) : 0;
}

/* The host reads it, and kernels write to it. */
static uint64_t note_managed(CUdeviceptr addr)
{
	cm_host_work_include_kernels();
	return addr;
}

/* clang-format off */
CM_WRAP_UNCACHED_ALLOC(cuMemAllocManaged,
    (CUdeviceptr *addr, size_t bytes, unsigned int flags), (addr, bytes, flags),
    CM_UNCACHED_MANAGED, bytes, CM_NAME_ADDRESS, note_managed(*addr), bytes)
CM_WRAP_UNCACHED_ALLOC(cuMemAllocPitch_v2,
    (CUdeviceptr *addr, size_t *pitch, size_t width, size_t height, unsigned int element),
    (addr, pitch, width, height, element),
    CM_UNCACHED_PITCH, product(width, height), CM_NAME_ADDRESS, *addr, *pitch * height)
CM_WRAP_UNCACHED_ALLOC(cuArrayCreate_v2,
    (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape), (array, shape),
    CM_UNCACHED_ARRAY, plane_size(shape), CM_NAME_ARRAY, (uintptr_t)*array, wanted)
CM_WRAP_UNCACHED_ALLOC(cuArray3DCreate_v2,
    (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape), (array, shape),
    CM_UNCACHED_ARRAY, shape_size(shape, 1), CM_NAME_ARRAY, (uintptr_t)*array, wanted)
CM_WRAP_UNCACHED_ALLOC(cuMipmappedArrayCreate,
    (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels),
    (array, shape, levels),
    CM_UNCACHED_ARRAY, shape_size(shape, levels), CM_NAME_MIPMAP, (uintptr_t)*array, wanted)
CM_WRAP_UNCACHED_FREE(cuArrayDestroy, CUarray, CM_NAME_ARRAY)
CM_WRAP_UNCACHED_FREE(cuMipmappedArrayDestroy, CUmipmappedArray, CM_NAME_MIPMAP)
/* clang-format on */
