/* SPDX-License-Identifier: MIT */
/*
 * The return addresses of the calling thread's stack.
 *
 * On x86-64 a frame's caller is found by the rule that the compiler wrote for the return address
 * (cfi.h), which is remembered: a frame seen before costs a look in a table and two loads. Where
 * there is no rule (code made at run time, objects without .eh_frame), and on other machines, the
 * frame pointer leads on, if it points to readable memory of the stack.
 *
 * Thread-safe. Allocates nothing. For an address seen for the first time it asks the loader
 * (dl_iterate_phdr), so no lock may be held. Of a thread in a signal handler it tells the handler's
 * frames: on x86-64 a walk ends where the kernel called it.
 */
#ifndef CM_INTERPOSE_STACKS_UNWIND_H
#define CM_INTERPOSE_STACKS_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Addresses of one's own code, whose frames at the near end are left out. */
struct cm_unwind_skip {
	uint64_t start;
	uint64_t end;
};

/*
 * Fills `frames` with at most `max` return addresses, innermost first, and returns how many.
 * *ret_cut: there were more. `unloads` is a number that changes when an object is unloaded: what
 * was remembered until then is forgotten.
 */
size_t cm_unwind(const struct cm_unwind_skip *skip, uint64_t unloads, uint64_t *frames, size_t max,
		 bool *ret_cut);

#endif
