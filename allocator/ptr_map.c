/* SPDX-License-Identifier: MIT */
#include "allocator/ptr_map.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define FIRST_SLOTS 4096

static struct cm_ptr_slot *map_slots(uint64_t slots)
{
	void *memory = mmap(NULL, slots * sizeof(struct cm_ptr_slot), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

CM_NOINLINE int cm_ptr_map_grow(struct cm_ptr_map *map)
{
	struct cm_ptr_map old = *map;
	uint64_t slots = old.slot ? (old.mask + 1) * 2 : FIRST_SLOTS, i;
	struct cm_ptr_slot *slot = map_slots(slots);

	if (!slot)
		return -ENOMEM;
	map->slot = slot;
	map->mask = slots - 1;
	map->count = 0;
	for (i = 0; old.slot && i <= old.mask; i++)
		if (old.slot[i].addr)
			cm_ptr_map_add(map, old.slot[i].addr, old.slot[i].index);
	cm_ptr_map_fini(&old);
	return 0;
}

void cm_ptr_map_fini(struct cm_ptr_map *map)
{
	if (map->slot)
		(void)munmap(map->slot, (map->mask + 1) * sizeof(*map->slot));
	map->slot = NULL;
}
