/* SPDX-License-Identifier: MIT */
#include "object.h"

#include <string.h>

/*
 * Static, and so a root for leak checkers: what only a handle leads to is not lost. A page costs
 * memory when its first object is made.
 */
static _Alignas(SIM_SLOT_BYTES) char range[64 << 20];

struct sim_slots sim_slots = {.first = range};

static struct sim_object *free_slots[SIM_TYPE_COUNT];
static uint64_t last_id;

static struct sim_object *take_slot(size_t bytes)
{
	struct sim_object *object;

	bytes = (bytes + SIM_SLOT_BYTES - 1) & ~(size_t)(SIM_SLOT_BYTES - 1);
	if (sim_slots.bytes + bytes > sizeof(range))
		return NULL;
	object = (struct sim_object *)(void *)(sim_slots.first + sim_slots.bytes);
	sim_slots.bytes += bytes;
	return object;
}

void *sim_object_create(enum sim_type type, size_t bytes)
{
	struct sim_object *object = free_slots[type];

	if (object)
		free_slots[type] = object->next;
	else
		object = take_slot(bytes);
	if (!object)
		return NULL;
	memset(object, 0, bytes);
	object->type = type;
	object->id = ++last_id;
	return object;
}

void sim_object_destroy(void *object)
{
	struct sim_object *slot = object;

	if (!slot)
		return;
	slot->next = free_slots[slot->type];
	free_slots[slot->type] = slot;
	slot->type = SIM_FREE_SLOT;
}
