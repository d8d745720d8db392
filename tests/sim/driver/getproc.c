/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the newest form of a name that both the caller's version and the driver's
 * know, as cuda.h describes. The map is calls.def.
 */
#include "call.h"

#include <string.h>

#include "plan.h"

/* Where a name has no per-thread form, the plain one serves. */
static const struct sim_call_info *find(const char *symbol, int version, bool per_thread,
					bool *ret_known)
{
	const struct sim_call_info *best = NULL;

	*ret_known = false;
	for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
		const struct sim_call_info *info = &sim_calls[i];
		bool is_per_thread = info->flags & SIM_PER_THREAD;

		if (strcmp(info->base, symbol) || (is_per_thread && !per_thread) ||
		    info->version > (unsigned)sim_plan.version)
			continue;
		*ret_known = true;
		if (info->version > (unsigned)version)
			continue;
		if (!best || (is_per_thread && !(best->flags & SIM_PER_THREAD)) ||
		    (is_per_thread == !!(best->flags & SIM_PER_THREAD) &&
		     info->version > best->version))
			best = info;
	}
	return best;
}

static CUresult look_up(const char *symbol, void **pfn, int version, cuuint64_t flags,
			CUdriverProcAddressQueryResult *ret_status)
{
	const struct sim_call_info *info;
	bool known;

	if (!symbol || !*symbol || !pfn || version > sim_plan.version ||
	    (flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
		return CUDA_ERROR_INVALID_VALUE;
	info = find(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	*pfn = info ? info->function : NULL;
	*ret_status = info    ? CU_GET_PROC_ADDRESS_SUCCESS
		      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* The form of CUDA 11, which had no place for a status. */
CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = look_up(symbol, pfn, driverVersion, flags, &status);

	if (result == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS)
		return CUDA_ERROR_NOT_FOUND;
	return result;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion,
				 cuuint64_t flags, CUdriverProcAddressQueryResult *symbolFound)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = look_up(symbol, pfn, driverVersion, flags, &status);

	if (result == CUDA_SUCCESS && symbolFound)
		*symbolFound = status;
	return result;
}

/* The tables behind it are not public; there are none. */
CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	(void)ppExportTable;
	(void)pExportTableId;
	return CUDA_ERROR_NOT_FOUND;
}
