/* SPDX-License-Identifier: MIT */
#include "ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Sorted; a reserved range stands before the mapped ones inside it that begin with it. */
static struct sim_mem **ranges;
static size_t count;
static size_t room;

static bool stands_before(const struct sim_mem *mem, const struct sim_mem *other)
{
	if (mem->base != other->base)
		return mem->base < other->base;
	return mem->kind == SIM_MEM_RESERVED && other->kind != SIM_MEM_RESERVED;
}

/* How many ranges stand before this one. */
static size_t place_of(const struct sim_mem *mem)
{
	size_t low = 0;
	size_t high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stands_before(ranges[middle], mem))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int sim_ranges_add(struct sim_mem *mem)
{
	size_t place = place_of(mem);

	if (count == room) {
		size_t more = room ? 2 * room : 64;
		struct sim_mem **grown = realloc(ranges, more * sizeof(ranges[0]));

		if (!grown)
			return -ENOMEM;
		ranges = grown;
		room = more;
	}
	memmove(&ranges[place + 1], &ranges[place], (count - place) * sizeof(ranges[0]));
	ranges[place] = mem;
	count++;
	return 0;
}

void sim_ranges_remove(const struct sim_mem *mem)
{
	size_t place = place_of(mem);

	if (place == count || ranges[place] != mem)
		return;
	count--;
	memmove(&ranges[place], &ranges[place + 1], (count - place) * sizeof(ranges[0]));
}

/* The last range that begins at the address or below. */
static size_t last_below(uint64_t addr)
{
	size_t low = 0;
	size_t high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges[middle]->base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct sim_mem *sim_ranges_find(uint64_t addr)
{
	size_t place = last_below(addr);

	/* Where the nearest is a mapped range that ends too early, its reserved one is further. */
	while (place-- > 0) {
		struct sim_mem *mem = ranges[place];

		if (addr - mem->base < mem->bytes)
			return mem;
		if (mem->kind != SIM_MEM_MAPPED)
			return NULL;
	}
	return NULL;
}

bool sim_ranges_any(uint64_t addr, uint64_t bytes)
{
	size_t place = last_below(addr + bytes - 1);

	return place && ranges[place - 1]->base >= addr;
}
