/* SPDX-License-Identifier: MIT */
/*
 * What the cache knows of memory outside of it: rows that are found by the names under which the
 * program frees or maps it. entry/uncached.h has what is done with them.
 */
#ifndef CM_ALLOCATOR_STATE_UNCACHED_ROWS_H
#define CM_ALLOCATOR_STATE_UNCACHED_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/lock.h"
#include "allocator/base/ptr_map.h"
#include "allocator/cache.h"

enum cm_uncached_name {
	CM_NAME_ADDRESS, /* what cuMemFree and cuMemFreeAsync take */
	CM_NAME_MAPPING, /* a range of cuMemMap, which holds the memory of a handle */
	CM_NAME_ARRAY,
	CM_NAME_MIPMAP,
	CM_NAME_HANDLE, /* of cuMemCreate */
	CM_NAME_COUNT
};

struct cm_uncached_memory {
	enum cm_uncached_kind kind;
	uint32_t device; /* row of the device table */
	uint64_t ctx;    /* it ends with this context; 0: it outlives contexts */
	uint64_t bytes;
	uint64_t taken; /* of these, by cm_cache_take_limit before the driver was called */
};

/* Memory, or a mapping of it. */
struct cm_uncached_row {
	struct cm_uncached_memory memory;
	uint64_t key;
	enum cm_uncached_name name;
	bool ended;      /* with its context, while a thread has taken it */
	uint32_t times;  /* how often the program will still release the name */
	uint32_t held;   /* by mappings, and by the thread that has taken it */
	uint32_t target; /* of a mapping: the row of its memory; 0 elsewhere */
	uint32_t link;   /* the next one taken with it, or the next unused row */
};

/* All of it guarded by its lock. */
struct cm_uncached {
	struct cm_lock lock;
	struct cm_ptr_map map[CM_NAME_COUNT];
	struct cm_uncached_row *row; /* row 0 means none */
	uint32_t rows;               /* ever used */
	uint32_t room;
	uint32_t spare;
};

#endif
