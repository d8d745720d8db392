/* SPDX-License-Identifier: MIT */
#include "allocator/base/page_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/cmocka_all.h"

#define MIB  (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f1200000000)
#define END  (UINT64_C(1) << 57)
#define ROWS 40000u

static struct cm_block block[ROWS];
static unsigned calls_left; /* of mmap, before it fails */
static size_t mapped;

void *__real_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t bytes);
int __wrap_munmap(void *addr, size_t bytes);

void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (!calls_left) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	calls_left--;
	mapped += bytes;
	return __real_mmap64(addr, bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t bytes)
{
	mapped -= bytes;
	return __real_munmap(addr, bytes);
}

static int setup(void **state)
{
	static struct cm_page_map map;

	*state = &map;
	memset(block, 0, sizeof(block));
	calls_left = UINT32_MAX;
	mapped = 0;
	return cm_page_map_init(&map, block);
}

static int teardown(void **state)
{
	cm_page_map_fini(*state);
	return mapped != 0;
}

/* The block of that row comes into use at the address. */
static void use(struct cm_page_map *map, uint32_t index, uint64_t addr)
{
	block[index].addr = addr;
	block[index].state = CM_BLOCK_LIVE;
	cm_page_map_enter(map, addr, index);
}

#define MAP(test) CM_TEST_WITH(test, setup, teardown)

MAP(an_unknown_address_is_nobodys)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_get(map, 0), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, END - 1), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, END), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, UINT64_MAX), CM_PAGE_NONE);
}

MAP(every_page_of_a_range_names_its_device)
{
	struct cm_page_map *map = *state;
	uint64_t addr;

	/* Over the border of two leaves of 32 GiB. */
	assert_int_equal(cm_page_map_add(map, BASE - 3 * MIB, 7 * MIB, 5, false), 0);
	for (addr = BASE - 4 * MIB; addr < BASE + 4 * MIB; addr += MIB)
		assert_int_equal(cm_page_map_get(map, addr), 6);
	assert_int_equal(cm_page_map_get(map, BASE - 4 * MIB - 1), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, BASE + 4 * MIB), CM_PAGE_NONE);
}

MAP(a_page_belongs_to_one_device_at_a_time)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, BASE, 512, 0, true), 0);
	assert_int_equal(cm_page_map_add(map, BASE + 512, 512, 0, true), 0);
	assert_int_equal(cm_page_map_get(map, BASE), 1);
	use(map, 3, BASE + 512);
	/* The second page is taken: nothing of the range is noted. */
	assert_int_equal(cm_page_map_add(map, BASE - 2 * MIB, 3 * MIB, 63, true), -EBUSY);
	assert_int_equal(cm_page_map_add(map, BASE - 2 * MIB, 2 * MIB, 5, false), 0);
	assert_int_equal(cm_page_map_get(map, BASE), 1);
	cm_page_map_remove(map, BASE, 512);
	assert_int_equal(cm_page_map_add(map, BASE + 1024, 512, 63, true), -EBUSY);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 512), 3);
	cm_page_map_remove(map, BASE + 512, 512);
	/* Memory on its way to the driver is still looked for on the first device. */
	assert_int_equal(cm_page_map_get(map, BASE), 1);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 512), 0);
	assert_int_equal(cm_page_map_add(map, BASE + 1024, 512, 63, true), 0);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_MIXED);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 512), 0);
	assert_int_equal(cm_page_map_find(map, 63, BASE + 512), 0);
}

MAP(a_segment_moves_with_its_pages_and_blocks)
{
	struct cm_page_map *map = *state;
	uint64_t addr;

	assert_int_equal(cm_page_map_owner(map, BASE), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_add(map, BASE, 4 * MIB, 3, false), 0);
	assert_int_equal(cm_page_map_add(map, BASE + 4 * MIB, 2 * MIB, 3, true), 0);
	use(map, 7, BASE + MIB);
	assert_int_equal(cm_page_map_move(map, BASE, 4 * MIB, 62), 0);
	for (addr = BASE; addr < BASE + 4 * MIB; addr += MIB) {
		assert_int_equal(cm_page_map_get(map, addr), 63);
		assert_int_equal(cm_page_map_owner(map, addr), 63);
	}
	assert_int_equal(cm_page_map_owner(map, BASE - 1), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_owner(map, BASE + 4 * MIB), 4);
	assert_int_equal(cm_page_map_find(map, 3, BASE + MIB), 0);
	assert_int_equal(cm_page_map_find(map, 62, BASE + MIB), 7);
	/* As its own from the start. */
	assert_int_equal(cm_page_map_add(map, BASE, 512, 3, false), -EBUSY);
	cm_page_map_remove(map, BASE, 4 * MIB);
	assert_int_equal(cm_page_map_owner(map, BASE), CM_PAGE_NONE);
	assert_int_equal(cm_page_map_get(map, BASE), 63);
	assert_int_equal(cm_page_map_find(map, 62, BASE + MIB), 0);
	/* There and back. */
	assert_int_equal(cm_page_map_move(map, BASE + 4 * MIB, 2 * MIB, 0), 0);
	assert_int_equal(cm_page_map_move(map, BASE + 4 * MIB, 2 * MIB, 3), 0);
	assert_int_equal(cm_page_map_get(map, BASE + 4 * MIB), 4);
}

