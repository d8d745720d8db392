/* SPDX-License-Identifier: MIT */
/*
 * Hooks of managed and pitched memory, arrays and mipmaps: passed on and counted.
 */
#include "interpose/wrappers/uncached_memory.h"

#include "allocator/cache.h"
#include "interpose/driver/context.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/wrappers/array_size.h"
#include "interpose/wrappers/retry_after_trim.h"

void cm_uncached_note(enum cm_uncached_kind kind, enum cm_uncached_name name, uint64_t key,
		      uint64_t bytes)
{
	struct cm_cache *cache = cm_process_cache();
	struct cm_uncached_memory memory = {.kind = kind, .bytes = bytes};

	if (!cache || !cm_context_find_row(cache, &memory.device))
		return;
	memory.ctx = cm_context_current();
	cm_uncached_add(cache, name, key, &memory);
}

static void report_oom(struct cm_cache *cache, uint32_t row, enum cm_uncached_kind kind,
		       uint64_t bytes)
{
	cm_cache_report_uncached_oom(cache, row, cm_context_current(), kind, bytes);
}

void cm_uncached_report_oom(enum cm_uncached_kind kind, uint64_t bytes)
{
	struct cm_cache *cache = cm_process_cache();
	uint32_t row;

	if (cache && cm_context_find_row(cache, &row))
		report_oom(cache, row, kind, bytes);
}

void cm_uncached_report_oom_on(CUdevice device, enum cm_uncached_kind kind, uint64_t bytes)
{
	struct cm_cache *cache = cm_process_cache();
	uint32_t row;

	if (cache && cm_context_find_row_of(cache, device, &row))
		report_oom(cache, row, kind, bytes);
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

/* The host reads it, and kernels write to it. */
static void note_managed(CUdeviceptr addr, size_t bytes)
{
	cm_host_work_count_kernels();
	cm_uncached_note(CM_UNCACHED_MANAGED, CM_NAME_ADDRESS, addr, bytes);
}

/* clang-format off */
CM_WRAP_UNCACHED_ALLOC(cuMemAllocManaged,
    (CUdeviceptr *addr, size_t bytes, unsigned int flags), (addr, bytes, flags),
    CM_UNCACHED_MANAGED, bytes, note_managed(*addr, bytes))
CM_WRAP_UNCACHED_ALLOC(cuMemAllocPitch_v2,
    (CUdeviceptr *addr, size_t *pitch, size_t width, size_t height, unsigned int element),
    (addr, pitch, width, height, element), CM_UNCACHED_PITCH, width * height,
    cm_uncached_note(CM_UNCACHED_PITCH, CM_NAME_ADDRESS, *addr, *pitch * height))
CM_WRAP_UNCACHED_ALLOC(cuArrayCreate_v2,
    (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape), (array, shape),
    CM_UNCACHED_ARRAY, cm_array_size_2d(shape),
    cm_uncached_note(CM_UNCACHED_ARRAY, CM_NAME_ARRAY, (uintptr_t)*array, cm_array_size_2d(shape)))
CM_WRAP_UNCACHED_ALLOC(cuArray3DCreate_v2,
    (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape), (array, shape),
    CM_UNCACHED_ARRAY, cm_array_size(shape, 1),
    cm_uncached_note(CM_UNCACHED_ARRAY, CM_NAME_ARRAY, (uintptr_t)*array, cm_array_size(shape, 1)))
CM_WRAP_UNCACHED_ALLOC(cuMipmappedArrayCreate,
    (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels),
    (array, shape, levels), CM_UNCACHED_ARRAY, cm_array_size(shape, levels),
    cm_uncached_note(CM_UNCACHED_ARRAY, CM_NAME_MIPMAP, (uintptr_t)*array,
		  cm_array_size(shape, levels)))
CM_WRAP_UNCACHED_FREE(cuArrayDestroy, CUarray, CM_NAME_ARRAY)
CM_WRAP_UNCACHED_FREE(cuMipmappedArrayDestroy, CUmipmappedArray, CM_NAME_MIPMAP)
/* clang-format on */
