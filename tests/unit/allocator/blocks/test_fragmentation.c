/* SPDX-License-Identifier: MIT */
/* How memory is laid out where a card fills up, and that it is not where it doesn't. */
#include "allocator/base/gate.h"
#include "allocator/blocks/fragmentation.h"

#include "tests/unit/fixture_case.h"

#define CARD (200 * MIB)

static struct fixture *open_card(uint64_t bytes)
{
	return case_open(&(struct fixture_params){.limit_bytes = bytes, .events = 64});
}

static int setup(void **state)
{
	*state = open_card(CARD);
	return 0;
}

/* Takes a block, and frees it: it is all of its segment. */
static void use(struct fixture *f, uint64_t bytes)
{
	case_put(f, case_get(f, bytes));
	case_settle(f);
}

static uint64_t segment_calls(const struct fixture *f)
{
	return f->driver.called[FAKE_MEM_ALLOC] + f->driver.called[FAKE_MEM_FREE];
}

/* Also behind a segment that is wholly free, which comes first. */
CM_TEST(all_small_blocks_merge_when_a_card_fills_up)
{
	struct fixture *f = open_card(20 * MIB);
	uint64_t addr[8];
	size_t i;

	for (i = 0; i < 8; i++)
		addr[i] = case_get(f, 512 * KIB);
	for (i = 6; i > 0; i--) {
		case_put(f, addr[i - 1]);
		case_settle(f);
	}
	assert_current(f, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 2);
	(void)case_get(f, 10 * MIB);
	assert_current(f, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 1);
	assert_false(f->heap->may_be_apart);
	case_close(f);
}

#define MANY 20000u

/* Blocks of 512 bytes that fill five segments; those freed in a row are no neighbours. */
static void leave_many_apart(struct fixture *f)
{
	static uint64_t addr[MANY];
	uint64_t forward;
	uint32_t i;

	for (i = 0; i < MANY; i++)
		assert_int_equal(cm_cache_alloc(f->cache, f->heap, 512, &addr[i]), 0);
	for (i = 0; i < MANY; i++)
		assert_int_equal(cm_cache_free(f->cache, addr[i % (MANY / 2) * 2 + i / (MANY / 2)],
					       &forward),
				 0);
	case_settle(f);
}

/* The request that fills the card does not wait for all of them. */
CM_TEST(more_small_blocks_than_a_moment_allows_merge_when_nothing_fits)
{
	struct fixture *f = open_card(30 * MIB);
	uint64_t calls;
	uint32_t i;

	leave_many_apart(f);
	(void)case_get(f, 10 * MIB);
	assert_false(f->heap->merges_late);
	assert_true(f->heap->may_be_apart);
	calls = segment_calls(f);
	for (i = 0; i < 19; i++)
		(void)case_get(f, 512 * KIB);
	assert_int_equal(segment_calls(f), calls);
	case_close(f);
}

/* Half of a card of 20 MiB is in use at the end. */
CM_TEST(small_blocks_merge_at_once_where_a_card_fills_up)
{
	struct fixture *f = open_card(20 * MIB);
	uint64_t addr[4];
	size_t i;

	for (i = 0; i < 4; i++)
		addr[i] = case_get(f, 512 * (i + 1));
	for (i = 0; i < 2; i++) {
		case_put(f, addr[i]);
		case_settle(f);
	}
	assert_current(f, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 3);
	(void)case_get(f, 10 * MIB);
	assert_current(f, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 2);
	case_put(f, addr[2]);
	case_settle(f);
	assert_current(f, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 2);
	assert_int_equal(case_get(f, 512 * 6), addr[0]);
	case_close(f);
}

