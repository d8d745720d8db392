/* SPDX-License-Identifier: MIT */
/* Where requests lie on pages of a card that fills up, and that they lie as ever on one that
 * doesn't. */
#include "allocator/blocks/fragmentation.h"

#include "allocator/paged/paged.h"
#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

#define CARD (200 * MIB)

static struct fixture *open_card(uint64_t bytes, bool exchange)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	policy.exchange = exchange;
	return case_open(
		&(struct fixture_params){.policy = &policy, .limit_bytes = bytes, .events = 64});
}

/*
 * In use are [0, 100), [106, 106 + wall) MiB from the address returned on; the 6 MiB between them
 * are free and are three whole pages, of which 3 MiB would lie on two.
 */
static uint64_t lay_out(struct fixture *f, uint64_t wall_mib)
{
	uint64_t base = case_get(f, 100 * MIB), hole = case_get(f, 6 * MIB);

	(void)case_get(f, wall_mib * MIB);
	case_put(f, hole);
	case_settle(f);
	return base;
}

static uint64_t reserved(struct fixture *f)
{
	return (uint64_t)fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).current;
}

CM_TEST(what_a_request_lies_on_is_counted_in_whole_pages)
{
	static const struct {
		uint64_t from, bytes, size, pages;
	} cases[] = {
		{0, 6 * MIB, 2 * MIB, 1},   {0, 6 * MIB, 2 * MIB + 512, 2},
		{0, 6 * MIB, 6 * MIB, 3},   {MIB, 6 * MIB, MIB, 0},
		{MIB, 6 * MIB, 3 * MIB, 1}, {MIB, 6 * MIB, 3 * MIB + 512, 2},
		{MIB, 6 * MIB, 6 * MIB, 2}, {MIB, 2 * MIB, 2 * MIB, 0},
		{MIB, 512, 512, 0},         {2 * MIB - 512, 2 * MIB + 512, 2 * MIB, 1},
	};
	uint64_t pages;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pages = cm_paged_touched(64 * MIB + cases[i].from, cases[i].bytes, cases[i].size);
		if (pages != cases[i].pages)
			fail_msg("case %zu: %llu pages", i, (unsigned long long)pages);
	}
}

CM_TEST(a_block_on_fewer_whole_pages_is_taken_before_a_tighter_one)
{
	static const uint64_t cards[] = {CARD, 2 * CARD};
	size_t i;

	for (i = 0; i < 2; i++) {
		struct fixture *f = open_card(cards[i], true);
		uint64_t base = case_get(f, 100 * MIB), hole = case_get(f, 6 * MIB), loose;

		(void)case_get(f, 31 * MIB);
		loose = case_get(f, 7 * MIB);
		(void)case_get(f, 4 * MIB);
		case_put(f, hole);
		case_put(f, loose);
		case_settle(f);
		/* From 137 on two MiB share pages with blocks in use; the hole from 100 on is
		 * smaller. */
		assert_int_equal(case_get(f, 3 * MIB), base + (i ? 100 : 137) * MIB);
		assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
		case_close(f);
	}
}

CM_TEST(a_page_is_moved_to_where_one_is_shared)
{
	struct fixture *f = open_card(142 * MIB, true);
	uint64_t base = lay_out(f, 35);

	/* The last page of 71 is half in use, and stands for one of the two. */
	assert_int_equal(case_get(f, 3 * MIB), base + 141 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 18);
	/* Cut, the hole would have been left with one page, and the card with no room for this. */
	assert_int_equal(case_get(f, 4 * MIB), base + 100 * MIB);
	assert_int_equal(reserved(f), 142 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_alloc_retries), 0);
	case_close(f);
}

CM_TEST(a_block_is_used_where_no_place_is_better)
{
	struct fixture *f = open_card(CARD, true);
	uint64_t base = lay_out(f, 36);

	assert_int_equal(case_get(f, 3 * MIB), base + 100 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_hits), 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 17);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
	case_close(f);
}

