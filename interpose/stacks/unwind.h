/* SPDX-License-Identifier: MIT */
/*
 * Return addresses of the calling thread's stack.
 *
 * On x86-64 the compiler's rule for a return address (cfi.h) leads to the caller; rules are cached,
 * so a known frame costs a table look-up and two loads. Without a rule (generated code, objects
 * without .eh_frame), and on other machines, the walk follows the frame pointer if it points up the
 * stack. Rules and pointers may be wrong: outside the thread's own stack a walk only reads what the
 * kernel has just found readable, and ends at anything else.
 *
 * Thread-safe. Allocates nothing. A new address needs the loader (dl_iterate_phdr), so the caller
 * holds no lock. In a signal handler a walk on x86-64 ends at the frame that the kernel made.
 */
#ifndef CM_INTERPOSE_STACKS_UNWIND_H
#define CM_INTERPOSE_STACKS_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller's own code; its innermost frames are skipped. */
struct cm_unwind_skip {
	uint64_t start;
	uint64_t end;
};

/* Fills `frames` with at most `max` return addresses, innermost first, and returns how many.
 * *ret_cut: there were more. `unloads` changes when an object is unloaded: cached rules are dropped
 * then. */
size_t cm_unwind(const struct cm_unwind_skip *skip, uint64_t unloads, uint64_t *frames, size_t max,
		 bool *ret_cut);

#endif
