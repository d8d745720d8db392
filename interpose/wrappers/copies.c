/* SPDX-License-Identifier: MIT */
/*
 * Hooks of functions that copy, fill and write memory. Each call goes to the driver unchanged.
 * Memory of other devices that it names is announced before (reach.h); effects that the host may
 * see are noted once the driver has accepted it (host_work.h).
 */
#include "allocator/base/attr.h"
#include "interpose/driver/context.h"
#include "interpose/driver/host_memory_ends.h"
#include "interpose/driver/host_work.h"
#include "interpose/driver/reach.h"
#include "interpose/symbols/hooks.h"

/* The devices whose memory a copy names. Each of ENDS adds its devices to a sum and is false, so
 * that || evaluates all of them. */
#define NAMED(rows)        ((named |= (rows)), false)
#define HOST(addr)         ((void)(addr), false)
#define ANY(addr)          NAMED(cm_reach_of(addr))
#define DEVICE(addr)       NAMED(cm_reach_of(addr))
#define LIST(list, count)  NAMED(cm_reach_of_list(list, count))
#define BOXES(list, count) NAMED(cm_reach_of_boxes(list, count))
#define UNPACKED(list, n)  NAMED(cm_reach_of_unpacked(list, n))
#define BOX(copy)                                                                        \
	NAMED((copy) ? cm_reach_of_box((copy)->srcMemoryType, (copy)->srcDevice) |       \
			       cm_reach_of_box((copy)->dstMemoryType, (copy)->dstDevice) \
		     : 0)
#define CM_COPY(symbol, params, pass, ends)                                          \
	static CM_NOINLINE __attribute__((unused)) uint64_t named_by_##symbol params \
	{                                                                            \
		uint64_t named = 0;                                                  \
                                                                                     \
		(void)(ends);                                                        \
		return named;                                                        \
	}
#define CM_COPY_IN_PLACE CM_COPY
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "interpose/wrappers/copies.def"
#pragma GCC diagnostic pop
#undef HOST
#undef ANY
#undef DEVICE
#undef LIST
#undef BOXES
#undef UNPACKED
#undef BOX

#define HOST(addr)         true
#define ANY(addr)          cm_end_is_host(addr)
#define DEVICE(addr)       cm_end_of_device_is_host(addr)
#define LIST(list, count)  cm_ends_of_list_are_host(list, count)
#define BOXES(list, count) cm_ends_of_boxes_are_host(list, count)
#define UNPACKED(list, n)  cm_ends_of_unpacked_are_host(list, n)
#define BOX(copy)                                                           \
	(cm_end_of_box_is_host((copy)->srcMemoryType, (copy)->srcDevice) || \
	 cm_end_of_box_is_host((copy)->dstMemoryType, (copy)->dstDevice))

/* The first call since earlier work has failed may be a copy. */
static CM_NOINLINE void note_error(CUstream stream, CUresult res)
{
	if (!cm_hook_enter())
		return;
	cm_context_note_error_of_stream(stream, res);
	cm_hook_leave();
}

/* The driver's call, between the announcement of the memory that it names and its end. */
#define SUBMIT(symbol, named_by, stream, pass)                              \
	({                                                                  \
		struct cm_submission submission = {0};                      \
		CUresult submitted;                                         \
                                                                            \
		if (CM_UNLIKELY(cm_reach_is_watched()))                     \
			submission = cm_reach_begin(stream, named_by pass); \
		submitted = cm_real.symbol pass;                            \
		cm_reach_end(submission);                                   \
		if (CM_UNLIKELY(submitted != CUDA_SUCCESS))                 \
			note_error(stream, submitted);                      \
		submitted;                                                  \
	})

/* Inside the hook: driver calls that the ends make are not the program's. */
#define COPY(symbol, named_by, per_thread, params, pass, ends)                        \
	CUresult cm_wrap_##symbol params                                              \
	{                                                                             \
		CUresult res = SUBMIT(symbol, named_by, stream, pass);                \
                                                                                      \
		if (res != CUDA_SUCCESS || !cm_host_work_is_on() || !cm_hook_enter()) \
			return res;                                                   \
		if (ends)                                                             \
			cm_host_work_note(stream, per_thread);                        \
		cm_hook_leave();                                                      \
		return res;                                                           \
	}
/* The driver need not wait where both ends are memory of a device, and managed or mapped memory may
 * be named as such. An end that is memory of the host it has waited for. */
#define COPY_IN_PLACE(symbol, named_by, per_thread, params, pass, ends)                            \
	CUresult cm_wrap_##symbol params                                                           \
	{                                                                                          \
		CUresult res = SUBMIT(symbol, named_by, NULL, pass);                               \
                                                                                                   \
		if (res != CUDA_SUCCESS || !cm_host_work_has_kernels() || !cm_host_work_is_on() || \
		    !cm_hook_enter())                                                              \
			return res;                                                                \
		if (ends)                                                                          \
			cm_host_work_note(NULL, per_thread);                                       \
		cm_hook_leave();                                                                   \
		return res;                                                                        \
	}

#define CM_COPY(symbol, params, pass, ends)                        \
	COPY(symbol, named_by_##symbol, false, params, pass, ends) \
	COPY(symbol##_ptsz, named_by_##symbol, true, params, pass, ends)
#include "interpose/wrappers/copies.def"

#undef HOST
#undef ANY
#undef BOX
#define HOST(addr) ((void)(addr), false)
#define ANY(addr)  cm_end_of_device_is_host(addr)
#define BOX(copy)                                                             \
	(cm_end_of_box_is_mapped((copy)->srcMemoryType, (copy)->srcDevice) || \
	 cm_end_of_box_is_mapped((copy)->dstMemoryType, (copy)->dstDevice))
#define CM_COPY(symbol, params, pass, ends)
#define CM_COPY_IN_PLACE(symbol, params, pass, ends)                        \
	COPY_IN_PLACE(symbol, named_by_##symbol, false, params, pass, ends) \
	COPY_IN_PLACE(symbol##_ptds, named_by_##symbol, true, params, pass, ends)
#include "interpose/wrappers/copies.def"

/* From here on, kernels can reach host memory by this address. */
CUresult cm_wrap_cuMemHostGetDevicePointer_v2(CUdeviceptr *addr, void *host, unsigned int flags)
{
	CUresult res = cm_real.cuMemHostGetDevicePointer_v2(addr, host, flags);

	if (res == CUDA_SUCCESS)
		cm_host_work_include_kernels();
	return res;
}
