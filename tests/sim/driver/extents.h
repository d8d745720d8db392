/* SPDX-License-Identifier: MIT */
/*
 * Runs of units out of a fixed range: good fit in constant time, neighbours merged at once. The
 * same code allocates the 2 MiB chunks of a device and the 512-byte units inside chunks. The table
 * has an entry for every unit but is reserved, not touched: memory is used where units are. Caller
 * locks.
 */
#ifndef CM_SIM_EXTENTS_H
#define CM_SIM_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_NO_UNIT UINT32_MAX

enum { SIM_EXTENT_BINS = 256 };

/*
 * One unit. `length` and `used` hold in the first and the last unit of a run; the rest in the
 * first: the links of a free run, the owner of a used one.
 */
struct sim_extent {
	uint32_t length;
	uint32_t used;
	union {
		struct {
			uint32_t next;
			uint32_t prev;
		} link;
		void *owner;
	} u;
};

struct sim_extents {
	struct sim_extent *units;
	uint64_t *starts; /* bit per unit: the first of a run */
	uint32_t count;
	uint32_t page;                       /* runs never cross a multiple of it; 0: may */
	uint64_t full[SIM_EXTENT_BINS / 64]; /* bit per bin: has free runs */
	uint32_t first[SIM_EXTENT_BINS];     /* free runs of a bin */
};

/* All units taken: sim_extents_add() gives them. 0, or -ENOMEM; then sim_extents_fini() may
 * follow. */
int sim_extents_init(struct sim_extents *extents, uint32_t count, uint32_t page);

void sim_extents_fini(struct sim_extents *extents);

/* Makes a run of units free for the first time, or anew after sim_extents_remove(). */
void sim_extents_add(struct sim_extents *extents, uint32_t unit, uint32_t length);
/* Takes away a run that is wholly free and as long as sim_extents_free() said. */
void sim_extents_remove(struct sim_extents *extents, uint32_t unit);

/* The first unit of the run, or SIM_NO_UNIT. */
uint32_t sim_extents_alloc(struct sim_extents *extents, uint32_t length, void *owner);
/* The first unit of the free run that it became part of; `ret_length` its length. */
uint32_t sim_extents_free(struct sim_extents *extents, uint32_t unit, uint32_t *ret_length);

/* The owner of the used run that holds the unit, or NULL. Any unit below count. */
void *sim_extents_owner(const struct sim_extents *extents, uint32_t unit);

#endif
