/* SPDX-License-Identifier: MIT */
/*
 * Handles. What the driver creates (contexts, streams, events, ...) is a pointer into one
 * reserved range of slots that never goes back to the system, so that a stale or foreign handle can
 * be looked at and refused instead of being followed. A slot freed last is given out first, as the
 * real driver does: handles come back. Caller locks.
 */
#ifndef CM_SIM_OBJECT_H
#define CM_SIM_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_type {
	SIM_FREE_SLOT,
	SIM_CONTEXT,
	SIM_STREAM,
	SIM_EVENT,
	SIM_MODULE,
	SIM_FUNCTION,
	SIM_GRAPH,
	SIM_GRAPH_NODE,
	SIM_GRAPH_EXEC,
	SIM_POOL,
	SIM_PHYSICAL,
	SIM_ARRAY,
	SIM_MIPMAP,
	SIM_TYPE_COUNT
};

/* The first member of every object. */
struct sim_object {
	enum sim_type type;
	struct sim_object *next; /* free slots of one type */
	uint64_t id;             /* never used twice */
};

/* Zeroed but for its header; NULL when the range is used up. */
void *sim_object_create(enum sim_type type, size_t bytes);
void sim_object_destroy(void *object);

enum { SIM_SLOT_BYTES = 64 };

/* The slots in use so far. */
struct sim_slots {
	char *first;
	size_t bytes;
};
extern struct sim_slots sim_slots;

/* True when the handle is a living object of that type. Safe with any pointer. */
static inline bool sim_object_is(const void *handle, enum sim_type type)
{
	size_t offset = (size_t)((uintptr_t)handle - (uintptr_t)sim_slots.first);

	return offset < sim_slots.bytes && offset % SIM_SLOT_BYTES == 0 &&
	       ((const struct sim_object *)handle)->type == type;
}

#endif
