/* SPDX-License-Identifier: MIT */
/*
 * The entry points through which a program gets a wrapper of ours in place of a driver function:
 * dlsym and dlvsym (here), the exported symbols (exports.S), cuGetProcAddress (getproc.c). Each
 * hands on untouched what it does not know and whatever the driver itself looks up.
 *
 * Thread-safe and lock-free: other libraries' constructors use them, with the loader's lock held.
 */
#ifndef CM_INTERPOSE_SYMBOLS_ENTRY_POINTS_H
#define CM_INTERPOSE_SYMBOLS_ENTRY_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"

/* Finds the driver as a call by symbol would, unless it is known already. Returns whether the
 * originals are known. For callers that start the library without having come through an entry
 * point. */
bool cm_entry_points_find_driver(void);

/* Counts one more use of an entry point. */
void cm_entry_points_count(enum cm_entry_point entry);

/* Also keeps the counts in `table`, an array of CM_ENTRY_COUNT, from now on, and adds those so far.
 * NULL stops that, as in a forked child. */
void cm_entry_points_publish(uint64_t *table);

#endif
