/* SPDX-License-Identifier: MIT */
/*
 * Address to row, of pinned memory and of memory outside the cache: a hash table of buckets of
 * three, each a cache line. 32 bits of the three hashes are compared at once, with no branch that
 * depends on where an address stands. If a bucket is full, an address goes to the next one that is
 * not, and each bucket on the way counts it, so that a search goes on only if an address did. At
 * most three of eight places are taken. Memory comes from mmap, so that a program that ruins its
 * own heap does not ruin ours. Caller locks.
 *
 * A map that is full gets a table of twice the size. Each address that is added after that moves
 * some of the old ones, so no request pays for all of them.
 */
#ifndef CM_ALLOCATOR_BASE_PTR_MAP_H
#define CM_ALLOCATOR_BASE_PTR_MAP_H

#include <stdint.h>

#include "allocator/base/attr.h"

#define CM_PTR_BUCKET 3u

typedef uint32_t cm_ptr_keys __attribute__((vector_size(16)));

struct cm_ptr_bucket {
	uint32_t key[CM_PTR_BUCKET]; /* of the hash; 0: empty */
	uint32_t passed;             /* addresses that are further on since this one was full */
	uint32_t index[CM_PTR_BUCKET];
	uint32_t pad;
	uint64_t addr[CM_PTR_BUCKET];
	uint64_t pad1;
};

struct cm_ptr_map {
	struct cm_ptr_bucket *bucket;
	uint64_t mask;  /* buckets - 1, a power of two */
	uint64_t count; /* in use, in both tables */
	uint64_t most;  /* as many may be added at once; 0 while addresses move */
	uint64_t room;  /* as many as the table takes */

	/* What has not moved yet: buckets [moved, old_mask]. An address whose place was before them
	 * is searched from the first of them on. Nothing is added to them. */
	struct cm_ptr_bucket *old; /* NULL: nothing moves */
	uint64_t old_mask;
	uint64_t moved;
};

/* Where an address stands. */
struct cm_ptr_place {
	struct cm_ptr_bucket *bucket; /* NULL: it is not there */
	uint32_t at;
};

/* Makes room for one more address if there is none, and moves a few addresses if a move is under
 * way. 0 or -ENOMEM: the map is unchanged. */
int cm_ptr_map_grow(struct cm_ptr_map *map);
void cm_ptr_map_fini(struct cm_ptr_map *map);

/* As cm_ptr_map_find and cm_ptr_map_remove, among what has not moved yet. */
uint32_t cm_ptr_map_find_old(const struct cm_ptr_map *map, uint64_t addr);
uint32_t cm_ptr_map_remove_old(struct cm_ptr_map *map, uint64_t addr);

/* 0 or -ENOMEM. */
CM_ALWAYS_INLINE int cm_ptr_map_reserve(struct cm_ptr_map *map)
{
	return CM_LIKELY(map->count < map->most) ? 0 : cm_ptr_map_grow(map);
}

/* Addresses on the device are multiples of 512: a multiplication spreads the bits above that
 * (Fibonacci hashing). */
CM_ALWAYS_INLINE uint64_t cm_ptr_hash(uint64_t addr)
{
	return (addr >> 9 | addr << 55) * UINT64_C(0x9e3779b97f4a7c15);
}

CM_ALWAYS_INLINE uint64_t cm_ptr_home(const struct cm_ptr_map *map, uint64_t hash)
{
	return hash >> 32 & map->mask;
}