/* A page of which another segment has a part: nothing moves, whichever page it is. */
MAP(a_segment_that_shares_a_page_stays)
{
	struct cm_page_map *map = *state;
	uint64_t addr;

	assert_int_equal(cm_page_map_add(map, BASE, 6 * MIB - 512, 0, false), 0);
	assert_int_equal(cm_page_map_add(map, BASE + 6 * MIB - 512, 512, 0, true), 0);
	assert_int_equal(cm_page_map_move(map, BASE, 6 * MIB - 512, 1), -EBUSY);
	assert_int_equal(cm_page_map_move(map, BASE + 6 * MIB - 512, 512, 1), -EBUSY);
	for (addr = BASE; addr < BASE + 6 * MIB; addr += MIB) {
		assert_int_equal(cm_page_map_get(map, addr), 1);
		assert_int_equal(cm_page_map_owner(map, addr), 1);
	}
	cm_page_map_remove(map, BASE + 6 * MIB - 512, 512);
	assert_int_equal(cm_page_map_move(map, BASE, 6 * MIB - 512, 1), 0);
	assert_int_equal(cm_page_map_owner(map, BASE + 5 * MIB), 2);
}

/* Where it is not known any more which device had the address, all are asked. */
MAP(a_mixed_page_stays_mixed)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, BASE, 2 * MIB, 0, false), 0);
	cm_page_map_remove(map, BASE, 2 * MIB);
	assert_int_equal(cm_page_map_add(map, BASE, 2 * MIB, 1, false), 0);
	assert_int_equal(cm_page_map_move(map, BASE, 2 * MIB, 2), 0);
	assert_int_equal(cm_page_map_get(map, BASE), CM_PAGE_MIXED);
	assert_int_equal(cm_page_map_owner(map, BASE), 3);
}

MAP(only_a_block_in_use_is_found_and_by_its_start_alone)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, BASE, 2 * MIB, 0, true), 0);
	assert_int_equal(cm_page_map_find(map, 0, BASE), 0);
	use(map, 7, BASE + 1024);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1024), 7);
	assert_int_equal(cm_page_map_find(map, 1, BASE + 1024), 0);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1025), 0);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1536), 0);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1024 + END), 0);
	assert_int_equal(cm_page_map_find(map, 0, 0), 0);
	assert_int_equal(cm_page_map_find(map, 0, UINT64_MAX), 0);
	block[7].state = CM_BLOCK_PENDING;
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1024), 0);
	/* Its row serves elsewhere, and the address gets another one. */
	use(map, 7, BASE + 4096);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1024), 0);
	use(map, 9, BASE + 1024);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 1024), 9);
	assert_int_equal(cm_page_map_find(map, 0, BASE + 4096), 7);
}

/* A block is entered at its first use alone. */
MAP(a_block_that_is_free_meanwhile_stays_known)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, BASE + 512, 20 * MIB, 0, false), 0);
	use(map, 1, BASE + 512);
	use(map, 2, BASE + 3 * MIB);
	block[1].state = CM_BLOCK_FREE;
	assert_false(cm_page_map_names(map, BASE + 512, 2));
	assert_int_equal(cm_page_map_add(map, BASE, 512, 0, true), 0);
	assert_true(cm_page_map_names(map, BASE + 512, 1));
	assert_true(cm_page_map_names(map, BASE + 3 * MIB, 2));
	assert_int_equal(cm_page_map_find(map, 0, BASE + 512), 0);
	block[1].state = CM_BLOCK_LIVE;
	assert_int_equal(cm_page_map_find(map, 0, BASE + 512), 1);
}

