/* SPDX-License-Identifier: MIT */
/*
 * A request for which the driver was out of memory: enters it in the counters and the event ring,
 * and describes it for the report (tell_oom of struct cm_driver_ops).
 */
#ifndef CM_ALLOCATOR_OOM_OOM_H
#define CM_ALLOCATOR_OOM_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/oom/oom_report.h"
#include "allocator/state/state.h"
#include "stats/layout.h"
#include "stats/peers.h"

struct cm_cache;
struct cm_heap;

struct cm_oom {
	uint64_t nth;     /* of this process, from 1; 0: nothing is to be reported */
	bool served;      /* the request that failed last has been served after all */
	const char *kind; /* of memory, "managed memory"; NULL: of the cache */
	bool host;        /* pinned: of figures only `live` and what is cached */
	uint32_t stack;   /* of the request; 0: unknown */
	uint64_t event;   /* its number in the ring of the device; 0: none was written */
	uint64_t bytes;   /* as the program asked */
	uint32_t row;     /* of the device */
	int32_t ordinal;
	const char *device_name;
	int info_error; /* the driver's error, if it does not even say what is free; else 0 */
	bool captured;  /* a stream is captured: nothing cached could be released, or asked about */
	struct cm_oom_figures figures;
	int64_t blocks;     /* in use */
	int64_t rounding;   /* of figures.live: beyond what was asked for */
	int64_t largest;    /* the largest ready block */
	int64_t given_back; /* to the driver, for this request */
	struct cm_peers peers;
	bool busy;        /* work under way does not end, so nothing was given back */
	bool has_holders; /* the first time only: it takes two more walks */
	struct cm_oom_holders holders;
};

/* What the slow path did for the request before it failed. */
struct cm_oom_attempt {
	uint64_t bytes; /* as the program asked */
	uint64_t size;  /* rounded */
	uint64_t given_back;
	struct cm_peers peers;
	bool busy;
	bool capped; /* the limit refused it */
};

/*
 * Counts the failure, writes the event and fills in *ret_oom. Asks the driver for its free memory;
 * the gate has been entered, no device lock is held. Walks the device's blocks under its lock.
 */
void cm_oom_note(struct cm_heap *heap, const struct cm_oom_attempt *attempt,
		 struct cm_oom *ret_oom);

/*
 * The same for a request outside the cache, which the driver has refused even after cached memory
 * was released. It is counted as such, in uncached_ooms and not in num_ooms. `row` is a device's,
 * `ctx` a context of it. Enters the gate; if that is closed, the driver is not asked.
 */
void cm_oom_note_uncached(struct cm_cache *cache, uint32_t row, uint64_t ctx,
			  enum cm_uncached_kind kind, const struct cm_oom_attempt *attempt,
			  struct cm_oom *ret_oom);

/* The same for pinned host memory, whose event is written already. */
void cm_oom_note_pinned(struct cm_heap *heap, uint64_t bytes, struct cm_oom *ret_oom);

/* The slow path has served a request of `size` (of `bytes`, as the program asked): fills in
 * *ret_oom if the request that failed last had this size, once. */
void cm_oom_note_served_late(struct cm_heap *heap, uint64_t size, uint64_t bytes,
			     struct cm_oom *ret_oom);
static inline void cm_oom_note_served(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				      struct cm_oom *ret_oom)
{
	if (CM_UNLIKELY(atomic_load_explicit(&heap->device->first->failed_size,
					     memory_order_relaxed) == size))
		cm_oom_note_served_late(heap, size, bytes, ret_oom);
}

/* Reports what one of the functions above has filled in, or does nothing if `nth` is 0. Enters the
 * stack of the request in its event, unless the event has one. No lock is held, no driver call is
 * made. May block in show_oom and tell_oom of struct cm_driver_ops. */
void cm_oom_tell(struct cm_cache *cache, struct cm_oom *oom);

#endif
