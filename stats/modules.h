/* SPDX-License-Identifier: MIT */
/*
 * The module map: which objects are loaded where, so that a return address can be named when the
 * process is long gone. Kept in the region; brought up to date when it is asked for, never by a
 * signal or in the background.
 *
 * Thread-safe. Uses dl_iterate_phdr, which takes the loader's lock for the list of objects: no
 * other lock may be held by the caller. That lock is held by a program only while it iterates
 * itself, not while constructors run.
 */
#ifndef CM_STATS_MODULES_H
#define CM_STATS_MODULES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stats/intern.h"

struct cm_modules {
	struct cm_region *region;
	struct cm_intern_table *texts;
	pthread_mutex_t lock;
	uint32_t rows;
	/* What the loader said when the map was last brought up to date. */
	_Atomic uint64_t loads;
	_Atomic uint64_t unloads;
	_Atomic uint32_t generation;
};

/* Empty; `texts` holds the paths. */
void cm_modules_init(struct cm_modules *modules, struct cm_region *region,
		     struct cm_intern_table *texts);

/*
 * Brings the map up to date where an object has come or gone since. *ret_generation: what stacks
 * captured now belong to. *ret_unloads changes when an object has been unloaded: what was known of
 * addresses may be wrong. False: another thread is at it and does not come to an end, since it
 * waits for the caller's caller; nothing is known.
 */
bool cm_modules_refresh(struct cm_modules *modules, uint32_t *ret_generation,
			uint64_t *ret_unloads);

#endif
