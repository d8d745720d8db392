/* SPDX-License-Identifier: MIT */
/*
 * Hooks of pointer attributes. The driver answers. Two attributes bind the driver allocation to
 * something outside, and such memory is not recycled: SYNC_MEMOPS, which network cards need and
 * which stays set, and P2P_TOKENS, which sets it too (cuda.h). Pages belong to no context for the
 * driver, so we name the context of a block on pages. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"

static void mark_bound(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!cache || !cm_hook_enter())
		return;
	(void)cm_cache_mark_exported(cache, addr);
	cm_hook_leave();
}

/* The context of a block on pages, or NULL. */
static CUcontext context_of_pages(struct cm_cache *cache, CUdeviceptr addr)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, addr, &info);
	if (info.place == CM_PLACE_FOREIGN || !(info.segment_flags & CM_SEGMENT_PAGED))
		return NULL;
	return (CUcontext)(uintptr_t)info.ctx;
}

/* Replaces the driver's successful answer for a block on pages. */
static void name_context(CUcontext *answer, CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUcontext found;

	if (!cache || !cm_process_policy()->expandable_segments || !cm_hook_enter())
		return;
	found = context_of_pages(cache, addr);
	if (found)
		*answer = found;
	cm_hook_leave();
}

CUresult cm_wrap_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr addr)
{
	CUresult res;

	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		mark_bound(addr);
	res = cm_real.cuPointerGetAttribute(data, attribute, addr);
	if (res == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		name_context(data, addr);
	return res;
}

CUresult cm_wrap_cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
					void **data, CUdeviceptr addr)
{
	unsigned int i;
	CUresult res;

	for (i = 0; attributes && i < n; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			mark_bound(addr);
	res = cm_real.cuPointerGetAttributes(n, attributes, data, addr);
	for (i = 0; res == CUDA_SUCCESS && attributes && i < n; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
			name_context(data[i], addr);
	return res;
}

CUresult cm_wrap_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				       CUdeviceptr addr)
{
	if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		mark_bound(addr);
	return cm_real.cuPointerSetAttribute(value, attribute, addr);
}
