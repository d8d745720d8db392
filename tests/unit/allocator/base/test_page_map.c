/* SPDX-License-Identifier: MIT */
#include "allocator/base/page_map.h"

#include <errno.h>

#include "tests/unit/cmocka_all.h"

#define MIB  (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f1200000000)
#define END  (UINT64_C(1) << 57)

static int setup(void **state)
{
	static struct cm_page_map map;

	*state = &map;
	return cm_page_map_init(&map);
}

static int teardown(void **state)
{
	cm_page_map_fini(*state);
	return 0;
}

static void an_unknown_address_is_nobodys(void **state)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_get(map, 0), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, END - 1), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, END), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, UINT64_MAX), CM_PAGE_NONE);
}

static void every_page_of_a_range_names_its_device(void **state)
{
	struct cm_page_map *map = *state;
	uint64_t addr;

	/* Over the border of two leaves of 32 GiB. */
	assert_int_equal(cm_page_map_add(map, BASE - 3 * MIB, 7 * MIB, 5), 0);
	for (addr = BASE - 4 * MIB; addr < BASE + 4 * MIB; addr += MIB)
		assert_int_equal(cm_page_map_get(map, addr), 6);
	assert_int_equal(cm_page_map_get(map, BASE - 4 * MIB - 1), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, BASE + 4 * MIB), CM_PAGE_NONE);
}

static void a_page_of_two_devices_is_mixed(void **state)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, BASE, 512, 0), 0);
	assert_int_equal(cm_page_map_add(map, BASE + 512, 512, 0), 0);
	assert_int_equal(cm_page_map_get(map, BASE), 1);
	assert_int_equal(cm_page_map_add(map, BASE + 1024, 512, 63), 0);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_MIXED);
	assert_int_equal(cm_page_map_add(map, BASE, 512, 0), 0);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_MIXED);
}

static void an_address_beyond_57_bits_is_refused(void **state)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, END - 2 * MIB, 2 * MIB, 0), 0);
	assert_int_equal(cm_page_map_get(map, END - 1), 1);
	assert_int_equal(cm_page_map_add(map, END - 2 * MIB, 2 * MIB + 1, 0), -ERANGE);
	assert_int_equal(cm_page_map_add(map, UINT64_MAX - 100, 512, 0), -ERANGE);
}

int main(void)
{
#define MAP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		MAP(an_unknown_address_is_nobodys),
		MAP(every_page_of_a_range_names_its_device),
		MAP(a_page_of_two_devices_is_mixed),
		MAP(an_address_beyond_57_bits_is_refused),
	};

	return cmocka_run_group_tests_name("page_map", tests, NULL, NULL);
}
