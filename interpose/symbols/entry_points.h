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

#include "stats/layout.h"

#include <stdbool.h>
#include <stddef.h>

/* A member of struct cm_real, whatever its type. */
typedef void *cm_real_slot __attribute__((may_alias));

/* A row of hooks.def. */
struct cm_hook {
	const char *symbol;
	const char *base;
	int version;
	unsigned int flags; /* CM_HOOK_* */
	void *wrapper;      /* NULL but for CM_HOOK: not to be replaced */
	void *exported;     /* our symbol of this name, NULL but for CM_HOOK */
	cm_real_slot *real; /* NULL for CM_KNOWN */
};

/* All rows, in the order of hooks.def. */
extern const struct cm_hook cm_hooks[];
extern const size_t cm_hook_count;

/* The row of an exported name, or NULL. Calls nothing. */
const struct cm_hook *cm_hook_find(const char *symbol);

/* The next dlsym and dlvsym after ours; set from the first look-up or call by symbol on. */
typedef void *cm_dlsym_fn(void *handle, const char *name);
typedef void *cm_dlvsym_fn(void *handle, const char *name, const char *version);
extern cm_dlsym_fn *cm_next_dlsym;
extern cm_dlvsym_fn *cm_next_dlvsym;

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
