/* SPDX-License-Identifier: MIT */
/*
 * Recording where the program stands when it asks for memory or frees it: the stack of the call,
 * its Python frames, the name of what it is doing. What is recorded is said in the region (struct
 * cm_record) and changed while the program runs.
 *
 * A stack is captured by the calling thread, at the door, with no lock held, and never in a signal
 * handler: a call from one that interrupts the library passes it by. Thread-safe.
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

struct cm_region;

/* enum cm_context: whose stacks are captured. */
extern _Atomic uint32_t cm_record_context __attribute__((visibility("hidden")));

/* Once for each region, before its cache is made: what the configuration wants. */
void cm_record_start(struct cm_region *region, const struct cm_config *config);
/* The cache that record_change speaks to. */
void cm_record_attach(struct cm_cache *cache);
/* In a forked child: nothing is recorded until the next start. */
void cm_record_forget(void);

/*
 * Changes what `set` names (CM_RECORD_SET_*, CM_RECORD_CLEAR), all or nothing where a value makes
 * no sense (-EINVAL). Returns 0, or -ENOSPC where a ring of events finds no space; the rest is
 * done.
 */
struct cm_record_request {
	uint32_t set;
	uint32_t events;
	uint32_t context;
	uint32_t stacks;
	uint64_t max_entries;
};
int cm_record_change(const struct cm_record_request *request);

/* The id of a text in the region; 0: nothing is recorded, or no room. */
uint32_t cm_record_text(const char *text);

void cm_record_capture(void);

/* The id of the calling thread's stack, of Python too where stacks have ever been recorded,
 * whatever is being recorded; 0: none is to be had. No lock is held. */
uint32_t cm_record_capture_now(void);

/*
 * Captures the stack for the events of the call under way, where stacks are recorded from `context`
 * on; true: cm_record_end() belongs behind the call.
 */
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
