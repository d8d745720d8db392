/* SPDX-License-Identifier: MIT */
/* How large the driver's handles of pages are, and how a request that would divide one is served.
 */
#include "allocator/paged/paged_ready.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/state/state.h"
#include "tests/unit/paged_case.h"

static int setup(void **state)
{
	*state = open_paged(64 * GIB);
	return 0;
}

static uint64_t created(const struct fixture *f)
{
	return f->driver.called[FAKE_PAGE_CREATE];
}

static void use(struct fixture *f, uint64_t bytes)
{
	case_put(f, case_get(f, bytes));
	case_settle(f);
}

static uint64_t trimmed(struct fixture *f)
{
	uint64_t bytes;

	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_sound(f);
	return bytes;
}

CM_TEST(handles_are_as_large_as_the_room_lets_them)
{
	static const struct {
		uint32_t pages;
		uint64_t room;
		uint32_t most;    /* of a new one */
		uint32_t divided; /* of one that is divided */
	} cases[] = {
		{1, 0, 1, 1},
		{8, 0, 1, 1},
		{9, 0, 2, 1},
		{128, 0, 16, 1},
		{129, 0, 17, 2},
		{1, 512 * MIB - 1, 1, 1},
		{1, 512 * MIB, 1, 2},
		{1, 768 * MIB, 2, 3},
		{1, 64 * GIB, 170, 256},
		{2048, 64 * GIB, 256, 256},
		{65536, 64 * GIB, 8192, 512},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (cm_paged_handle_pages(cases[i].pages, cases[i].room) != cases[i].most ||
		    cm_paged_divided_pages(cases[i].pages, cases[i].room) != cases[i].divided)
			fail_msg("case %zu", i);
}

#define CASE(test) CM_TEST_WITH(test, setup, fixture_teardown)

/* The page in which a request ends, too, since others come to lie there. */
CASE(a_request_gets_a_handle_or_two)
{
	struct fixture *f = *state;

	(void)case_get(f, 100 * MIB);
	assert_int_equal(created(f), 1);
	(void)case_get(f, 101 * MIB);
	assert_int_equal(created(f), 3);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 202 * MIB);
}

/* Without any of it, the block in use would keep the whole handle. */
CM_TEST(a_handle_that_a_request_would_divide_is_replaced)
{
	struct fixture *f = open_paged(GIB);
	uint64_t large = case_get(f, 100 * MIB);

	case_put(f, large);
	case_settle(f);
	assert_int_equal(case_get(f, 7 * MIB), large);
	/* One of 7 pages, by one of 3, of 1, and of 3. */
	assert_int_equal(created(f), 8 + 3);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 1);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 100 * MIB);
	assert_sound(f);
	assert_int_equal(trimmed(f), 92 * MIB);
	case_close(f);
}

/* On a card with much room, a small part of that is lost at most. */
CASE(a_card_with_room_lets_a_handle_be_divided)
{
	struct fixture *f = *state;
	uint64_t large = case_get(f, 100 * MIB);

	case_put(f, large);
	case_settle(f);
	assert_int_equal(case_get(f, 7 * MIB), large);
	assert_int_equal(created(f), 1);
	assert_int_equal(trimmed(f), 0);
}

CM_TEST(the_same_again_needs_no_call)
{
	struct fixture *f = open_paged(GIB);
	uint64_t calls = 0, large;
	int pass;

	for (pass = 0; pass < 4; pass++) {
		large = case_get(f, 100 * MIB);
		case_put(f, large);
		case_settle(f);
		large = case_get(f, 7 * MIB);
		case_put(f, large);
		case_settle(f);
		if (!pass)
			calls = created(f);
	}
	assert_int_equal(created(f), calls);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 100 * MIB);
	case_close(f);
}

/* It would replace handles at each step. But one that grows may need all of the card in the end. */
CM_TEST(a_program_with_room_that_has_settled_divides_handles)
{
	static const uint64_t cards[] = {GIB, 190 * MIB};
	uint64_t before, large;
	size_t i;

	for (i = 0; i < 2; i++) {
		struct fixture *f = open_paged(cards[i]);
		const bool has_room = i == 0;

		use(f, 100 * MIB);
		use(f, 7 * MIB);
		use(f, 100 * MIB);
		use(f, 100 * MIB);
		before = created(f);
		large = case_get(f, 21 * MIB);
		assert_int_equal(created(f), before + (has_room ? 0 : 3));
		case_put(f, large);
		case_settle(f);
		if (has_room) {
			use(f, 104 * MIB);
			before = created(f);
			use(f, 35 * MIB);
			assert_int_equal(created(f), before + 3);
		}
		case_close(f);
	}
}

