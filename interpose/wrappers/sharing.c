/* SPDX-License-Identifier: MIT */
/*
 * Hooks that export memory: to processes, network cards, the kernel. Exported memory is not
 * recycled; it goes back to the driver when the program frees it.
 *
 * A handle names the driver's whole allocation, and the importer gets its base. The base that a
 * program is told is its own block's (pointer.c), so what it hands on is the offset in the block: a
 * handle of a block inside a larger allocation is refused. Thread-safe.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "interpose/core/log.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"

#define NO_MEMORY ((CUdeviceptr)1) /* an address that belongs to no allocation */

static void mark_exported(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		(void)cm_cache_mark_exported(cache, addr);
}

static void log_not_exportable(const char *function, CUdeviceptr addr)
{
	cm_log(CM_LOG_WARNING,
	       "%s(0x%llx): this memory is part of a larger allocation and cannot be shared; set "
	       "CUDAMEM_CONF=placement:exact",
	       function, (unsigned long long)addr);
}

/* Only a block that starts its driver allocation has a handle; pages have none of this kind. */
static bool is_exportable(const struct cm_place_info *info)
{
	return info->block_addr == info->segment_addr && !(info->segment_flags & CM_SEGMENT_PAGED);
}

static CUresult export(CUipcMemHandle *handle, CUdeviceptr addr)
{
	const struct cm_place_info info = cm_process_lookup(addr);

	if (info.place == CM_PLACE_FOREIGN)
		return cm_real.cuIpcGetMemHandle(handle, addr);
	/* For the program this is a stale pointer, so let the driver refuse. */
	if (info.place == CM_PLACE_IDLE)
		return cm_real.cuIpcGetMemHandle(handle, NO_MEMORY);
	if (!is_exportable(&info)) {
		log_not_exportable("cuIpcGetMemHandle", addr);
		return CUDA_ERROR_INVALID_VALUE;
	}
	mark_exported(addr);
	return cm_real.cuIpcGetMemHandle(handle, addr);
}

/* clang-format off */
CM_WRAP(cuIpcGetMemHandle, (CUipcMemHandle *handle, CUdeviceptr addr), (handle, addr),
	export(handle, addr))
/* clang-format on */

/* The range may also cover a block that is still in use. */
static bool is_stale_range(const struct cm_place_info *info, CUdeviceptr addr, size_t bytes)
{
	return info->place == CM_PLACE_IDLE &&
	       (info->segment_is_idle || bytes <= info->block_addr + info->block_size - addr);
}

/* Pinned host memory can be exported as a file, not as a handle. False if the block is freed. */
static bool mark_host_exported(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return !cache || cm_cache_host_mark_exported(cache, addr) != -EFAULT;
}

/* Exports just the range, of any alignment that the driver accepts. */
static CUresult export_range(void *handle, CUdeviceptr addr, size_t bytes,
			     CUmemRangeHandleType type, unsigned long long flags)
{
	const struct cm_place_info info = cm_process_lookup(addr);
	const bool ours = info.place != CM_PLACE_FOREIGN;
	CUresult res;

	if (ours ? is_stale_range(&info, addr, bytes) : !mark_host_exported(addr))
		return cm_real.cuMemGetHandleForAddressRange(handle, NO_MEMORY, bytes, type, flags);
	if (ours)
		mark_exported(addr);
	res = cm_real.cuMemGetHandleForAddressRange(handle, addr, bytes, type, flags);
	if (res != CUDA_SUCCESS && ours && info.block_addr != info.segment_addr)
		log_not_exportable("cuMemGetHandleForAddressRange", addr);
	return res;
}

CM_WRAP(cuMemGetHandleForAddressRange,
	(void *handle, CUdeviceptr addr, size_t bytes, CUmemRangeHandleType type,
	 unsigned long long flags),
	(handle, addr, bytes, type, flags), export_range(handle, addr, bytes, type, flags))
