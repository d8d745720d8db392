/* SPDX-License-Identifier: MIT */
/*
 * Hooks of queries about addresses. The driver answers, except where its answer is about its whole
 * allocation: the range of a block is the block, as a program may fill the range that it gets;
 * addresses in no block of the program have no range.
 *
 * Two attributes bind the driver allocation to something outside, and such memory is not recycled:
 * SYNC_MEMOPS, which network cards need and which stays set, and P2P_TOKENS, which sets it too
 * (cuda.h). Pages belong to no context for the driver, so we name the context of a block on pages.
 * Thread-safe.
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

#define NO_MEMORY ((CUdeviceptr)1) /* an address that belongs to no allocation */

static bool is_in_use(enum cm_place place)
{
	return place == CM_PLACE_LIVE || place == CM_PLACE_INTERIOR;
}

static CUresult find_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr addr)
{
	const struct cm_place_info info = cm_process_lookup(addr);
	CUresult res = cm_real.cuMemGetAddressRange_v2(
		base, bytes, info.place == CM_PLACE_IDLE ? NO_MEMORY : addr);

	if (res != CUDA_SUCCESS || !is_in_use(info.place))
		return res;
	if (base)
		*base = info.block_addr;
	if (bytes)
		*bytes = info.requested;
	return res;
}

/* clang-format off */
CM_WRAP(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *bytes, CUdeviceptr addr),
	(base, bytes, addr), find_range(base, bytes, addr))
/* clang-format on */

static bool is_of_range(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
	       attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

/* The answer to a query about the range of an address: 0 if it is no memory, as with
 * cuPointerGetAttributes. */
static uint64_t range_part(CUpointer_attribute attribute, const struct cm_place_info *info)
{
	if (!is_in_use(info->place))
		return 0;
	return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? info->block_addr
								  : info->requested;
}

/* Replaces the driver's successful answer if it is about its whole allocation: a block inside has
 * no handle (sharing.c). */
static void name_block(void *answer, CUpointer_attribute attribute, CUdeviceptr addr)
{
	struct cm_place_info info;

	if ((!is_of_range(attribute) &&
	     attribute != CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) ||
	    !cm_hook_enter())
		return;
	info = cm_process_lookup(addr);
	if (info.place == CM_PLACE_FOREIGN)
		; /* the driver's answer stays */
	else if (is_of_range(attribute))
		*(uint64_t *)answer = range_part(attribute, &info);
	else if (info.block_addr != info.segment_addr)
		*(bool *)answer = false;
	cm_hook_leave();
}

/* Replaces the driver's successful answer for a block on pages. */
static void name_context(CUcontext *answer, CUdeviceptr addr)
{
	const struct cm_policy *policy = cm_process_policy();
	struct cm_place_info info;

	if (!policy || !policy->expandable_segments || !cm_hook_enter())
		return;
	info = cm_process_lookup(addr);
	if (info.segment_flags & CM_SEGMENT_PAGED)
		*answer = (CUcontext)(uintptr_t)info.ctx;
	cm_hook_leave();
}

static bool is_gone(CUdeviceptr addr)
{
	bool gone;

	if (!cm_hook_enter())
		return false;
	gone = cm_process_lookup(addr).place == CM_PLACE_IDLE;
	cm_hook_leave();
	return gone;
}

CUresult cm_wrap_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr addr)
{
	CUresult res;

	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		mark_bound(addr);
	if (is_of_range(attribute) && is_gone(addr))
		addr = NO_MEMORY;
	res = cm_real.cuPointerGetAttribute(data, attribute, addr);
	if (res == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		name_context(data, addr);
	if (res == CUDA_SUCCESS)
		name_block(data, attribute, addr);
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
	for (i = 0; res == CUDA_SUCCESS && attributes && i < n; i++)
		name_block(data[i], attributes[i], addr);
	return res;
}

CUresult cm_wrap_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				       CUdeviceptr addr)
{
	if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		mark_bound(addr);
	return cm_real.cuPointerSetAttribute(value, attribute, addr);
}
