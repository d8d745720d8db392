/* SPDX-License-Identifier: MIT */
/*
 * Who has owned which addresses, and what touched them meanwhile. A new owner takes over from the
 * earlier ones all that may still touch the memory: whatever it does itself has to come after that.
 * Caller locks.
 */
#ifndef CM_SIM_OWNERS_H
#define CM_SIM_OWNERS_H

#include "deed.h"
#include "vector.h"

/* The latest access of an owner's in one line; what comes after it comes after those before it. */
struct sim_access {
	uint32_t line;
	uint32_t tick;
	bool write;
	struct sim_deed *deed;
	struct sim_holding *holding;
};

struct sim_accesses {
	struct sim_access *items;
	unsigned count;
	unsigned room;
};

struct sim_owner {
	unsigned spans; /* pieces of the map that it has */
	bool live;
	struct sim_holding *holding;
	struct sim_vector *left_after; /* what was known to be done when it was given back */
	struct sim_accesses own;       /* under this owner */
	struct sim_accesses inherited; /* under earlier ones: may still be under way */
};

/* What somebody knows of at a time: what a thread does, and an allocator that it works for. */
struct sim_known {
	struct sim_vector *thread;
	struct sim_vector *allocator; /* or NULL */
};

/*
 * The memory of the holding, a reference to which is taken over, has this owner from here on.
 * ret_conflict gets an allocation that still lives and is another allocator's, or NULL.
 */
struct sim_owner *sim_owners_allocate(struct sim_holding *holding, const struct sim_known *known,
				      struct sim_holding **ret_conflict);

/* The owner, dead or alive, to which an allocator has given the address. */
struct sim_owner *sim_owners_find_allocated(uint64_t addr);

void sim_owners_free(struct sim_owner *owner, struct sim_vector *known);
/* It lives on. */
void sim_owners_revive(struct sim_owner *owner);

/* Calls `see` for every owner, dead or alive, of any of the addresses. */
void sim_owners_visit(uint64_t addr, uint64_t bytes,
		      void (*see)(struct sim_owner *owner, void *data), void *data);

/* Remembers the access under its owner. */
void sim_owner_add_access(struct sim_owner *owner, const struct sim_access *access);
/* Takes out what somebody knows to be done. */
void sim_accesses_settle(struct sim_accesses *accesses, const struct sim_vector *known);
void sim_accesses_remove(struct sim_accesses *accesses, unsigned i);

#endif
