/* SPDX-License-Identifier: MIT */
#include "allocator/base/ptr_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#define FIRST_BUCKETS 1024
/* Moved with each address that is added: a table of n buckets has moved after n / 8 of them, and
 * the next one has room for n * 9 / 8. */
#define STEP 8
/* Buckets that have moved are unmapped so many at a time: 64 KiB, whole pages of any machine. */
#define PIECE 1024

static struct cm_ptr_bucket *map_buckets(uint64_t n)
{
	void *memory = mmap(NULL, n * sizeof(struct cm_ptr_bucket), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void unmap_buckets(struct cm_ptr_bucket *bucket, uint64_t n)
{
	(void)munmap(bucket, n * sizeof(*bucket));
}

/* --- what has not moved ------------------------------------------------------------------- */

static uint64_t old_home(const struct cm_ptr_map *map, uint64_t addr)
{
	return cm_ptr_hash(addr) >> 32 & map->old_mask;
}

/* The first bucket to search for an address, and below the next one. The first that has not moved
 * stands for all that have. */
static uint64_t first_old(const struct cm_ptr_map *map, uint64_t addr)
{
	const uint64_t home = old_home(map, addr);

	return home < map->moved ? map->moved : home;
}

static uint64_t next_old(const struct cm_ptr_map *map, uint64_t i)
{
	return i == map->old_mask ? map->moved : i + 1;
}

static struct cm_ptr_place look_old(const struct cm_ptr_map *map, uint64_t addr)
{
	const uint32_t key = cm_ptr_key(cm_ptr_hash(addr));
	struct cm_ptr_bucket *bucket;
	uint64_t i;
	uint32_t at;

	for (i = first_old(map, addr);; i = next_old(map, i)) {
		bucket = &map->old[i];
		for (at = 0; at < CM_PTR_BUCKET; at++)
			if (bucket->key[at] == key && bucket->addr[at] == addr)
				return (struct cm_ptr_place){bucket, at};
		if (!bucket->passed)
			return (struct cm_ptr_place){0};
	}
}

CM_NOINLINE uint32_t cm_ptr_map_find_old(const struct cm_ptr_map *map, uint64_t addr)
{
	const struct cm_ptr_place place = map->old ? look_old(map, addr) : (struct cm_ptr_place){0};

	return place.bucket ? place.bucket->index[place.at] : 0;
}

CM_NOINLINE uint32_t cm_ptr_map_remove_old(struct cm_ptr_map *map, uint64_t addr)
{
	const struct cm_ptr_place place = map->old ? look_old(map, addr) : (struct cm_ptr_place){0};
	uint64_t i;

	if (!place.bucket)
		return 0;
	for (i = first_old(map, addr); &map->old[i] != place.bucket; i = next_old(map, i))
		map->old[i].passed--;
	place.bucket->key[place.at] = 0;
	map->count--;
	return place.bucket->index[place.at];
}

/* --- moving ------------------------------------------------------------------------------- */

static void move_bucket(struct cm_ptr_map *map)
{
	const struct cm_ptr_bucket *bucket = &map->old[map->moved];
	uint32_t at;
	uint64_t i;

	for (at = 0; at < CM_PTR_BUCKET; at++) {
		if (!bucket->key[at])
			continue;
		/* A search from the end of the table no longer continues here. */
		i = old_home(map, bucket->addr[at]);
		for (; i > map->moved && i <= map->old_mask; i++)
			map->old[i].passed--;
		map->count--;
		cm_ptr_map_add(map, bucket->addr[at], bucket->index[at]);
	}
	map->moved++;
	if (!(map->moved % PIECE))
		unmap_buckets(&map->old[map->moved - PIECE], PIECE);
}

static void move_some(struct cm_ptr_map *map)
{
	int n;

	for (n = 0; n < STEP && map->moved <= map->old_mask; n++)
		move_bucket(map);
	if (map->moved > map->old_mask) {
		map->old = NULL;
		map->most = map->room;
	}
}

CM_NOINLINE int cm_ptr_map_grow(struct cm_ptr_map *map)
{
	struct cm_ptr_bucket *bucket;
	uint64_t n;

	if (map->old) {
		move_some(map);
		return 0;
	}
	n = map->bucket ? (map->mask + 1) * 2 : FIRST_BUCKETS;
	bucket = map_buckets(n);
	if (!bucket)
		return -ENOMEM;
	*map = (struct cm_ptr_map){
		.bucket = bucket,
		.mask = n - 1,
		.count = map->count,
		.room = n * CM_PTR_BUCKET * 3 / 8,
		.old = map->bucket,
		.old_mask = map->mask,
	};
	if (map->old)
		move_some(map);
	else
		map->most = map->room;
	return 0;
}

void cm_ptr_map_fini(struct cm_ptr_map *map)
{
	const uint64_t unmapped = map->moved - map->moved % PIECE;

	if (map->old)
		unmap_buckets(&map->old[unmapped], map->old_mask + 1 - unmapped);
	if (map->bucket)
		unmap_buckets(map->bucket, map->mask + 1);
	*map = (struct cm_ptr_map){0};
}

/* --- walking ------------------------------------------------------------------------------ */

static uint64_t places_of(const struct cm_ptr_bucket *bucket, uint64_t mask)
{
	return bucket ? (mask + 1) * CM_PTR_BUCKET : 0;
}

uint64_t cm_ptr_map_places(const struct cm_ptr_map *map)
{
	return places_of(map->bucket, map->mask) + places_of(map->old, map->old_mask);
}

uint32_t cm_ptr_map_at(const struct cm_ptr_map *map, uint64_t place, uint64_t *ret_addr)
{
	const uint64_t places = places_of(map->bucket, map->mask);
	const bool is_old = place >= places;
	const uint64_t i = (is_old ? place - places : place) / CM_PTR_BUCKET;
	const struct cm_ptr_bucket *bucket = is_old ? &map->old[i] : &map->bucket[i];
	const uint64_t at = place % CM_PTR_BUCKET; /* a table has whole buckets */

	if ((is_old && i < map->moved) || !bucket->key[at])
		return 0;
	*ret_addr = bucket->addr[at];
	return bucket->index[at];
}
