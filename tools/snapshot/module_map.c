/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/module_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of two at one address the later row is found. */
static int by_start(const void *a, const void *b)
{
	const struct cm_module *x = *(const struct cm_module *const *)a;
	const struct cm_module *y = *(const struct cm_module *const *)b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void choose_generation(struct cm_module_map *map, uint32_t generation)
{
	size_t i;

	map->generation = generation;
	map->now_count = 0;
	for (i = 0; i < map->all_count; i++)
		if (map->all[i]->first <= generation && generation <= map->all[i]->last)
			map->now[map->now_count++] = map->all[i];
}

int cm_module_map_init(struct cm_module_map *map, const struct cm_image *image)
{
	const struct cm_image_table *table = &image->table[CM_TABLE_MODULE];
	const struct cm_module *row = table->rows;
	uint32_t i;

	memset(map, 0, sizeof(*map));
	map->all = calloc(table->count + (size_t)1, sizeof(const struct cm_module *));
	map->now = calloc(table->count + (size_t)1, sizeof(const struct cm_module *));
	if (!map->all || !map->now) {
		cm_module_map_fini(map);
		return -ENOMEM;
	}
	for (i = 0; i < table->count; i++)
		map->all[i] = &row[i];
	map->all_count = table->count;
	qsort(map->all, map->all_count, sizeof(const struct cm_module *), by_start);
	choose_generation(map, 0);
	return 0;
}

void cm_module_map_fini(struct cm_module_map *map)
{
	free(map->all);
	free(map->now);
	memset(map, 0, sizeof(*map));
}

const struct cm_module *cm_module_map_find(struct cm_module_map *map, uint64_t address,
					   uint32_t generation)
{
	size_t low = 0, high, middle;

	if (generation != map->generation)
		choose_generation(map, generation);
	/* Modules of one generation do not overlap: the last that starts before has it, or none. */
	for (high = map->now_count; low < high;) {
		middle = low + (high - low) / 2;
		if (map->now[middle]->start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < map->now[low - 1]->end ? map->now[low - 1] : NULL;
}
