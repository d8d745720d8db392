/* SPDX-License-Identifier: MIT */
/*
 * Records where the program allocates and frees memory: the stack of the call, its Python frames,
 * and the name of what it is doing. The region says what is recorded (struct cm_record); it can
 * change at run time.
 *
 * The calling thread captures the stack in the wrapper, with no lock held and never in a signal
 * handler that interrupts the library. Thread-safe.
 */
#ifndef CM_INTERPOSE_STACKS_RECORD_H
#define CM_INTERPOSE_STACKS_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/thread.h"
#include "allocator/cache.h"
#include "stats/config.h"
#include "stats/layout.h"

struct cm_region;

/* enum cm_context: which calls capture stacks. */
extern _Atomic uint32_t cm_record_context __attribute__((visibility("hidden")));

/* Called once per region, before its cache is made; applies the configuration. */
void cm_record_start(struct cm_region *region, const struct cm_config *config);
/* The cache that cm_record_change acts on. */
void cm_record_attach(struct cm_cache *cache);
/* In a forked child: nothing is recorded until the next start. */
void cm_record_forget(void);

/* Changes what `set` names (CM_RECORD_SET_*, CM_RECORD_CLEAR). -EINVAL if a value is invalid:
 * nothing changes. -ENOSPC if there is no space for events: the rest is done. -ENODEV without a
 * cache. Else 0. */
struct cm_record_request {
	uint32_t set;
	uint32_t events;
	uint32_t context;
	uint32_t stacks;
	uint64_t devices; /* for events and CLEAR: as cm_cache_record_events has them */
	uint64_t max_entries;
};
int cm_record_change(const struct cm_record_request *request);

/* Adds the name of a range to the region and returns its id; 0: nothing is recorded, or no space.
 * `around` is the range that it is inside of, which was recorded before; 0: the outermost. If their
 * names are too long together, it counts as outermost. */
uint32_t cm_record_range(uint32_t around, const char *name);

/* Publishes what takes a service away, if it is the first of its kind: `by` is a call, an object or
 * a reason, and lasts. With has_stack the calling thread's stack is captured, whatever is being
 * recorded; the caller holds no lock then. Before cm_record_start both are kept. Without has_stack
 * it gets the stack that cm_record_keep_stack kept for the same `by`. */
void cm_record_cause(enum cm_cause cause, const char *by, bool has_stack);

/* The cause has ended. If it may have come back by now, call cm_record_cause once more. */
void cm_record_cause_ended(enum cm_cause cause);

/* Keeps the stack of the calling thread for a cause that cm_record_cause is told later, if it is
 * the first of its kind. The caller holds no lock. */
void cm_record_keep_stack(enum cm_cause cause, const char *by);

/* Captures the stack of the calling thread for its next events. Prefer cm_record_begin. */
void cm_record_capture(void);

/* Captures the calling thread's stack, whatever is being recorded, and returns its id; 0: none. The
 * caller holds no lock. */
uint32_t cm_record_capture_now(void);

/* Captures the stack for the events of this call if recording covers `context`. If true,
 * cm_record_end() follows the call. */
static inline bool cm_record_begin(enum cm_context context)
{
	if (CM_LIKELY(atomic_load_explicit(&cm_record_context, memory_order_relaxed) < context))
		return false;
	cm_record_capture();
	return true;
}

static inline void cm_record_end(bool begun)
{
	if (CM_UNLIKELY(begun))
		cm_thread.stack = 0;
}

#endif