CM_TEST(a_block_is_used_where_the_policy_wants_it_so)
{
	struct fixture *f = open_card(CARD, false);
	uint64_t base = lay_out(f, 35);

	assert_int_equal(case_get(f, 3 * MIB), base + 100 * MIB);
	case_close(f);
}

CM_TEST(no_page_is_made_for_what_was_spared)
{
	struct fixture *f = open_card(CARD, true);
	uint64_t base = case_get(f, 100 * MIB), hole = case_get(f, 6 * MIB), work;

	(void)case_get(f, 35 * MIB);
	work = fixture_launch(f, f->ctx, 1, hole, 6 * MIB, FAKE_FOREVER);
	case_put(f, hole);
	/* Behind the barrier the hole is ready, but none of its pages can be moved. */
	assert_int_equal(case_get(f, 3 * MIB), base + 100 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
	assert_false(fake_is_done(work));
	fake_finish(work);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 18);
	case_close(f);
}

static void use(struct fixture *f, uint64_t bytes)
{
	case_put(f, case_get(f, bytes));
	case_settle(f);
}

/* A page goes to the end, and comes back. */
static void step(struct fixture *f)
{
	use(f, 3 * MIB);
	use(f, 6 * MIB);
}

CM_TEST(a_program_that_repeats_itself_comes_to_an_end_of_it)
{
	struct fixture *f = open_card(CARD, true);
	uint64_t first = 0, moved = 0;
	int i;

	(void)lay_out(f, 35);
	for (i = 0; i < 300; i++) {
		if (i == 10)
			first = f->driver.called[FAKE_PAGE_UNMAP];
		if (i == 290)
			moved = f->driver.called[FAKE_PAGE_UNMAP];
		step(f);
	}
	assert_true(first >= 20); /* it is one that would go on */
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], moved);
	/* More in use than ever begins it anew. */
	(void)case_get(f, 8 * MIB);
	use(f, 6 * MIB);
	moved = f->driver.called[FAKE_PAGE_UNMAP];
	step(f);
	assert_true(f->driver.called[FAKE_PAGE_UNMAP] > moved);
	case_close(f);
}

CM_TEST(it_goes_on_where_hardly_any_room_is_left)
{
	struct fixture *f = open_card(146 * MIB, true);
	uint64_t moved;
	int i;

	(void)lay_out(f, 35);
	for (i = 0; i < 300; i++)
		step(f);
	moved = f->driver.called[FAKE_PAGE_UNMAP];
	step(f);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], moved + 2);
	case_close(f);
}

CM_TEST(a_card_that_others_fill_is_known_by_what_it_refused)
{
	struct fixture *f = open_card(2048 * MIB, true);
	uint64_t base = case_get(f, 100 * MIB), hole = case_get(f, 6 * MIB);

	(void)case_get(f, 35 * MIB);
	f->driver.limit_bytes = 152 * MIB;
	(void)fixture_launch(f, f->ctx, 1, hole, 6 * MIB, 10 * MS);
	case_put(f, hole);
	/* Refused at first, and had with the pages of the hole, which was waited for. */
	(void)case_get(f, 12 * MIB);
	use(f, 4 * MIB);
	assert_int_equal(case_get(f, 2560 * KIB), base + 153 * MIB);
	case_close(f);
}

/* Nor is a better place looked for again and again where there is none. */
CM_TEST(a_futile_search_comes_to_an_end)
{
	struct fixture *f = open_card(CARD, true);
	uint32_t futile = 0, i;

	(void)lay_out(f, 36);
	use(f, 3 * MIB);
	assert_int_equal(f->heap->futile_searches, 1);
	for (i = 0; i < 1100; i++) {
		if (i == 1050)
			futile = f->heap->futile_searches;
		use(f, 3 * MIB);
	}
	assert_int_equal(f->heap->futile_searches, futile);
	case_close(f);
}
