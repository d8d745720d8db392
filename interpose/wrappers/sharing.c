/* SPDX-License-Identifier: MIT */
/*
 * The doors by which memory is shown to others: processes, network cards, the kernel. Memory once
 * shown is not recycled; it is given back for good when the program frees it.
 *
 * What the driver says of an address holds for its whole allocation, and nothing of that is changed
 * here: who asks for the base and hands on the offset reaches the right bytes even of a block that
 * is a piece of an allocation. Where an importer would get the base instead, the call is refused.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "interpose/core/log.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"

#define NO_MEMORY ((CUdeviceptr)1) /* an address that is nobody's */

/* False: the memory is not ours. */
static bool find(CUdeviceptr addr, struct cm_place_info *ret_info)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!cache)
		return false;
	cm_cache_lookup(cache, addr, ret_info);
	return ret_info->place != CM_PLACE_FOREIGN;
}

static void mark_shown(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		(void)cm_cache_mark_exported(cache, addr);
}

static void tell(const char *function, CUdeviceptr addr)
{
	cm_log(CM_LOG_WARNING,
	       "%s(0x%llx): this memory is part of a larger allocation and can't be shared; set "
	       "CUDAMEM_CONF=placement:exact",
	       function, (unsigned long long)addr);
}

/* Pages have no handles of this kind, and a piece has none of its own. */
static bool is_exportable(const struct cm_place_info *info)
{
	return info->block_addr == info->segment_addr && !(info->segment_flags & CM_SEGMENT_PAGED);
}

/* Memory that the program has freed, and that is not the base of what it still has. */
static bool is_stale(const struct cm_place_info *info)
{
	return info->place == CM_PLACE_IDLE && (info->segment_is_idle || !is_exportable(info));
}

/* A handle names a whole driver allocation, and an importer gets its base. */
static CUresult export(CUipcMemHandle *handle, CUdeviceptr addr)
{
	struct cm_place_info info;

	if (!find(addr, &info))
		return cm_real.cuIpcGetMemHandle(handle, addr);
	/* The driver has no memory there, as it has none at a stale pointer. */
	if (is_stale(&info))
		return cm_real.cuIpcGetMemHandle(handle, NO_MEMORY);
	if (!is_exportable(&info)) {
		tell("cuIpcGetMemHandle", addr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	mark_shown(addr);
	return cm_real.cuIpcGetMemHandle(handle, addr);
}

CUresult cm_wrap_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr addr)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuIpcGetMemHandle(handle, addr);
	res = export(handle, addr);
	cm_hook_leave();
	return res;
}

/* The range may be that of an allocation of which another block is in use. */
static bool is_stale_range(const struct cm_place_info *info, CUdeviceptr addr, size_t bytes)
{
	return info->place == CM_PLACE_IDLE &&
	       (info->segment_is_idle || bytes <= info->block_addr + info->block_size - addr);
}

/* Pinned host memory has files, too, and no handles. False: it is freed. */
static bool mark_host_shown(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return !cache || cm_cache_host_mark_exported(cache, addr) != -EFAULT;
}

/* A file of just the range, which may be any that the driver's alignment allows. */
static CUresult export_range(void *handle, CUdeviceptr addr, size_t bytes,
			     CUmemRangeHandleType type, unsigned long long flags)
{
	struct cm_place_info info;
	CUresult res;
	bool ours;

	ours = find(addr, &info);
	if (ours ? is_stale_range(&info, addr, bytes) : !mark_host_shown(addr))
		return cm_real.cuMemGetHandleForAddressRange(handle, NO_MEMORY, bytes, type, flags);
	if (ours)
		mark_shown(addr);
	res = cm_real.cuMemGetHandleForAddressRange(handle, addr, bytes, type, flags);
	if (res != CUDA_SUCCESS && ours && info.block_addr != info.segment_addr)
		tell("cuMemGetHandleForAddressRange", addr);
	return res;
}

CUresult cm_wrap_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr addr, size_t bytes,
					       CUmemRangeHandleType type, unsigned long long flags)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuMemGetHandleForAddressRange(handle, addr, bytes, type, flags);
	res = export_range(handle, addr, bytes, type, flags);
	cm_hook_leave();
	return res;
}
