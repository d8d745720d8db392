/* SPDX-License-Identifier: MIT */
/*
 * The module map: which objects are loaded where, so that a return address can be named when the
 * process has ended. Kept in the region and updated on demand, never by a signal or in the
 * background.
 *
 * Thread-safe. Uses dl_iterate_phdr, which takes the loader's lock for the list of objects: no
 * other lock may be held by the caller. That lock is held by a program only while it iterates
 * itself, not while constructors run.
 */
#ifndef CM_STATS_MODULES_H
#define CM_STATS_MODULES_H

#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stats/intern.h"

struct cm_modules {
	struct cm_region *region;
	struct cm_intern_table *texts;
	pthread_mutex_t lock;
	uint32_t rows;
	/* The loader's counts at the last update. */
	_Atomic uint64_t loads;
	_Atomic uint64_t unloads;
	_Atomic uint32_t generation;
	char path[PATH_MAX]; /* of the program, while it is looked up */
};

/* Starts an empty map; `texts` stores the paths and must outlive it. Never fails. */
void cm_modules_init(struct cm_modules *modules, struct cm_region *region,
		     struct cm_intern_table *texts);

/* Whether the loader has mapped what the file has of this part. Of the notes that a tool has added
 * to a file some may stand in the file alone. */
bool cm_module_is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part);

/* Changes when an object is unloaded: the loader's count. */
uint64_t cm_modules_unloads(void);

/*
 * Updates the map if an object was loaded or unloaded since. *ret_generation: the generation of
 * stacks captured now. *ret_unloads changes when an object was unloaded: cached knowledge about
 * addresses may then be wrong. False: another thread holds the map's lock and may be waiting for a
 * lock of our caller; the map is not updated.
 */
bool cm_modules_refresh(struct cm_modules *modules, uint32_t *ret_generation,
			uint64_t *ret_unloads);

#endif
