/* SPDX-License-Identifier: MIT */
/*
 * A table of the region that holds each thing once: stacks, texts. Things are strings of bytes,
 * laid one after the other; a thing's id is the index of its first row, and row 0 belongs to
 * nobody.
 *
 * What is there is found without a lock; adding takes a mutex, and a system call where the table
 * has to grow. Nothing is ever taken out. The index by which things are found is private to the
 * process and is mapped, not malloc'ed: the caller may be inside an allocator of the program's.
 *
 * Thread-safe. In a forked child the region is the parent's: cm_intern_table_fini, then start anew.
 */
#ifndef CM_STATS_INTERN_H
#define CM_STATS_INTERN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"
#include "stats/region.h"

struct cm_intern_index;

struct cm_intern_table {
	struct cm_region *region;
	enum cm_table table;
	uint32_t stride;
	uint32_t capacity;     /* rows that may be used, at least 1 */
	uint64_t *used;        /* rows in use, for readers of the region */
	uint64_t *lost;        /* things that found no room, likewise */
	uint64_t *told_count;  /* the same as count, likewise; NULL: nobody wants to know */
	_Atomic uint32_t rows; /* the same as *used; written under the lock */
	uint32_t count;        /* guarded by lock */
	pthread_mutex_t lock;
	_Atomic(struct cm_intern_index *) index;
};

/*
 * Empty. `capacity` in rows, 0: all that the table has. `used`, `lost` and `count` lie in the
 * region's header; `count` may be NULL. Fails never: where memory for the index is missing every
 * add is lost.
 */
void cm_intern_table_init(struct cm_intern_table *intern, struct cm_region *region,
			  enum cm_table table, uint32_t capacity, uint64_t *used, uint64_t *lost,
			  uint64_t *count);
/* Unmaps the index. The table stays as it is. */
void cm_intern_table_fini(struct cm_intern_table *intern);

/*
 * The id of `bytes` bytes (a multiple of the table's stride), which are added where they are new.
 * 0: no room, counted.
 */
uint32_t cm_intern_table_add(struct cm_intern_table *intern, const void *data, size_t bytes);

#endif
