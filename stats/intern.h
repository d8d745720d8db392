/* SPDX-License-Identifier: MIT */
/*
 * A table of the region that stores each byte string once: stacks, texts. A string's id is the
 * index of its first row; row 0 is unused, so id 0 means none.
 *
 * A lookup takes no lock. Adding takes a mutex, and a system call if the table has to grow. Strings
 * are never removed. The hash index is private to the process and is mapped, not malloc'ed, as the
 * caller may be inside the program's own allocator.
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
	uint32_t capacity;     /* rows of the table, at least 1 */
	uint64_t *used;        /* rows in use, for readers of the region */
	uint64_t *lost;        /* strings that did not fit, for readers too */
	uint64_t *told_count;  /* copy of `count` for readers; NULL: none */
	_Atomic uint32_t rows; /* copy of *used; written under the lock */
	uint32_t count;        /* guarded by lock */
	pthread_mutex_t lock;
	_Atomic(struct cm_intern_index *) index;
};

/*
 * Starts with an empty table. `used`, `lost` and `count` point into the region's header; `count`
 * may be NULL. Never fails: without memory for the index, every string counts as lost.
 */
void cm_intern_table_init(struct cm_intern_table *intern, struct cm_region *region,
			  enum cm_table table, uint64_t *used, uint64_t *lost, uint64_t *count);
/* Unmaps the index. The table stays as it is. */
void cm_intern_table_fini(struct cm_intern_table *intern);

/*
 * The id of the string of `bytes` bytes (a multiple of the table's stride), added if it is new. 0:
 * the table is full, which *lost counts.
 */
uint32_t cm_intern_table_add(struct cm_intern_table *intern, const void *data, size_t bytes);

#endif
