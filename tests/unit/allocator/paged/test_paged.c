/* SPDX-License-Identifier: MIT */
/* Memory backed by pages: where they are added, from where they are taken, and where they stay. */
#include "allocator/paged/paged.h"

#include "allocator/state/state.h"
#include "tests/unit/paged_case.h"

paged_case(pages_stand_only_under_blocks)
{
	struct fixture *f = *state;
	uint64_t first = case_get(f, 5 * MIB), second = case_get(f, 5 * MIB);

	/* Two blocks of 5 MiB in five pages of 2 MiB, side by side in one growing segment. */
	assert_int_equal(second, first + 5 * MIB);
	assert_pages(f, 5);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 0);
	/* Small blocks have a range of their own. */
	(void)case_get(f, 512);
	assert_pages(f, 6);
	assert_current(f, CM_POOL_SMALL, CM_STAT_RESERVED_BYTES, PAGE);
}

/* Searches are the clock by which free blocks grow old. */
CM_TEST(new_pages_make_no_block_older_than_a_segment_does)
{
	struct fixture *f = case_open(&(struct fixture_params){.events = 64});
	uint32_t small, large;

	(void)case_get(f, 512);
	(void)case_get(f, 5 * MIB);
	small = f->heap->searches[CM_POOL_SMALL];
	large = f->heap->searches[CM_POOL_LARGE];
	case_close(f);
	f = open_paged(0);
	(void)case_get(f, 512);
	(void)case_get(f, 5 * MIB);
	assert_int_equal(f->heap->searches[CM_POOL_SMALL], small);
	assert_int_equal(f->heap->searches[CM_POOL_LARGE], large);
	case_close(f);
}

/* A page that is taken from a place is soon wanted back there. */
paged_case(pages_stay_where_they_are_on_a_card_with_room)
{
	struct fixture *f = *state;
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB), other;
	int pass;

	for (pass = 0; pass < 3; pass++) {
		case_put(f, hole);
		case_settle(f);
		other = case_get(f, 24 * MIB);
		assert_int_equal(case_get(f, 20 * MIB), hole);
		case_put(f, other);
		case_settle(f);
	}
	assert_pages(f, 23);
	assert_int_equal(f->driver.called[FAKE_PAGE_MAP], 3);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
	case_put(f, wall);
}

CM_TEST(free_pages_are_moved_on_a_card_that_fills_up)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB);

	case_put(f, hole);
	case_settle(f);
	/* It does not fit the hole; ten of its pages come from there, in handles of two. */
	(void)case_get(f, 24 * MIB);
	assert_pages(f, 13);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 5 + 1 + 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 5);
	/* And the hole can be filled again. */
	assert_int_equal(case_get(f, 20 * MIB), hole);
	assert_pages(f, 23);
	case_put(f, wall);
	case_close(f);
}

CM_TEST(a_page_with_a_block_on_it_stays)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t hole = case_get(f, 20 * MIB - 512), wall = case_get(f, 512 + 1024 * KIB);

	case_put(f, hole);
	case_settle(f);
	(void)case_get(f, 24 * MIB);
	/* The last page of the hole holds the first bytes of the wall; the others have handles of
	 * two, and one. */
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 5);
	case_put(f, wall);
	case_close(f);
}

CM_TEST(pages_behind_a_barrier_are_not_moved_until_it_is_passed)
{
	struct fixture *f = open_paged(80 * MIB);
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB), work;

	work = fixture_launch(f, f->ctx, 1, hole, 20 * MIB, 10 * MS);
	case_put(f, hole);
	/* The barrier makes the hole ready, not idle: its pages stay, and new ones are made. */
	(void)case_get(f, 24 * MIB);
	assert_false(fake_is_done(work));
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
	assert_pages(f, 23);
	case_settle(f);
	(void)case_get(f, 30 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 5);
	case_put(f, wall);
	case_close(f);
}

paged_case(a_trim_gives_back_every_whole_page)
{
	struct fixture *f = *state;
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 3 * MIB), bytes;

	case_put(f, hole);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 20 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(bytes, 20 * MIB);
	assert_pages(f, 2);
	case_put(f, wall);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_pages(f, 0);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
}