CM_TEST(a_program_that_resets_its_counters_settles_again)
{
	struct fixture *f = open_paged(GIB);
	uint64_t before;

	use(f, 100 * MIB);
	use(f, 7 * MIB);
	cm_cache_reset_accumulated(f->cache, 0);
	use(f, 13 * MIB);
	use(f, 100 * MIB);
	use(f, 100 * MIB);
	before = created(f);
	use(f, 21 * MIB);
	assert_int_equal(created(f), before);
	case_close(f);
}

CASE(a_request_that_ends_with_a_handle_divides_none)
{
	struct fixture *f = *state;
	uint64_t first = case_get(f, 20 * MIB), second = case_get(f, 30 * MIB);

	assert_int_equal(second, first + 20 * MIB);
	case_put(f, first);
	case_put(f, second);
	case_settle(f);
	assert_int_equal(case_get(f, 20 * MIB), first);
	assert_int_equal(created(f), 2);
}

CM_TEST(idle_memory_goes_by_whole_handles)
{
	struct fixture *f = open_paged(24 * GIB);
	uint64_t given;

	case_put(f, case_get(f, 256 * MIB));
	case_settle(f);
	assert_int_equal(created(f), 2);
	assert_int_equal(cm_cache_give_back(f->cache, 0, 2 * MIB, 50 * MS, &given), 0);
	assert_int_equal(given, 128 * MIB);
	assert_sound(f);
	assert_int_equal(trimmed(f), 128 * MIB);
	case_close(f);
}

/* Work may still write it: the block in use keeps all of it, until the block is freed. */
CM_TEST(a_handle_behind_a_barrier_is_divided)
{
	struct fixture *f = open_paged(GIB);
	uint64_t large = case_get(f, 100 * MIB), small, work;

	work = fixture_launch(f, f->ctx, 1, large, 100 * MIB, 10 * MS);
	case_put(f, large);
	small = case_get(f, 7 * MIB);
	assert_int_equal(small, large);
	assert_false(fake_is_done(work));
	assert_int_equal(created(f), 8);
	case_settle(f);
	assert_int_equal(trimmed(f), 86 * MIB);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(trimmed(f), 14 * MIB);
	case_close(f);
}

/* Behind the barrier nothing could be replaced. */
CM_TEST(a_card_that_fills_up_is_waited_for)
{
	static const struct {
		uint64_t card;
		bool waits;
	} cases[] = {{320 * MIB, true}, {480 * MIB, true}, {520 * MIB, false}};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_paged(cases[i].card);
		uint64_t large = case_get(f, 200 * MIB), work;

		work = fixture_launch(f, f->ctx, 1, large, 200 * MIB, 10 * MS);
		case_put(f, large);
		assert_int_equal(case_get(f, 7 * MIB), large);
		assert_int_equal(fake_is_done(work), cases[i].waits);
		if (cases[i].waits)
			assert_int_equal(trimmed(f), 192 * MIB);
		case_close(f);
	}
}

/* A kernel may wait for what the host does next. */
CM_TEST(a_kernel_that_does_not_end_is_waited_for_once)
{
	struct fixture *f = open_paged(320 * MIB);
	uint64_t large = case_get(f, 200 * MIB), start = f->driver.now_ns, waited;

	(void)fixture_launch(f, f->ctx, 1, large, 200 * MIB, 3600 * UINT64_C(1000) * MS);
	case_put(f, large);
	assert_int_equal(case_get(f, 7 * MIB), large);
	waited = f->driver.now_ns - start;
	assert_in_range(waited, CM_PATIENCE_NS, 2 * CM_PATIENCE_NS);
	(void)case_get(f, 7 * MIB);
	assert_true(f->driver.now_ns - start < waited + MS);
	case_close(f);
}

/* Then the driver is left alone, and the request gets what is ready. */
CM_TEST(a_capture_may_begin_while_a_card_is_waited_for)
{
	struct fixture *f = open_paged(320 * MIB);
	uint64_t large = case_get(f, 200 * MIB), start = f->driver.now_ns, calls, addr;

	(void)fixture_launch(f, f->ctx, 1, large, 200 * MIB, 50 * MS);
	case_put(f, large);
	calls = created(f);
	f->driver.captures_in_sleep = true;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 7 * MIB, &addr), 0);
	assert_int_equal(addr, large);
	assert_true(f->driver.capturing);
	assert_in_range(f->driver.now_ns - start, CM_GATE_CAPTURE_NS, 2 * CM_GATE_CAPTURE_NS);
	assert_int_equal(f->driver.inside_gate, 0);
	assert_int_equal(created(f), calls);
	/* With nothing ready, the program hears the driver. */
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 250 * MIB, &addr), -EBUSY);
	f->driver.captures_in_sleep = false;
	fake_capture(false);
	case_put(f, large);
	case_close(f);
}

