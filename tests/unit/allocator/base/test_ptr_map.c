/* SPDX-License-Identifier: MIT */
#include "allocator/base/ptr_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/unit/cmocka_all.h"

#define ADDRESSES  20000
#define OPERATIONS 400000

static bool no_memory;
static size_t mapped;

void *__real_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t bytes);
int __wrap_munmap(void *addr, size_t bytes);

void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	mapped += bytes;
	return __real_mmap64(addr, bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t bytes)
{
	mapped -= bytes;
	return __real_munmap(addr, bytes);
}

static uint64_t addr_of(uint32_t i)
{
	return UINT64_C(0x7f0000000000) + (uint64_t)i * 512;
}

static void add(struct cm_ptr_map *map, uint64_t addr, uint32_t index)
{
	assert_int_equal(cm_ptr_map_reserve(map), 0);
	cm_ptr_map_add(map, addr, index);
}

CM_TEST(an_empty_map_knows_nothing)
{
	struct cm_ptr_map map = {0};

	assert_int_equal(cm_ptr_map_find(&map, addr_of(1)), 0);
	assert_int_equal(cm_ptr_map_remove(&map, addr_of(1)), 0);
	add(&map, addr_of(1), 7);
	assert_int_equal(cm_ptr_map_find(&map, addr_of(2)), 0);
	assert_int_equal(cm_ptr_map_find(&map, addr_of(1) + 1), 0);
	assert_int_equal(cm_ptr_map_find(&map, 0), 0);
	cm_ptr_map_fini(&map);
}

CM_TEST(what_is_added_is_found_until_it_is_removed)
{
	struct cm_ptr_map map = {0};
	uint32_t *model = calloc(ADDRESSES, sizeof(*model)), i, at, count = 0;
	uint64_t random = 1;

	if (!model) {
		fail();
		return;
	}
	for (i = 0; i < OPERATIONS; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		at = (uint32_t)(random >> 33) % ADDRESSES;
		assert_int_equal(cm_ptr_map_find(&map, addr_of(at)), model[at]);
		if (model[at]) {
			assert_int_equal(cm_ptr_map_remove(&map, addr_of(at)), model[at]);
			model[at] = 0;
			count--;
		} else {
			model[at] = i + 1;
			count++;
			add(&map, addr_of(at), model[at]);
		}
		assert_int_equal(map.count, count);
		assert_true(map.count <= map.room && map.room < cm_ptr_map_places(&map));
	}
	for (at = 0; at < ADDRESSES; at++)
		assert_int_equal(cm_ptr_map_find(&map, addr_of(at)), model[at]);
	free(model);
	cm_ptr_map_fini(&map);
}

/* The nth address that belongs into one of the last two buckets of a table of that mask. */
static uint64_t crowded(uint64_t mask, uint32_t n)
{
	const struct cm_ptr_map map = {.mask = mask};
	uint32_t i = 0;

	do {
		while (cm_ptr_home(&map, cm_ptr_hash(addr_of(i))) < mask - 1)
			i++;
		i++;
	} while (n--);
	return addr_of(i - 1);
}

/* The buckets of the old table count who is further on, and nobody else. */
static void assert_old_is_sound(const struct cm_ptr_map *map)
{
	uint32_t *passed = calloc(map->old_mask + 1, sizeof(*passed));
	uint64_t i, at, home;

	assert_non_null(passed);
	for (i = map->moved; i <= map->old_mask; i++)
		for (at = 0; at < CM_PTR_BUCKET; at++) {
			if (!map->old[i].key[at])
				continue;
			home = cm_ptr_hash(map->old[i].addr[at]) >> 32 & map->old_mask;
			for (; home != i; home = (home + 1) & map->old_mask)
				passed[home]++;
		}
	for (i = map->moved; i <= map->old_mask; i++)
		assert_int_equal(map->old[i].passed, passed[i]);
	free(passed);
}

