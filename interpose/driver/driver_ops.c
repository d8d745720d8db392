/* SPDX-License-Identifier: MIT */
#include "interpose/driver/driver_ops.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/core/cancel.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/current.h"
#include "interpose/symbols/hooks.h"
#include "stats/layout.h"
#include "stats/tick.h"

/* The result of `call`, made without cancellation points: the allocator calls with locks held and
 * threads waiting, and a driver call may contain such points. */
#define UNCANCELLED(call)          \
	({                         \
		CUresult res_;     \
                                   \
		cm_cancel_hold();  \
		res_ = (call);     \
		cm_cancel_allow(); \
		(int)res_;         \
	})

/* The same with `ctx` current. */
#define IN_CONTEXT(ctx, call)                \
	({                                   \
		int err_;                    \
                                             \
		cm_cancel_hold();            \
		err_ = cm_context_push(ctx); \
		if (!err_) {                 \
			err_ = (int)(call);  \
			cm_context_pop();    \
		}                            \
		cm_cancel_allow();           \
		err_;                        \
	})

/* The same as UNCANCELLED in the relaxed capture mode: in another one any allocation, query or wait
 * counts as unsafe. */
#define RELAXED(call)                                                       \
	({                                                                  \
		CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; \
		int err_;                                                   \
                                                                            \
		cm_cancel_hold();                                           \
		(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode_);    \
		err_ = (int)(call);                                         \
		(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode_);    \
		cm_cancel_allow();                                          \
		err_;                                                       \
	})

static CUcontext as_context(uint64_t ctx)
{
	return (CUcontext)(uintptr_t)ctx;
}

static CUevent as_event(uint64_t event)
{
	return (CUevent)(uintptr_t)event;
}

static int mem_alloc(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	CUdeviceptr addr = 0;
	int err;

	err = IN_CONTEXT(ctx, cm_real.cuMemAlloc_v2(&addr, bytes));
	if (!err)
		*ret_addr = addr;
	return err;
}

static int mem_free(uint64_t ctx, uint64_t addr)
{
	return IN_CONTEXT(ctx, cm_real.cuMemFree_v2(addr));
}

static __thread struct cm_stream_free stream_free;

void cm_driver_free_in_stream(struct cm_stream_free how)
{
	stream_free = how;
}

/* A stream is the program's, in the context that the program has current. A thread may leave the
 * call by longjmp, and the driver give the address again: the stream is for this call alone. */
static int mem_free_as_asked(uint64_t ctx, uint64_t addr)
{
	const struct cm_stream_free how = stream_free;

	if (how.addr == addr) {
		stream_free.addr = 0;
		return UNCANCELLED(how.call(addr, how.stream));
	}
	return cm_context_current() ? UNCANCELLED(cm_real.cuMemFree_v2(addr)) : mem_free(ctx, addr);
}

static int mem_info(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total)
{
	size_t free_bytes = 0, total = 0;
	int err;

	err = IN_CONTEXT(ctx, cm_real.cuMemGetInfo_v2(&free_bytes, &total));
	if (!err) {
		*ret_free = free_bytes;
		*ret_total = total;
	}
	return err;
}

/* Abilities that memory of cuMemAlloc has, and pages only on request: access by network cards
 * (GPUDirect RDMA), and hardware decompression (cuda.h, cuMemBatchDecompressAsync). Found out by
 * the first caller of cm_driver_has_pages. */
#define CAN_RDMA       1u
#define CAN_DECOMPRESS 2u
#define CAN_KNOWN      4u
static atomic_uint abilities[CM_DEVICES_MAX];

static unsigned int abilities_of(int32_t ordinal)
{
	return (uint32_t)ordinal < CM_DEVICES_MAX ? atomic_load(&abilities[ordinal]) : CAN_KNOWN;
}

static CUmemAllocationProp page_properties(int32_t ordinal, unsigned int can)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
		.allocFlags = {.gpuDirectRDMACapable = !!(can & CAN_RDMA),
			       .usage = can & CAN_DECOMPRESS ? CU_MEM_CREATE_USAGE_HW_DECOMPRESS
							     : 0},
	};
}

