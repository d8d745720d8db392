/* SPDX-License-Identifier: MIT */
/* Blocks that are large for the card stay whole, unless nothing is at stake. */
#include "allocator/blocks/whole.h"

#include "tests/unit/fixture_case.h"

#define CARD (800 * MIB)

/* Nothing goes back for another segment: what is idle stays, and may be cut. */
static struct fixture *open_card(uint64_t bytes, uint64_t cap, uint64_t max_split_size)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.exchange = false;
	policy.memory_limit = cap;
	policy.max_split_size = max_split_size;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = bytes});
}

static int setup(void **state)
{
	*state = open_card(CARD, UINT64_MAX, UINT64_MAX);
	return 0;
}

#define card_case(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

/* Takes a block, and frees it: it is all of its segment. */
static void use(struct fixture *f, uint64_t bytes)
{
	case_put(f, case_get(f, bytes));
	case_settle(f);
}

static void what_grows_cuts_no_large_block(void **state)
{
	struct fixture *f = *state;

	use(f, 100 * MIB);
	(void)case_get(f, 120 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 260 * MIB);
}

static void what_fills_most_of_it_is_served(void **state)
{
	struct fixture *f = *state;
	uint64_t idle;

	idle = case_get(f, 100 * MIB);
	case_put(f, idle);
	case_settle(f);
	(void)case_get(f, 120 * MIB);
	(void)case_get(f, 86 * MIB); /* 14 would be wasted: more than an eighth and 2 */
	assert_int_equal(case_reserved(f), 306 * MIB);
	assert_int_equal(case_get(f, 88 * MIB), idle);
	assert_int_equal(case_reserved(f), 306 * MIB);
	/* All of it is the program's: a rest of 12 would have been left. */
	assert_current(f, CM_POOL_LARGE, CM_STAT_ALLOCATED_BYTES, 306 * MIB);
	assert_current(f, CM_POOL_LARGE, CM_STAT_INACTIVE_SPLIT, 0);
}

static void what_had_as_much_before_cuts_on_a_roomy_card(void **state)
{
	struct fixture *f = *state;

	use(f, 100 * MIB);
	(void)case_get(f, 60 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 100 * MIB);
}

static void on_a_card_that_is_half_reserved_it_does_not(void **state)
{
	struct fixture *f = *state;

	(void)case_get(f, 302 * MIB);
	use(f, 100 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 442 * MIB);
}

static void where_no_memory_is_left_it_goes_back_instead(void **state)
{
	struct fixture *f = *state;

	(void)case_get(f, 680 * MIB);
	use(f, 100 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 720 * MIB);
	(void)case_get(f, 80 * MIB); /* which the rest of the 100 could not have served */
	assert_int_equal(case_reserved(f), 800 * MIB);
}

static void what_is_large_follows_the_card_and_the_cap(void **state)
{
	static const struct {
		uint64_t card, cap, idle;
		bool cut;
	} cases[] = {
		{6400 * MIB, UINT64_MAX, 100 * MIB, true},
		{6400 * MIB, UINT64_MAX, 102 * MIB, false},
		{6400 * MIB, 3200 * MIB, 50 * MIB, true},
		{6400 * MIB, 3200 * MIB, 52 * MIB, false},
		{6400 * MIB, 12800 * MIB, 100 * MIB, true},
		{6400 * MIB, 12800 * MIB, 102 * MIB, false},
		/* Of a small one, what is of a size to be cut is not large. */
		{200 * MIB, UINT64_MAX, 10 * MIB, true},
		{200 * MIB, UINT64_MAX, 12 * MIB, false},
	};
	struct fixture *f;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = open_card(cases[i].card, cases[i].cap, UINT64_MAX);
		(void)case_get(f, 30 * MIB); /* more in use than ever comes next */
		use(f, cases[i].idle);
		(void)case_get(f, cases[i].idle + 4 * MIB);
		(void)case_get(f, 6 * MIB);
		if ((f->driver.called[FAKE_MEM_ALLOC] == 3) != cases[i].cut)
			fail_msg("case %zu", i);
		case_close(f);
	}
}

static void who_says_what_is_cut_has_it_so(void **state)
{
	struct fixture *f = open_card(CARD, UINT64_MAX, 200 * MIB);

	(void)state;
	use(f, 100 * MIB);
	(void)case_get(f, 120 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 220 * MIB);
	case_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		card_case(what_grows_cuts_no_large_block),
		card_case(what_fills_most_of_it_is_served),
		card_case(what_had_as_much_before_cuts_on_a_roomy_card),
		card_case(on_a_card_that_is_half_reserved_it_does_not),
		card_case(where_no_memory_is_left_it_goes_back_instead),
		cmocka_unit_test(what_is_large_follows_the_card_and_the_cap),
		cmocka_unit_test(who_says_what_is_cut_has_it_so),
	};

	return cmocka_run_group_tests_name("whole", tests, NULL, NULL);
}