MAP(large_blocks_are_found_also_once_small_ones_share_their_page)
{
	struct cm_page_map *map = *state;
	const uint64_t first = BASE + 512, second = first + MIB + 512;

	assert_int_equal(cm_page_map_add(map, first, 20 * MIB, 0, false), 0);
	use(map, 1, first);
	use(map, 2, second);
	assert_int_equal(cm_page_map_find(map, 0, first), 1);
	assert_int_equal(cm_page_map_find(map, 0, second), 2);
	calls_left = 0;
	assert_int_equal(cm_page_map_add(map, BASE, 512, 0, true), -ENOMEM);
	assert_int_equal(cm_page_map_find(map, 0, second), 2);
	calls_left = 1;
	assert_int_equal(cm_page_map_add(map, BASE, 512, 0, true), 0);
	use(map, 3, BASE);
	assert_int_equal(cm_page_map_find(map, 0, BASE), 3);
	assert_int_equal(cm_page_map_find(map, 0, first), 1);
	assert_int_equal(cm_page_map_find(map, 0, second), 2);
}

MAP(blocks_of_one_hash_are_found_both)
{
	static struct cm_recent recent;
	struct cm_page_map *map = *state;
	const uint64_t first = BASE + 512;
	uint64_t second = first + 512;

	while (cm_recent_at(&recent, second) != cm_recent_at(&recent, first))
		second += 512;
	assert_true(second < BASE + 32 * MIB);
	assert_int_equal(cm_page_map_add(map, BASE, 32 * MIB, 0, true), 0);
	use(map, 1, first);
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, first), 1);
	*cm_recent_at(&recent, first) = 1;
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, first), 1);
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, second), 0);
	use(map, 2, second);
	*cm_recent_at(&recent, second) = 2;
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, first), 1);
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, second), 2);
	block[2].state = CM_BLOCK_PENDING;
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, second), 0);
	assert_int_equal(cm_page_map_find_recent(map, &recent, 0, first), 1);
}

/* Segments at addresses that are always new: no more memory than for those that are there. */
MAP(cells_go_with_their_segments)
{
	struct cm_page_map *map = *state;
	size_t before;
	uint64_t i;

	assert_int_equal(cm_page_map_add(map, BASE, 2 * MIB, 0, false), 0);
	before = mapped;
	for (i = 1; i < 1000; i++) {
		assert_int_equal(cm_page_map_add(map, BASE + i * 2 * MIB, 2 * MIB, 0, true), 0);
		use(map, 1, BASE + i * 2 * MIB);
		assert_true(mapped - before <= 2 * MIB / 100);
		cm_page_map_remove(map, BASE + i * 2 * MIB, 2 * MIB);
		assert_int_equal(mapped, before);
	}
}

MAP(a_range_that_lacks_memory_leaves_nothing)
{
	struct cm_page_map *map = *state;
	size_t before;
	unsigned n = 0;
	int err;

	assert_int_equal(cm_page_map_add(map, BASE + 10 * MIB, 512, 0, false), 0);
	before = mapped;
	do {
		calls_left = n++;
		err = cm_page_map_add(map, BASE, 10 * MIB, 0, true);
		assert_true(!err || mapped == before);
	} while (err == -ENOMEM);
	assert_int_equal(err, 0);
	assert_int_equal(n, 6);
}

/* Against an array: blocks of any size come and go in segments of both kinds. */
MAP(random_blocks_are_found)
{
	enum { SLOTS = 16 * 4096 };
	static uint32_t
		at[SLOTS]; /* by 512 bytes of 32 MiB; every other 4 MiB is of large blocks */
	struct cm_page_map *map = *state;
	uint32_t i, slot, n = 0;
	uint64_t addr;

	memset(at, 0, sizeof(at));
	srand(1);
	for (i = 0; i < 8; i++)
		assert_int_equal(cm_page_map_add(map, BASE + i * 4 * MIB, 4 * MIB, 0, i & 1), 0);
	for (i = 0; i < 200000; i++) {
		slot = (uint32_t)rand() % SLOTS;
		addr = BASE + slot * UINT64_C(512);
		assert_int_equal(cm_page_map_find(map, 0, addr), at[slot]);
		if (at[slot]) {
			block[at[slot]].state = CM_BLOCK_NONE;
			at[slot] = 0;
		} else if (slot >> 13 & 1 || !(slot % 4096)) {
			if (++n == ROWS)
				n = 1;
			if (block[n].state == CM_BLOCK_LIVE)
				at[(block[n].addr - BASE) / 512] = 0;
			use(map, n, addr);
			at[slot] = n;
		}
	}
}

MAP(an_address_beyond_57_bits_is_refused)
{
	struct cm_page_map *map = *state;

	assert_int_equal(cm_page_map_add(map, END - 2 * MIB, 2 * MIB, 0, false), 0);
	assert_int_equal(cm_page_map_get(map, END - 1), 1);
	assert_int_equal(cm_page_map_add(map, END - 2 * MIB, 2 * MIB + 1, 0, false), -ERANGE);
	assert_int_equal(cm_page_map_add(map, UINT64_MAX - 100, 512, 0, false), -ERANGE);
}