/* These belong to the process and need no current context (cuda.h, Virtual Memory Management). */
static int range_reserve(uint64_t bytes, uint64_t *ret_addr)
{
	CUdeviceptr addr = 0;
	int err;

	err = UNCANCELLED(cm_real.cuMemAddressReserve(&addr, bytes, 0, 0, 0));
	if (!err)
		*ret_addr = addr;
	return err;
}

static int range_free(uint64_t addr, uint64_t bytes)
{
	return UNCANCELLED(cm_real.cuMemAddressFree(addr, bytes));
}

static int create_page_with(int32_t ordinal, unsigned int can, uint64_t bytes, uint64_t *ret_page)
{
	const CUmemAllocationProp prop = page_properties(ordinal, can);
	CUmemGenericAllocationHandle page = 0;
	int err;

	err = UNCANCELLED(cm_real.cuMemCreate(&page, bytes, &prop, 0));
	if (!err)
		*ret_page = page;
	return err;
}

static int page_create(int32_t ordinal, uint64_t bytes, uint64_t *ret_page)
{
	return create_page_with(ordinal, abilities_of(ordinal), bytes, ret_page);
}

static int page_release(uint64_t page)
{
	return UNCANCELLED(cm_real.cuMemRelease(page));
}

static int page_map(uint64_t addr, uint64_t bytes, uint64_t page)
{
	return UNCANCELLED(cm_real.cuMemMap(addr, bytes, 0, page, 0));
}

static int page_unmap(uint64_t addr, uint64_t bytes)
{
	return UNCANCELLED(cm_real.cuMemUnmap(addr, bytes));
}

static int range_open(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return UNCANCELLED(cm_real.cuMemSetAccess(addr, bytes, &access, 1));
}

static int range_open_ungated(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	return RELAXED(range_open(ordinal, addr, bytes));
}

static bool has_attribute(int32_t ordinal, CUdevice_attribute attribute)
{
	int value = 0;

	return cm_real.cuDeviceGetAttribute(&value, attribute, ordinal) == CUDA_SUCCESS && value;
}

/* Whether a page with these abilities can be created, mapped and accessed. Under WSL2 the last step
 * fails for RDMA pages, although the driver reports support (pytorch/pytorch 192330). */
static bool can_use_pages(int32_t ordinal, unsigned int can, uint64_t bytes)
{
	uint64_t addr, page;
	bool good = false;

	if (range_reserve(bytes, &addr))
		return false;
	if (!create_page_with(ordinal, can, bytes, &page)) {
		if (!page_map(addr, bytes, page)) {
			good = !range_open(ordinal, addr, bytes);
			(void)page_unmap(addr, bytes);
		}
		(void)page_release(page);
	}
	(void)range_free(addr, bytes);
	return good;
}

