/* SPDX-License-Identifier: MIT */
/*
 * The hooks of what copies, fills and writes memory. Each goes to the driver as it is; what the
 * host may see of it is noted once the driver has accepted it (host_work.h).
 */
#include "interpose/driver/host_memory_ends.h"
#include "interpose/driver/host_work.h"
#include "interpose/symbols/hooks.h"

#define HOST(addr)         true
#define ANY(addr)          cm_end_is_host(addr)
#define DEVICE(addr)       cm_end_of_device_is_host(addr)
#define LIST(list, count)  cm_ends_of_list_are_host(list, count)
#define BOXES(list, count) cm_ends_of_boxes_are_host(list, count)
#define BOX(copy)                                                           \
	(cm_end_of_box_is_host((copy)->srcMemoryType, (copy)->srcDevice) || \
	 cm_end_of_box_is_host((copy)->dstMemoryType, (copy)->dstDevice))

/* Inside the hook: what the ends ask of the driver is not the program's own call. */
#define COPY(symbol, per_thread, params, pass, ends)                                  \
	CUresult cm_wrap_##symbol params                                              \
	{                                                                             \
		CUresult res = cm_real.symbol pass;                                   \
                                                                                      \
		if (res != CUDA_SUCCESS || !cm_host_work_is_on() || !cm_hook_enter()) \
			return res;                                                   \
		if (ends)                                                             \
			cm_host_work_note(stream, per_thread);                        \
		cm_hook_leave();                                                      \
		return res;                                                           \
	}

#define CM_COPY(symbol, params, pass, ends)     \
	COPY(symbol, false, params, pass, ends) \
	COPY(symbol##_ptsz, true, params, pass, ends)
#include "interpose/wrappers/copies.def"

/* Kernels reach the host's memory by this address from here on. */
CUresult cm_wrap_cuMemHostGetDevicePointer_v2(CUdeviceptr *addr, void *host, unsigned int flags)
{
	CUresult res = cm_real.cuMemHostGetDevicePointer_v2(addr, host, flags);

	if (res == CUDA_SUCCESS)
		cm_host_work_count_kernels();
	return res;
}
