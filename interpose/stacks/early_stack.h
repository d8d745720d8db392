/* SPDX-License-Identifier: MIT */
/*
 * Stacks of calls that take a service away before there is a region: kept as return addresses, one
 * for each cause, until the recorder can store them. Thread-safe. Allocates nothing and takes no
 * lock but the loader's (dl_iterate_phdr), so the caller holds none.
 */
#ifndef CM_INTERPOSE_STACKS_EARLY_STACK_H
#define CM_INTERPOSE_STACKS_EARLY_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/stacks/unwind.h"
#include "stats/layout.h"

#define CM_EARLY_FRAMES 64

/* Keeps the stack of the calling thread, if it is the first of its cause. `by` is what
 * cm_record_cause gets, and must last. */
void cm_early_stack_keep(enum cm_cause cause, const char *by, const struct cm_unwind_skip *own);

/* Copies at most `max` return addresses of the stack that was kept for `by`, innermost first, and
 * returns how many. 0: none was kept, or an object was unloaded since, so that the addresses may be
 * of another one by now. *ret_cut: there were more. */
size_t cm_early_stack_read(enum cm_cause cause, const char *by, uint64_t unloads, uint64_t *frames,
			   size_t max, bool *ret_cut);

/* In a forked child, which has one thread. */
void cm_early_stack_forget(void);

#endif