/* More of them than are taken out at once. */
paged_case(a_trim_gives_back_the_pages_of_many_holes)
{
	struct fixture *f = *state;
	uint64_t hole[100];
	size_t i;

	for (i = 0; i < 100; i++) {
		hole[i] = case_get(f, i % 2 ? 5 * MIB : 6 * MIB);
		(void)case_get(f, 3 * MIB);
	}
	for (i = 0; i < 100; i++)
		case_put(f, hole[i]);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_sound(f);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 0);
	for (i = 0; i < 100; i++)
		(void)case_get(f, i % 2 ? 5 * MIB : 6 * MIB);
}

/* One that is larger than what is still missing goes to the driver, and a smaller one comes. */
CM_TEST(handles_are_moved_where_they_fit)
{
	struct fixture *f = open_paged(1200 * MIB);
	uint64_t large = case_get(f, 1024 * MIB), left, middle;

	(void)case_get(f, 2 * MIB);
	case_put(f, large);
	case_settle(f);
	left = case_get(f, 512 * MIB);
	middle = case_get(f, 8 * MIB);
	assert_int_equal(middle, left + 512 * MIB);
	case_put(f, left);
	case_settle(f);
	assert_pages(f, 513);
	/* 8 of 64 pages, the one of the 2 MiB, and 3 in the place of the one that was divided. */
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 12);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 1);
	/* 258 pages are missing: 4 handles come from the left, one from the right. */
	(void)case_get(f, 516 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 1 + 5);
	assert_int_equal(f->driver.called[FAKE_PAGE_RELEASE], 1 + 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 13);
	assert_pages(f, 513 - 64 + 2);
	case_close(f);
}

CM_TEST(a_full_card_serves_by_moving)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t block[8];
	size_t i;

	for (i = 0; i < 8; i++)
		block[i] = case_get(f, 8 * MIB);
	for (i = 0; i < 8; i += 2)
		case_put(f, block[i]);
	case_settle(f);
	/* Four holes of 8 MiB make one block of 32. */
	(void)case_get(f, 32 * MIB);
	assert_pages(f, 32);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_alloc_retries), 0);
	assert_int_equal(fixture_get(f, 2 * MIB), 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	case_close(f);
}

/* A program may ask for less and less until it gets something. */
CM_TEST(a_request_beyond_the_card_creates_no_pages)
{
	struct fixture *f = open_paged(64 * MIB);
	const uint64_t block = case_get(f, 32 * MIB);

	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 8);
	assert_int_equal(fixture_get(f, 48 * MIB), 0);
	assert_int_equal(fixture_get(f, 34 * MIB), 0);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 8);
	(void)case_get(f, 32 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 16);
	case_put(f, block);
	case_close(f);
}

/* The number of its pages is no 32-bit number. */
paged_case(a_request_of_more_than_the_range_gets_no_pages)
{
	static const uint64_t sizes[] = {
		UINT64_C(1) << 40,
		(UINT64_C(1) << 53) + 3 * MIB,
		(UINT64_C(3) << 53) + 64 * MIB,
	};
	struct fixture *f = *state;
	size_t i;

	(void)case_get(f, 3 * MIB);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(fixture_get(f, sizes[i]), 0);
	assert_int_equal(f->driver.called[FAKE_PAGE_MAP], 2);
	assert_sound(f);
}

CM_TEST(a_failure_in_the_middle_leaves_nothing)
{
	uint64_t n, addr;

	for (n = 1; n < 40; n++) {
		struct fixture *f = open_paged(64 * MIB);

		f->driver.fail_call = n;
		f->driver.fail_code = CM_DRIVER_OUT_OF_MEMORY;
		addr = fixture_get(f, 16 * MIB);
		assert_sound(f);
		f->driver.fail_call = 0;
		if (addr)
			case_put(f, addr);
		case_put(f, case_get(f, 16 * MIB));
		case_close(f);
	}
}

/* Whatever the driver has against pages: without us the program would not have asked for any. */
CM_TEST(what_is_refused_as_pages_is_had_as_a_segment)
{
	bool failed = true;
	uint64_t n;

	for (n = 1; failed; n++) {
		struct fixture *f = open_paged(64 * MIB);

		f->driver.fail_call = n;
		f->driver.fail_code = FAKE_INVALID_VALUE;
		(void)case_get(f, 16 * MIB);
		(void)case_get(f, 3 * MIB);
		failed = f->driver.failed;
		assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], failed ? 1 : 0);
		case_close(f);
	}
	assert_true(n > 16);
}
