/* SPDX-License-Identifier: MIT */
/*
 * What the allocator needs of the world, as a struct of functions: the driver, the clock and the
 * gate that keeps our own driver calls out of stream captures. interpose/driver/driver_ops.c fills
 * it with the real driver, tests/unit with a fake. Nothing in allocator/ calls CUDA or the kernel's
 * clock by another way, so all of it is tested without either.
 *
 * Results follow the house rule: 0 is success, > 0 the driver's own code (CUresult), < 0 a negative
 * errno of ours. No function but the clocks is called with a lock held that guards rows, counters
 * or rings; those that order the callers (lock.h) may be. A context is the driver's handle as an
 * integer; the callee makes it current where the call needs that and puts back what was current
 * before.
 */
#ifndef CM_ALLOCATOR_BASE_OPS_H
#define CM_ALLOCATOR_BASE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"

/* Driver codes the allocator tells apart; values of CUresult in cuda.h. */
#define CM_DRIVER_OUT_OF_MEMORY 2
#define CM_DRIVER_DEINITIALIZED 4
#define CM_DRIVER_NOT_READY     600

/* What the driver can do in one context. */
#define CM_CAN_CTX_EVENTS 1u /* cuCtxRecordEvent and cuCtxWaitEvent, CUDA 12.5 and later */
#define CM_CAN_PAGES      2u /* virtual memory management, in units of 2 MiB */

/* Kinds of pinned host memory: the flags of cuMemHostAlloc, or what cuMemAllocHost makes. */
#define CM_HOST_PORTABLE      1u
#define CM_HOST_MAPPED        2u
#define CM_HOST_WRITECOMBINED 4u
#define CM_HOST_PLAIN         8u
#define CM_HOST_KINDS         9u

struct cm_peers; /* stats/peers.h */
struct cm_oom;   /* allocator/oom/oom.h */

struct cm_driver_ops {
	/* Device memory of `bytes` in `ctx`. Blocks. */
	int (*mem_alloc)(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr);
	/* Gives device memory back. Blocks, and may wait for the device as cuMemFree may. */
	int (*mem_free)(uint64_t ctx, uint64_t addr);
	/* Free and total bytes of the device as the context sees them. */
	int (*mem_info)(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total);

	/* Addresses without memory, of the process. Multiples of 2 MiB, as all of the next ones. */
	int (*range_reserve)(uint64_t bytes, uint64_t *ret_addr);
	int (*range_free)(uint64_t addr, uint64_t bytes);
	/* Memory without an address, of a device by its ordinal, until it is released and
	 * unmapped. */
	int (*page_create)(int32_t ordinal, uint64_t bytes, uint64_t *ret_page);
	int (*page_release)(uint64_t page);
	/* Puts a whole page at addresses where none is, or takes it away again. */
	int (*page_map)(uint64_t addr, uint64_t bytes, uint64_t page);
	int (*page_unmap)(uint64_t addr, uint64_t bytes);
	/* Lets a device read and write all pages mapped in the addresses. */
	int (*range_open)(int32_t ordinal, uint64_t addr, uint64_t bytes);
	/* The same outside of the gate, also while a capture is active. */
	int (*range_open_ungated)(int32_t ordinal, uint64_t addr, uint64_t bytes);

	/* Pinned host memory of a kind (CM_HOST_*), made in `ctx`. Blocks. */
	int (*host_alloc)(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr);
	/* Gives it back. Blocks, and may wait for the device. */
	int (*host_free)(uint64_t ctx, uint64_t addr);

	/* Events without timing. */
	int (*event_create)(uint64_t ctx, uint64_t *ret_event);
	int (*event_destroy)(uint64_t ctx, uint64_t event);
	/* Captures all work submitted to the context so far, every stream of it. */
	int (*event_record)(uint64_t ctx, uint64_t event);
	/* 0: all captured work is done; CM_DRIVER_NOT_READY: not yet. Never blocks. */
	int (*event_query)(uint64_t ctx, uint64_t event);
	/* The same, outside of the gate and also while a capture is active, of an event that was
	 * recorded before. */
	int (*event_query_ungated)(uint64_t ctx, uint64_t event);
	/* All future work of the context waits on the device for the event; the host does not. */
	int (*ctx_wait_event)(uint64_t ctx, uint64_t event);
	/* The host waits for all work of the context. */
	int (*ctx_synchronize)(uint64_t ctx);
	/* Whether the context is beyond an answer, and its work over: destroyed, or broken for
	 * good. Asked in the context itself, as another call may tell of an error that is not its
	 * own (cuda.h). */
	bool (*ctx_is_dead)(uint64_t ctx);

	/*
	 * The capture gate. enter() is true when no stream capture is active, and holds back a
	 * capture that is about to begin until leave(). Where it is false none of the calls above
	 * may be made but those named *_ungated.
	 */
	bool (*gate_enter)(void);
	void (*gate_leave)(void);

	/*
	 * A number that changes with every piece of work that may run without bound (kernels,
	 * graphs, host functions, waits for values) submitted anywhere in the process: where it
	 * stands, for cm_cache_work. It tells whether an event recorded now captures more than a
	 * cudaFree would have waited for; it is never the proof that memory is idle.
	 */
	const uint64_t *work_number;

	/*
	 * Other processes are asked to give back `wanted` bytes of the device to the driver; 0:
	 * they are only looked at. NULL: nobody is to be asked. Takes a tenth of a second at most.
	 * Called outside the gate, while the device's reclaim lock is held.
	 */
	void (*ask_peers)(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret_peers);

	/* The stack of the calling thread, as an id in the region; 0: none. NULL: there are no
	 * stacks. Called outside the gate; no allocator lock is held. */
	uint32_t (*capture_stack)(void);

	/* A request has failed for lack of memory, or has been served after all. NULL: nobody wants
	 * to know. Called outside the gate; no allocator lock is held. */
	void (*tell_oom)(const struct cm_oom *oom);

	/* The same failure, before it is told: whoever watches the process sees the state it failed
	 * in. NULL: nobody does. Bounded; called outside the gate, no allocator lock is held. */
	void (*show_oom)(void);

	/* Cheap monotonic counter, see struct cm_header; NULL: cm_tick. For cm_cache_tick. */
	uint64_t (*tick)(void);
	uint64_t (*now_ns)(void); /* CLOCK_MONOTONIC */
	void (*sleep_ns)(uint64_t ns);
};

/* Between two looks at what is not waited for in any other way: twice as long each time, up to
 * about the most. No lock is held that who is waited for may want. */
static inline void cm_ops_backoff(const struct cm_driver_ops *ops, uint64_t *backoff_ns,
				  uint64_t most_ns)
{
	ops->sleep_ns(*backoff_ns);
	if (*backoff_ns < most_ns)
		*backoff_ns *= 2;
}

#endif
