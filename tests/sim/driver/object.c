/* SPDX-License-Identifier: MIT */
#include "object.h"

#include <string.h>
#include <sys/mman.h>

/* Address space only; a page costs memory when its first object is made. */
#define RANGE_BYTES ((size_t)4 << 30)

struct sim_slots sim_slots;

static struct sim_object *free_slots[SIM_TYPE_COUNT];
static uint64_t last_id;

static struct sim_object *take_slot(size_t bytes)
{
	struct sim_object *object;

	if (!sim_slots.first) {
		void *map = mmap(NULL, RANGE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (map == MAP_FAILED)
			return NULL;
		sim_slots.first = map;
	}
	bytes = (bytes + SIM_SLOT_BYTES - 1) & ~(size_t)(SIM_SLOT_BYTES - 1);
	if (sim_slots.bytes + bytes > RANGE_BYTES)
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