/* Racing threads find the same result. */
static void find_abilities(int32_t ordinal, uint64_t bytes)
{
	unsigned int can = 0;

	if (abilities_of(ordinal) & CAN_KNOWN)
		return;
	if (has_attribute(ordinal, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		can |= CAN_RDMA;
	if (has_attribute(ordinal, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK))
		can |= CAN_DECOMPRESS;
	if (can && !can_use_pages(ordinal, can, bytes))
		can = 0;
	atomic_store(&abilities[ordinal], can | CAN_KNOWN);
}

static bool has_pages(int32_t ordinal, uint64_t bytes)
{
	const CUmemAllocationProp prop = page_properties(ordinal, 0);
	size_t grain = 0;
	int has = 0;

	return cm_real_has(cuMemCreate) && cm_real_has(cuMemRelease) && cm_real_has(cuMemMap) &&
	       cm_real_has(cuMemUnmap) && cm_real_has(cuMemAddressReserve) &&
	       cm_real_has(cuMemAddressFree) && cm_real_has(cuMemSetAccess) &&
	       cm_real_has(cuMemGetAllocationGranularity) && cm_real_has(cuDeviceGetAttribute) &&
	       cm_real.cuDeviceGetAttribute(&has,
					    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
					    ordinal) == CUDA_SUCCESS &&
	       has &&
	       cm_real.cuMemGetAllocationGranularity(
		       &grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
	       grain && bytes % grain == 0;
}

bool cm_driver_has_pages(int32_t ordinal, uint64_t bytes)
{
	if (!has_pages(ordinal, bytes))
		return false;
	find_abilities(ordinal, bytes);
	return true;
}

static int host_alloc(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr)
{
	void *ptr = NULL;
	int err;

	err = IN_CONTEXT(ctx, kind == CM_HOST_PLAIN ? cm_real.cuMemAllocHost_v2(&ptr, bytes)
						    : cm_real.cuMemHostAlloc(&ptr, bytes, kind));
	if (!err)
		*ret_addr = (uintptr_t)ptr;
	return err;
}

static int host_free(uint64_t ctx, uint64_t addr)
{
	return IN_CONTEXT(ctx, cm_real.cuMemFreeHost((void *)(uintptr_t)addr));
}

static int event_create(uint64_t ctx, uint64_t *ret_event)
{
	CUevent event = NULL;
	int err;

	err = IN_CONTEXT(ctx, cm_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	if (!err)
		*ret_event = (uintptr_t)event;
	return err;
}

static int event_destroy(uint64_t ctx, uint64_t event)
{
	return IN_CONTEXT(ctx, cm_real.cuEventDestroy_v2(as_event(event)));
}

/* The next two and ctx_wait_event name their context or event and need no current context (cuda.h,
 * Context Management). They are called inside the gate, where no thread is cancelled. */
static int event_record(uint64_t ctx, uint64_t event)
{
	return (int)cm_real.cuCtxRecordEvent(as_context(ctx), as_event(event));
}

static int event_query(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	return (int)cm_real.cuEventQuery(as_event(event));
}

static int event_query_ungated(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	return RELAXED(cm_real.cuEventQuery(as_event(event)));
}

static int event_wait_ungated(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	return RELAXED(cm_real.cuEventSynchronize(as_event(event)));
}

static int ctx_wait_event(uint64_t ctx, uint64_t event)
{
	return (int)cm_real.cuCtxWaitEvent(as_context(ctx), as_event(event));
}

static int ctx_synchronize(uint64_t ctx)
{
	return IN_CONTEXT(ctx, cm_real.cuCtxSynchronize());
}

/* A memory query returns the context's sticky error as any call does; a destroyed context cannot be
 * made current. */
static bool ctx_is_dead(uint64_t ctx)
{
	size_t free_bytes, total;
	CUresult res;

	res = (CUresult)IN_CONTEXT(ctx, cm_real.cuMemGetInfo_v2(&free_bytes, &total));
	return cm_context_is_sticky(res) || res == CUDA_ERROR_INVALID_CONTEXT ||
	       res == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct cm_work cm_work;

static void sleep_ns(uint64_t ns)
{
	struct timespec wait = {(time_t)(ns / CM_NS_PER_S), (long)(ns % CM_NS_PER_S)};
	int saved = errno;

	/* Not nanosleep(3), which is a cancellation point: the thread may hold an allocator
	 * lock. */
	(void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &wait, NULL);
	errno = saved;
}

/* Not cancellable while inside: the caller makes driver calls there. */
static bool gate_enter(void)
{
	cm_cancel_hold();
	if (cm_capture_gate_enter())
		return true;
	cm_cancel_allow();
	return false;
}

static void gate_leave(void)
{
	cm_capture_gate_leave();
	cm_cancel_allow();
}

const struct cm_driver_ops *cm_driver_ops(void)
{
	static const struct cm_driver_ops ops = {
		.mem_alloc = mem_alloc,
		.mem_free = mem_free,
		.mem_free_as_asked = mem_free_as_asked,
		.mem_info = mem_info,
		.range_reserve = range_reserve,
		.range_free = range_free,
		.page_create = page_create,
		.page_release = page_release,
		.page_map = page_map,
		.page_unmap = page_unmap,
		.range_open = range_open,
		.range_open_ungated = range_open_ungated,
		.host_alloc = host_alloc,
		.host_free = host_free,
		.event_create = event_create,
		.event_destroy = event_destroy,
		.event_record = event_record,
		.event_query = event_query,
		.event_query_ungated = event_query_ungated,
		.event_wait_ungated = event_wait_ungated,
		.ctx_wait_event = ctx_wait_event,
		.ctx_synchronize = ctx_synchronize,
		.ctx_is_dead = ctx_is_dead,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
		.work_number = &cm_work.number,
		.work_ended = &cm_work.ended,
		.now_ns = cm_monotonic_ns,
		.sleep_ns = sleep_ns,
	};

	return &ops;
}
