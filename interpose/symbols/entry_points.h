/* SPDX-License-Identifier: MIT */
/*
 * The doors by which a program asks for a driver function and is handed a wrapper of ours: dlsym
 * and dlvsym (here), the exported symbols (exports.S), cuGetProcAddress (getproc.c). Each passes
 * what it doesn't know, and whatever the driver itself asks for, untouched to the real one.
 *
 * All thread-safe and lock-free: doors are used from other libraries' constructors, with the
 * loader's lock held.
 */
#ifndef CM_INTERPOSE_SYMBOLS_ENTRY_POINTS_H
#define CM_INTERPOSE_SYMBOLS_ENTRY_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"

/*
 * Whether the originals are known; where no door has been used yet the driver is looked for as a
 * call by symbol would. For those who start the library without having come through a door.
 */
bool cm_entry_points_find_driver(void);

/* One more went through this door. */
void cm_entry_points_count(enum cm_entry_point door);

/*
 * From now on the counts are kept in `door` too, an array of CM_ENTRY_COUNT, to which those so far
 * are added; NULL: no longer, as in a forked child.
 */
void cm_entry_points_publish(uint64_t *door);

#endif