CM_TEST(an_idle_segment_is_not_cut_for_a_small_part_of_it)
{
	static const struct {
		uint64_t card, full, idle, bytes, reserved, exchanged, then, after;
	} cases[] = {
		/* It goes, and comes again for the one that needs it whole. */
		{200, 120, 60, 4, 124, 60, 60, 184},
		/* Cut, it would have left 46. */
		{200, 140, 54, 8, 148, 54, 50, 198},
		/* On a tight card it need not be a small part. */
		{200, 164, 30, 20, 184, 30, 16, 200},
		/* A fifth of the room above the peak may be pinned: 20 of 100. */
		{280, 140, 40, 20, 180, 0, 20, 180},
		{279, 140, 40, 20, 160, 40, 20, 180},
		/* An empty card is used as ever. */
		{1024, 120, 60, 4, 180, 0, 60, 240},
	};
	struct fixture *f;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_card(cases[i].card * MIB);
		(void)case_get(f, cases[i].full * MIB);
		use(f, cases[i].idle * MIB);
		(void)case_get(f, cases[i].bytes * MIB);
		if (case_reserved(f) != cases[i].reserved * MIB)
			fail_msg("case %zu: %llu bytes", i, (unsigned long long)case_reserved(f));
		assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes),
				 cases[i].exchanged * MIB);
		(void)case_get(f, cases[i].then * MIB);
		assert_int_equal(case_reserved(f), cases[i].after * MIB);
		case_close(f);
	}
}

static void use_small(struct fixture *f, uint32_t times)
{
	while (times--)
		case_put(f, case_get(f, 512));
}

CM_TEST(an_idle_segment_stays_whole_while_blocks_grow)
{
	static const struct {
		uint64_t card, idle, large;
		uint32_t before, after; /* small requests, and the large one between them */
		uint64_t bytes, reserved;
	} cases[] = {
		/* It goes, and the request gets a segment of its own. */
		{2048, 100, 220, 24, 0, 30, 252},
		/* It was long ago that the largest doubled. */
		{2048, 100, 220, 24, 24, 30, 322},
		/* It has not doubled. */
		{2048, 120, 220, 24, 0, 30, 342},
		/* The card has room, or the idle one is small for it. */
		{4096, 100, 220, 24, 0, 30, 322},
		{2048, 30, 220, 24, 0, 10, 252},
	};
	struct fixture *f;
	uint64_t idle;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_card(cases[i].card * MIB);
		idle = case_get(f, cases[i].idle * MIB);
		use_small(f, cases[i].before);
		(void)case_get(f, cases[i].large * MIB);
		use_small(f, cases[i].after);
		case_put(f, idle);
		case_settle(f);
		(void)case_get(f, cases[i].bytes * MIB);
		if (case_reserved(f) != cases[i].reserved * MIB)
			fail_msg("case %zu: %llu bytes", i, (unsigned long long)case_reserved(f));
		case_close(f);
	}
}

#define card_case(test) CM_TEST_WITH(test, setup, fixture_teardown)

card_case(what_fits_its_segment_is_served_from_it)
{
	struct fixture *f = *state;
	uint64_t calls;

	(void)case_get(f, 164 * MIB);
	use(f, 30 * MIB);
	calls = segment_calls(f);
	(void)case_get(f, 28 * MIB + 512);
	assert_int_equal(segment_calls(f), calls);
}

card_case(a_piece_beside_one_in_use_is_cut)
{
	struct fixture *f = *state;
	uint64_t keep, calls;

	(void)case_get(f, 120 * MIB);
	use(f, 12 * MIB);
	keep = case_get(f, 4 * MIB);
	use(f, 60 * MIB);
	calls = segment_calls(f);
	/* The tighter of the two, and not spared. */
	(void)case_get(f, 4 * MIB);
	assert_int_equal(segment_calls(f), calls);
	case_put(f, keep);
}

CM_TEST(segments_for_several_blocks_are_made_to_measure)
{
	static const struct {
		uint64_t bytes, segment;
	} cases[] = {
		{9 * MIB, 18 * MIB},
		{8 * MIB + 512, 18 * MIB},
		{2 * MIB, 2 * MIB},
		{3 * MIB, 6 * MIB},
		{2304 * KIB, 16 * MIB},
		{6 * MIB + 512, 20 * MIB},
		{10 * MIB - 512, 10 * MIB},
		{10 * MIB, 10 * MIB},
		{11 * MIB, 12 * MIB},
		{2 * MIB - 64 * KIB, 2 * MIB},
		{MIB, 2 * MIB},
	};
	struct fixture *f;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_card(CARD);
		(void)case_get(f, cases[i].bytes);
		if (case_reserved(f) != cases[i].segment)
			fail_msg("case %zu: %llu bytes", i, (unsigned long long)case_reserved(f));
		case_close(f);
	}
}