CM_ALWAYS_INLINE uint32_t cm_ptr_key(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

/* Bit i: place i of the bucket has that key. */
CM_ALWAYS_INLINE uint32_t cm_ptr_bucket_match(const struct cm_ptr_bucket *bucket, uint32_t key)
{
#if defined(__SSE2__)
	const cm_ptr_keys *keys = (const void *)bucket;
	typedef float floats __attribute__((vector_size(16)));

	return (uint32_t)__builtin_ia32_movmskps((floats)(*keys == key)) & 7;
#else
	return (uint32_t)(bucket->key[0] == key) | (uint32_t)(bucket->key[1] == key) << 1 |
	       (uint32_t)(bucket->key[2] == key) << 2;
#endif
}

/* Adds an address that is not in the map; room was reserved. */
CM_ALWAYS_INLINE void cm_ptr_map_add(struct cm_ptr_map *map, uint64_t addr, uint32_t index)
{
	const uint64_t hash = cm_ptr_hash(addr);
	uint64_t i = cm_ptr_home(map, hash);
	struct cm_ptr_bucket *bucket = &map->bucket[i];
	uint32_t empty = cm_ptr_bucket_match(bucket, 0), at;

	while (CM_UNLIKELY(!empty)) {
		bucket->passed++;
		i = (i + 1) & map->mask;
		bucket = &map->bucket[i];
		empty = cm_ptr_bucket_match(bucket, 0);
	}
	at = (uint32_t)__builtin_ctz(empty);
	bucket->key[at] = cm_ptr_key(hash);
	bucket->index[at] = index;
	bucket->addr[at] = addr;
	map->count++;
}

/* In the table to which addresses are added. */
CM_ALWAYS_INLINE struct cm_ptr_place cm_ptr_map_look(const struct cm_ptr_map *map, uint64_t addr)
{
	const uint64_t hash = cm_ptr_hash(addr);
	const uint32_t key = cm_ptr_key(hash);
	uint64_t i = cm_ptr_home(map, hash);
	struct cm_ptr_bucket *bucket;
	uint32_t match, at;

	if (CM_UNLIKELY(!map->bucket))
		return (struct cm_ptr_place){0};
	for (;; i = (i + 1) & map->mask) {
		bucket = &map->bucket[i];
		/* Two addresses with the same key are possible, but rare. */
		for (match = cm_ptr_bucket_match(bucket, key); match; match &= match - 1) {
			at = (uint32_t)__builtin_ctz(match);
			if (CM_LIKELY(bucket->addr[at] == addr))
				return (struct cm_ptr_place){bucket, at};
		}
		if (CM_LIKELY(!bucket->passed))
			return (struct cm_ptr_place){0};
	}
}

/* The index of an address, or 0. */
static inline uint32_t cm_ptr_map_find(const struct cm_ptr_map *map, uint64_t addr)
{
	struct cm_ptr_place place = cm_ptr_map_look(map, addr);

	return CM_LIKELY(place.bucket) ? place.bucket->index[place.at]
				       : cm_ptr_map_find_old(map, addr);
}

/* Removes an address from its place, which cm_ptr_map_look has found. */
CM_ALWAYS_INLINE void cm_ptr_map_remove_at(struct cm_ptr_map *map, uint64_t addr,
					   struct cm_ptr_place place)
{
	uint64_t i;

	for (i = cm_ptr_home(map, cm_ptr_hash(addr)); CM_UNLIKELY(&map->bucket[i] != place.bucket);
	     i = (i + 1) & map->mask)
		map->bucket[i].passed--;
	place.bucket->key[place.at] = 0;
	map->count--;
}

/* Removes an address and returns its index; 0 if it was not there. */
static inline uint32_t cm_ptr_map_remove(struct cm_ptr_map *map, uint64_t addr)
{
	struct cm_ptr_place place = cm_ptr_map_look(map, addr);

	if (CM_UNLIKELY(!place.bucket))
		return cm_ptr_map_remove_old(map, addr);
	cm_ptr_map_remove_at(map, addr, place);
	return place.bucket->index[place.at];
}

/* For a walk over the map: the number of its places, and the entry at a place (index 0: none). To
 * remove the present entry, or one before it, moves nothing. */
uint64_t cm_ptr_map_places(const struct cm_ptr_map *map);
uint32_t cm_ptr_map_at(const struct cm_ptr_map *map, uint64_t place, uint64_t *ret_addr);

#endif