/* The one that fits best has too many pages for the request, the next one handles that are too
 * large. */
CM_TEST(a_spared_block_is_divided_no_other_way)
{
	struct fixture *f = open_paged(228 * MIB);
	uint64_t large, small;

	(void)case_get(f, 3 * MIB);
	large = case_get(f, 199 * MIB);
	(void)case_get(f, 2 * MIB);
	small = case_get(f, 8 * MIB);
	(void)case_get(f, 4 * MIB);
	case_put(f, large);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(case_get(f, 6 * MIB + MIB / 2), large);
	assert_int_equal(trimmed(f), 192 * MIB + 8 * MIB);
	case_close(f);
}

/* Pages are added between two free blocks, and the request ends in the second one. */
CM_TEST(a_block_that_pages_were_added_to_is_divided_no_other_way)
{
	struct fixture *f = open_paged(500 * MIB);
	uint64_t before, gap, behind;

	(void)case_get(f, 20 * MIB);
	before = case_get(f, 16 * MIB);
	gap = case_get(f, 20 * MIB);
	behind = case_get(f, 200 * MIB);
	(void)case_get(f, 10 * MIB);
	case_put(f, gap);
	case_settle(f);
	assert_int_equal(trimmed(f), 20 * MIB);
	case_put(f, before);
	case_put(f, behind);
	case_settle(f);
	assert_int_equal(case_get(f, 226 * MIB), before);
	assert_int_equal(trimmed(f), 10 * MIB);
	case_close(f);
}

/* What has become ready only while a request waited for memory. */
CM_TEST(a_full_card_returns_handles_before_one_is_divided)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t block;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	policy.reuse = CM_REUSE_GROW;
	f = case_open(&(struct fixture_params){
		.policy = &policy, .limit_bytes = 704 * MIB, .events = 64});
	(void)case_get(f, 500 * MIB);
	block = case_get(f, 180 * MIB);
	(void)fixture_launch(f, f->ctx, 1, block, 180 * MIB, 10 * MS);
	case_put(f, block);
	(void)case_get(f, 30 * MIB);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 530 * MIB);
	case_close(f);
}

/* A program may take nearly all of a card at first, and free it. */
CM_TEST(a_card_that_was_probed_serves_as_ever)
{
	struct fixture *f = open_paged(16 * GIB);
	uint64_t block[460];
	size_t i;

	case_put(f, case_get(f, 14 * GIB + 400 * MIB));
	case_settle(f);
	for (i = 0; i < 460; i++)
		block[i] = case_get(f, 32 * MIB);
	for (i = 0; i < 460; i += 2)
		case_put(f, block[i]);
	case_settle(f);
	(void)case_get(f, 6 * GIB + 800 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 0);
	case_close(f);
}

CM_TEST(a_context_divides_what_another_one_has_freed)
{
	struct fixture *f = open_paged(GIB);
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), large = case_get(f, 100 * MIB), addr;

	case_put(f, large);
	case_settle(f);
	assert_int_equal(fixture_alloc(f, heap, 7 * MIB, &addr), 0);
	assert_in_range(addr, large, large + 93 * MIB);
	assert_int_equal(created(f), 8 + 3);
	assert_int_equal(trimmed(f), 92 * MIB);
	fixture_remove_context(f, ctx);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 0);
	case_close(f);
}

/* The handle is gone then, and so may be what it held: other processes take memory, too. */
CM_TEST(a_driver_that_refuses_loses_nothing)
{
	bool failed = true;
	uint64_t n, large;

	for (n = 1; failed; n++) {
		struct fixture *f = open_paged(GIB);

		large = case_get(f, 100 * MIB);
		case_put(f, large);
		case_settle(f);
		case_fail_call(f, n, CM_DRIVER_OUT_OF_MEMORY);
		(void)case_get(f, 7 * MIB);
		assert_sound(f);
		failed = f->driver.failed;
		f->driver.fail_call = 0;
		case_put(f, case_get(f, 100 * MIB));
		case_close(f);
	}
	assert_true(n > 8);
}

CM_TEST(a_context_may_go_meanwhile)
{
	struct fixture *f = open_paged(GIB);
	uint64_t addr;

	case_put(f, case_get(f, 100 * MIB));
	case_settle(f);
	f->driver.meanwhile_arg = f;
	f->driver.meanwhile = end_context;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 7 * MIB, &addr), -EAGAIN);
	assert_sound(f);
	cm_cache_forgotten(f->cache);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 0);
	assert_int_equal(f->driver.used_bytes[0], 0);
	case_close(f);
}