CM_TEST(a_256th_of_the_room_may_be_pinned_before)
{
	struct fixture *f = open_card((256 * 13 + 7) * MIB);

	(void)case_get(f, 7 * MIB);
	assert_int_equal(case_reserved(f), 20 * MIB);
	(void)case_get(f, 8 * MIB);
	/* 5 and 12 are too much. */
	(void)case_get(f, 8 * MIB);
	assert_int_equal(case_reserved(f), 28 * MIB);
	case_close(f);
	f = open_card((256 * 13 + 7) * MIB - 256);
	(void)case_get(f, 7 * MIB);
	assert_int_equal(case_reserved(f), 14 * MIB);
	case_close(f);
}

card_case(what_is_too_small_goes_before_the_driver_refuses)
{
	struct fixture *f = *state;

	(void)case_get(f, 164 * MIB);
	use(f, 30 * MIB);
	(void)case_get(f, 20 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 30 * MIB);
	use(f, 12 * MIB);
	(void)case_get(f, 14 * MIB);
	assert_int_equal(case_reserved(f), 198 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 42 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_alloc_retries), 0);
}

card_case(a_device_that_is_busy_is_not_waited_for_twice)
{
	struct fixture *f = *state;
	uint64_t keep = case_get(f, 162 * MIB), idle = case_get(f, 18 * MIB), work, before, calls;

	use(f, 18 * MIB);
	case_put(f, idle);
	case_settle(f);
	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	before = f->driver.now_ns;
	(void)case_get(f, 4 * MIB);
	assert_int_equal(case_reserved(f), 198 * MIB);
	assert_true(f->driver.now_ns - before <= 2 * CM_PATIENCE_NS);
	before = f->driver.now_ns;
	calls = segment_calls(f);
	/* What is left of the first one is too little for it: the other one is cut. */
	(void)case_get(f, 15 * MIB);
	assert_int_equal(segment_calls(f), calls);
	assert_true(f->driver.now_ns - before < CM_PATIENCE_NS / 10);
	fake_finish(work);
}

/* The driver's calls of the last ten of so many rounds. */
static uint64_t calls_of_rounds(struct fixture *f, int rounds)
{
	uint64_t calls = 0;
	int i;

	for (i = 0; i < rounds; i++) {
		if (i == rounds - 10)
			calls = segment_calls(f);
		use(f, 80 * MIB);
		use(f, 20 * MIB);
	}
	return segment_calls(f) - calls;
}

CM_TEST(a_program_that_repeats_itself_comes_to_an_end_of_it)
{
	static const struct {
		uint64_t card;
		int rounds;
		uint64_t calls;
	} cases[] = {
		{300, 10, 9}, /* until as much has returned as is reserved, half the room may go */
		{300, 20, 0},
		{299, 20, 40}, /* and half the room is less than would be pinned */
	};
	struct fixture *f;
	uint64_t calls;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_card(cases[i].card * MIB);
		(void)case_get(f, 100 * MIB);
		calls = calls_of_rounds(f, cases[i].rounds);
		if (calls != cases[i].calls)
			fail_msg("case %zu: %llu calls", i, (unsigned long long)calls);
		case_close(f);
	}
}

CM_TEST(a_card_that_others_fill_is_known_by_what_it_refused)
{
	struct fixture *f = open_card(2048 * MIB);
	uint64_t addr;

	f->driver.limit_bytes = CARD;
	(void)case_get(f, 120 * MIB);
	assert_int_not_equal(fixture_alloc(f, f->heap, 100 * MIB, &addr), 0);
	use(f, 60 * MIB);
	(void)case_get(f, 4 * MIB);
	assert_int_equal(case_reserved(f), 124 * MIB);
	/* The others have gone. */
	f->driver.limit_bytes = 2048 * MIB;
	(void)case_get(f, 110 * MIB);
	use(f, 60 * MIB);
	(void)case_get(f, 4 * MIB);
	assert_int_equal(case_reserved(f), 294 * MIB);
	case_close(f);
}

CM_TEST(it_is_done_where_blocks_may_be_cut_and_the_policy_wants_it)
{
	struct fixture *f;
	size_t i;

	for (i = 0; i < CASE_UNEXCHANGED; i++) {
		f = case_open_unexchanged(i, CARD);
		(void)case_get(f, 120 * MIB);
		use(f, 60 * MIB);
		(void)case_get(f, 9 * MIB);
		/* Exact placement never cuts: the idle segment is more than may stay, and goes. */
		assert_int_equal(case_reserved(f), (i == 1 ? 130 : 180) * MIB);
		case_close(f);
	}
}
