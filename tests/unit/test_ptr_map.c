/* SPDX-License-Identifier: MIT */
#include "allocator/ptr_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/unit/cmocka_all.h"

#define ADDRESSES  20000
#define OPERATIONS 400000

static bool no_memory;

void *__real_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap64(addr, bytes, prot, flags, fd, offset);
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

static void an_empty_map_knows_nothing(void **state)
{
	struct cm_ptr_map map = {0};

	(void)state;
	assert_int_equal(cm_ptr_map_find(&map, addr_of(1)), 0);
	assert_int_equal(cm_ptr_map_remove(&map, addr_of(1)), 0);
	add(&map, addr_of(1), 7);
	assert_int_equal(cm_ptr_map_find(&map, addr_of(2)), 0);
	assert_int_equal(cm_ptr_map_find(&map, addr_of(1) + 1), 0);
	assert_int_equal(cm_ptr_map_find(&map, 0), 0);
	cm_ptr_map_fini(&map);
}

static void what_is_added_is_found_until_it_is_removed(void **state)
{
	struct cm_ptr_map map = {0};
	uint32_t *model = calloc(ADDRESSES, sizeof(*model)), i, at, count = 0;
	uint64_t random = 1;

	(void)state;
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
		assert_true(map.count <= map.most && map.most < cm_ptr_map_places(&map));
	}
	for (at = 0; at < ADDRESSES; at++)
		assert_int_equal(cm_ptr_map_find(&map, addr_of(at)), model[at]);
	free(model);
	cm_ptr_map_fini(&map);
}

static void a_map_that_cannot_grow_stays_as_it_was(void **state)
{
	struct cm_ptr_map map = {0};
	uint32_t i, n = 0;

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_map_knows_nothing),
		cmocka_unit_test(what_is_added_is_found_until_it_is_removed),
		cmocka_unit_test(a_map_that_cannot_grow_stays_as_it_was),
	};

	return cmocka_run_group_tests_name("ptr_map", tests, NULL, NULL);
}
