/* SPDX-License-Identifier: MIT */
/*
 * What the allocator needs from outside, as a table of functions: the driver, the clock, and the
 * gate that keeps our own driver calls out of stream captures. interpose/driver/driver_ops.c fills
 * it with the real driver, tests/unit with a fake. The allocator calls CUDA and the kernel's clock
 * in no other way, so it is tested without either.
 *
 * Results follow the house rule: 0 is success, > 0 the driver's own code (CUresult), < 0 a negative
 * errno of ours. While a lock is held that guards rows, counters or rings, only the clocks are
 * called; docs/architecture.md says which locks may be held across the others. A context is the
 * driver's handle as an integer; if the call needs it current, the callee makes it so and restores
 * the previous one.
 */
#ifndef CM_ALLOCATOR_BASE_OPS_H
#define CM_ALLOCATOR_BASE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"

/* Driver codes the allocator tells apart; values of CUresult in cuda.h. */
#define CM_DRIVER_OUT_OF_MEMORY 2
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
	/* Frees device memory. Blocks, and may wait for the device as cuMemFree may. */
	int (*mem_free)(uint64_t ctx, uint64_t addr);
	/* The same for a free that the program has just asked for: as its own call would be, in the
	 * context that is current, whose errors it returns; in `ctx` if none is. NULL: mem_free. */
	int (*mem_free_as_asked)(uint64_t ctx, uint64_t addr);
	/* Free and total bytes of the device as the context sees them. */
	int (*mem_info)(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total);

	/* Reserves addresses of the process, without memory. Multiples of 2 MiB, as all of the next
	 * ones. */
	int (*range_reserve)(uint64_t bytes, uint64_t *ret_addr);
	int (*range_free)(uint64_t addr, uint64_t bytes);
	/* Creates memory without an address on a device, by its ordinal. It lasts until it is
	 * released and unmapped. */
	int (*page_create)(int32_t ordinal, uint64_t bytes, uint64_t *ret_page);
	int (*page_release)(uint64_t page);
	/* Maps a whole page at unmapped addresses, or unmaps it. */
	int (*page_map)(uint64_t addr, uint64_t bytes, uint64_t page);
	int (*page_unmap)(uint64_t addr, uint64_t bytes);
	/* Lets a device read and write all pages mapped in the addresses. */
	int (*range_open)(int32_t ordinal, uint64_t addr, uint64_t bytes);
	/* The same outside of the gate, also while a capture is active. */
	int (*range_open_ungated)(int32_t ordinal, uint64_t addr, uint64_t bytes);

	/* Pinned host memory of a kind (CM_HOST_*), made in `ctx`. Blocks. */
	int (*host_alloc)(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr);
	/* Frees it. Blocks, and may wait for the device. */
	int (*host_free)(uint64_t ctx, uint64_t addr);

	/* Events without timing. */
	int (*event_create)(uint64_t ctx, uint64_t *ret_event);
	int (*event_destroy)(uint64_t ctx, uint64_t event);
	/* Captures all work submitted to the context so far, every stream of it. */
	int (*event_record)(uint64_t ctx, uint64_t event);
	/* 0: all captured work is done; CM_DRIVER_NOT_READY: not yet. Never blocks. */
	int (*event_query)(uint64_t ctx, uint64_t event);
	/* The same for an event that was recorded before; called outside the gate, also while a
	 * capture is active. */
	int (*event_query_ungated)(uint64_t ctx, uint64_t event);
	/* The host waits until the work is done that the event captured. Outside of the gate, also
	 * while a capture is active, and with no lock held. */
	int (*event_wait_ungated)(uint64_t ctx, uint64_t event);
	/* All future work of the context waits on the device for the event; the host does not. */
	int (*ctx_wait_event)(uint64_t ctx, uint64_t event);
	/* The host waits for all work of the context. */
	int (*ctx_synchronize)(uint64_t ctx);
	/* Whether the context's last query returned a sticky error, or it is destroyed: then its
	 * work is over, and nothing may wait for it. Queried in the context itself, as another call
	 * may report the error of another context (cuda.h). */
	bool (*ctx_is_dead)(uint64_t ctx);

	/*
	 * The capture gate. enter() returns true if no stream capture is active, and then delays a
	 * capture that is about to begin until leave(). If it returns false, only the calls above
	 * that are named *_ungated are allowed.
	 */
	bool (*gate_enter)(void);
	void (*gate_leave)(void);

	/*
	 * A number that changes with every piece of work that may run without bound (kernels,
	 * graphs, host functions, waits for values) submitted anywhere in the process;
	 * cm_cache_work reads it here. It tells whether an event recorded now captures more than a
	 * cudaFree would have waited for; it is never the proof that memory is idle.
	 */
	const uint64_t *work_number;
	/* The same of the work that the driver has answered. It is raised after that, as the other
	 * is before: while they differ, some thread may be submitting. */
	const uint64_t *work_ended;

	/*
	 * Asks other processes to return `wanted` bytes of the device to the driver; 0: only looks
	 * at what they have. NULL: there are no peers. Takes a tenth of a second at most. Called
	 * outside the gate, while the device's reclaim lock is held.
	 */
	void (*ask_peers)(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret_peers);

	/* The stack of the calling thread, as an id in the region; 0: none. NULL: there are no
	 * stacks. Called outside the gate; no allocator lock is held. */
	uint32_t (*capture_stack)(void);

	/* A request has failed for lack of memory, or has been served after all. NULL: no reports.
	 * Called outside the gate; no allocator lock is held. */
	void (*tell_oom)(const struct cm_oom *oom);

	/* The same failure, before tell_oom: a tool that watches the process sees the state in
	 * which the request failed. NULL: no tool watches. Bounded; called outside the gate, no
	 * allocator lock is held. */
	void (*show_oom)(void);

	/* Cheap monotonic counter, see struct cm_header; NULL: cm_tick. For cm_cache_tick. */
	uint64_t (*tick)(void);
	uint64_t (*now_ns)(void); /* CLOCK_MONOTONIC */
	void (*sleep_ns)(uint64_t ns);
};

/* Sleeps between two looks at a condition: twice as long each time, up to about `most_ns`. The
 * caller holds no lock that the thread it waits for may want. */
static inline void cm_ops_backoff(const struct cm_driver_ops *ops, uint64_t *backoff_ns,
				  uint64_t most_ns)
{
	ops->sleep_ns(*backoff_ns);
	if (*backoff_ns < most_ns)
		*backoff_ns *= 2;
}

#endif