/* Each address is found, and met once on a walk, where it is in the model. */
static void assert_is(const struct cm_ptr_map *map, const uint64_t *addr, const uint32_t *model,
		      uint32_t n)
{
	uint64_t i, at, met = 0, count = 0;

	for (i = 0; i < n; i++) {
		assert_int_equal(cm_ptr_map_find(map, addr[i]), model[i]);
		count += model[i] != 0;
	}
	for (i = 0; i < cm_ptr_map_places(map); i++) {
		const uint32_t index = cm_ptr_map_at(map, i, &at);

		if (!index)
			continue;
		assert_int_equal(model[index - 1], index);
		assert_int_equal(addr[index - 1], at);
		met++;
	}
	assert_int_equal(met, count);
	assert_int_equal(map->count, count);
}

/* Addresses that are beyond the end of the table, and so at its beginning, some of which go while
 * the others move. */
CM_TEST(what_moves_is_found_all_the_while)
{
	enum { CROWDED = 300, ALL = 1600 };
	struct cm_ptr_map map = {0};
	uint64_t addr[ALL];
	uint32_t model[ALL] = {0}, i, steps = 0;

	add(&map, addr_of(UINT32_MAX), 1);
	for (i = 0; i < ALL; i++)
		addr[i] = i < CROWDED ? crowded(map.mask, i) : addr_of(UINT32_MAX / 2 + i);
	assert_int_equal(cm_ptr_map_remove(&map, addr_of(UINT32_MAX)), 1);
	for (i = 0; i < ALL; i++) {
		add(&map, addr[i], i + 1);
		model[i] = i + 1;
		if (!map.old)
			continue;
		assert_is(&map, addr, model, ALL);
		assert_old_is_sound(&map);
		/* One that has most likely moved, and one of the crowd. */
		assert_int_equal(cm_ptr_map_remove(&map, addr[i - 100]), model[i - 100]);
		model[i - 100] = 0;
		assert_int_equal(cm_ptr_map_remove(&map, addr[2 * steps]), 2 * steps + 1);
		model[2 * steps] = 0;
		assert_int_equal(cm_ptr_map_remove(&map, addr[2 * steps]), 0);
		assert_is(&map, addr, model, ALL);
		assert_old_is_sound(&map);
		steps++;
	}
	/* Not at once, and not for ever. */
	assert_true(steps > 100 && steps < 200);
	assert_is(&map, addr, model, ALL);
	cm_ptr_map_fini(&map);
}

CM_TEST(a_map_goes_while_it_moves)
{
	struct cm_ptr_map map = {0};
	uint32_t i = 0, pieces;

	/* Tables of less than a piece, and of several of which one is unmapped. */
	for (pieces = 1; pieces < 4; pieces++) {
		do {
			add(&map, addr_of(i), i + 1);
			i++;
		} while (map.mask + 1 < 1024u << pieces || !map.old || map.moved < 100);
		if (pieces == 3)
			while (map.moved < 1500)
				add(&map, addr_of(++i), 1);
		assert_non_null(map.old);
		cm_ptr_map_fini(&map);
		assert_null(map.bucket);
		assert_int_equal(mapped, 0);
		assert_int_equal(cm_ptr_map_places(&map), 0);
	}
}

CM_TEST(a_map_that_cannot_grow_stays_as_it_was)
{
	struct cm_ptr_map map = {0};
	uint32_t i, n = 0;

	no_memory = true;
	assert_int_equal(cm_ptr_map_reserve(&map), -ENOMEM);
	no_memory = false;
	add(&map, addr_of(n), n + 1);
	n++;
	no_memory = true;
	while (!cm_ptr_map_reserve(&map)) {
		cm_ptr_map_add(&map, addr_of(n), n + 1);
		n++;
	}
	no_memory = false;
	assert_true(n > 1000);
	for (i = 1; i < n; i++)
		assert_int_equal(cm_ptr_map_find(&map, addr_of(i)), i + 1);
	add(&map, addr_of(n), n + 1);
	assert_int_equal(cm_ptr_map_find(&map, addr_of(n)), n + 1);
	cm_ptr_map_fini(&map);
}
