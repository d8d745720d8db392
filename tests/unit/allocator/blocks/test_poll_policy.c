/* SPDX-License-Identifier: MIT */
/* When freed memory is asked for although a ready block would serve. */
#include "allocator/blocks/poll_policy.h"

#include "tests/unit/fixture_case.h"

#define BLOCKS 10
#define BLOCK  (100 * MIB)

/* A gigabyte in use, of which a batch is 40 MiB, and what serves small requests. */
static void fill(struct fixture *f, uint64_t *addr)
{
	uint32_t i;

	for (i = 0; i < BLOCKS; i++)
		addr[i] = case_get(f, BLOCK);
	(void)case_get(f, 512);
}

static void request_small(struct fixture *f, uint32_t times)
{
	while (times--)
		(void)case_get(f, 512);
}

fixture_case(a_batch_that_waits_is_asked_for_whatever_the_request)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], calls;

	fill(f, addr);
	case_put(f, addr[0]);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	/* An event to begin with, its record and the barrier. */
	assert_int_equal(f->driver.calls - calls, 3);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], BLOCKS + 1);
}

fixture_case(less_than_a_batch_waits_until_it_is_wanted)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], less, calls;

	less = case_get(f, 36 * MIB);
	fill(f, addr);
	case_put(f, less);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->driver.calls, calls);
	assert_int_equal(f->heap->row->pending_bytes, 36 * MIB);
	assert_int_equal(case_get(f, 36 * MIB), less);
}

fixture_case(a_small_cache_gathers_more_than_its_share)
{
	struct fixture *f = *state;
	uint64_t addr, calls;

	addr = case_get(f, 20 * MIB);
	(void)case_get(f, 512);
	case_put(f, addr);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->driver.calls, calls);
}

CM_TEST(a_device_that_lags_is_asked_once_a_batch)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr[BLOCKS], queries;
	uint32_t i;

	cm_policy_init(&policy);
	policy.reuse = CM_REUSE_GROW;
	f = case_open(&(struct fixture_params){.policy = &policy});
	fill(f, addr);
	(void)fixture_launch(f, f->ctx, 1, addr[0], 512, 1000 * MS);
	case_put(f, addr[0]);
	(void)case_get(f, 512);
	queries = f->driver.called[FAKE_EVENT_QUERY];
	assert_true(queries > 0);
	for (i = 0; i < 50; i++)
		(void)case_get(f, 512);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], queries);
	case_put(f, addr[1]);
	(void)case_get(f, 512);
	assert_true(f->driver.called[FAKE_EVENT_QUERY] > queries);
	assert_int_equal(f->heap->row->pending_bytes, 2 * BLOCK);
	/* Once some of it is ready nothing is held against the rest. */
	fake_finish_all();
	request_small(f, CM_POLL_PAUSE);
	case_put(f, addr[2]);
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, BLOCK);
	request_small(f, CM_POLL_PAUSE);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	case_close(f);
}

/* It can only be waited for. */
CM_TEST(of_an_old_driver_no_batch_is_asked_for)
{
	struct fixture *f = case_open(&(struct fixture_params){.old_driver = true});
	uint64_t addr[BLOCKS];

	fill(f, addr);
	case_put(f, addr[0]);
	(void)case_get(f, 512);
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 0);
	assert_int_equal(f->heap->row->pending_bytes, BLOCK);
	case_close(f);
}

/* A batch is 45 MiB, and three blocks of 16 MiB are one. */
fixture_case(between_two_batches_requests_pass_unless_three_wait)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], piece[8], calls;
	uint32_t i;

	for (i = 0; i < sizeof(piece) / sizeof(piece[0]); i++)
		piece[i] = case_get(f, 16 * MIB);
	fill(f, addr);
	for (i = 0; i < 3; i++)
		case_put(f, piece[i]);
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	for (; i < 6; i++)
		case_put(f, piece[i]);
	calls = f->driver.calls;
	request_small(f, CM_POLL_PAUSE - 1);
	assert_int_equal(f->driver.calls, calls);
	(void)case_get(f, 512);
	assert_true(f->driver.calls > calls);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	case_put(f, addr[0]);
	case_put(f, addr[1]);
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, 0);
}

/* Pages of pending memory cannot be moved. */
CM_TEST(with_pages_there_is_no_pause_between_batches)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr[BLOCKS];
	uint32_t i;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	f = case_open(&(struct fixture_params){.policy = &policy, .events = 64});
	fill(f, addr);
	for (i = 0; i < 3; i++) {
		case_put(f, addr[i]);
		(void)case_get(f, 512);
		assert_int_equal(f->heap->row->pending_bytes, 0);
	}
	case_close(f);
}

/* 172 MiB are reserved: a free segment of 40 MiB, and a block of 12 MiB that waits for work of so
 * long, among others. */
static uint64_t crowd(struct fixture *f, uint64_t work_ns)
{
	uint64_t idle, better;

	(void)case_get(f, 120 * MIB);
	idle = case_get(f, 40 * MIB);
	better = case_get(f, 12 * MIB);
	case_put(f, idle);
	case_settle(f);
	if (work_ns)
		(void)case_launch(f, better, work_ns);
	case_put(f, better);
	return better;
}

CM_TEST(no_segment_is_split_while_a_better_block_is_pending)
{
	static const struct {
		uint64_t card;
		bool polls;
	} cases[] = {
		{300, true},  /* 28 would be pinned, which are more than a fifth of the room */
		{344, true},  /* they are less, but not with the 12 that wait */
		{346, false}, /* less than half of the card is reserved */
	};
	struct fixture *f;
	uint64_t better, got;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = case_open(&(struct fixture_params){.limit_bytes = cases[i].card * MIB});
		better = crowd(f, 0);
		got = case_get(f, 12 * MIB);
		if ((got == better) != cases[i].polls)
			fail_msg("case %zu", i);
		assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 3);
		case_close(f);
	}
}

#define ROUNDS 500

/* Of a loop over one block: driver calls a round, and what is reserved at its end. */
static double calls_of_a_loop(struct fixture *f, uint64_t bytes, bool works, int64_t *ret_reserved)
{
	uint64_t calls = 0, addr;
	int i;

	for (i = 0; i < 2 * ROUNDS; i++) {
		if (i == ROUNDS)
			calls = f->driver.calls;
		addr = case_get(f, bytes);
		if (works) {
			if (cm_cache_wants_close(f->cache))
				cm_cache_before_work(f->cache);
			(void)fixture_launch(f, f->ctx, 1, addr, 512, 10000);
		}
		case_put(f, addr);
		fake_advance(2000);
	}
	*ret_reserved = fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).current;
	return (double)(f->driver.calls - calls) / ROUNDS;
}

CM_TEST(what_goes_round_is_asked_for_seldom_while_there_is_room)
{
	static const struct {
		uint64_t bytes;
		double calls;
	} loops[] = {{MIB, 0.05}, {16 * MIB, 0.15}, {64 * MIB, 0.25}};
	struct fixture *f;
	int64_t reserved;
	double calls;
	size_t i;

	for (i = 0; i < 2 * sizeof(loops) / sizeof(loops[0]); i++) {
		f = case_open(&(struct fixture_params){.limit_bytes = 81920 * MIB});
		calls = calls_of_a_loop(f, loops[i / 2].bytes, i % 2, &reserved);
		/* An event more behind what works, as it is recorded before the next work. */
		if (calls > loops[i / 2].calls * (i % 2 ? 2 : 1))
			fail_msg("%zu: %g calls a round", i, calls);
		assert_in_range(reserved, 0, 81920 / 128 * MIB + loops[i / 2].bytes);
		case_close(f);
	}
}

CM_TEST(without_room_what_goes_round_is_asked_for_each_time)
{
	struct cm_policy policy;
	struct fixture *f;
	int64_t reserved;
	int i;

	for (i = 0; i < 4; i++) {
		cm_policy_init(&policy);
		if (i == 1)
			policy.memory_limit = 16384 * MIB;
		if (i == 2)
			policy.reuse = CM_REUSE_WAIT;
		f = case_open(&(struct fixture_params){
			.policy = &policy, .limit_bytes = (i == 0 ? 4096 : 65536) * MIB});
		if (i == 3) /* others have it, and that is not asked for each time */
			f->driver.limit_bytes = 4096 * MIB;
		(void)calls_of_a_loop(f, 64 * MIB, false, &reserved);
		assert_int_equal(reserved, 64 * MIB);
		assert_in_range(f->driver.called[FAKE_MEM_INFO], 0, 2 * ROUNDS / 1000);
		case_close(f);
	}
}

/* It goes back to what it is elsewhere. */
CM_TEST(once_the_card_fills_up_nothing_more_is_let_wait)
{
	struct fixture *f = case_open(&(struct fixture_params){.limit_bytes = 16384 * MIB});
	int64_t reserved;

	(void)calls_of_a_loop(f, 16 * MIB, false, &reserved);
	assert_true(f->heap->device->gather_bytes > 32 * MIB);
	(void)case_get(f, 9000 * MIB);
	assert_true(f->heap->card_fills_up);
	assert_int_equal(f->heap->device->gather_bytes, 0);
	assert_true(calls_of_a_loop(f, 16 * MIB, false, &reserved) > 0.2);
	case_close(f);
}

/* Parts of the segment are allocated; each time the block that waits might have been better. */
CM_TEST(a_device_that_lags_is_not_asked_before_every_split)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t queries;
	uint32_t i;

	cm_policy_init(&policy);
	policy.reuse = CM_REUSE_GROW;
	f = case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = 344 * MIB});
	(void)crowd(f, 1000 * MS);
	(void)case_get(f, 12 * MIB);
	queries = f->driver.called[FAKE_EVENT_QUERY];
	assert_true(queries > 0);
	for (i = 0; i < 5; i++)
		(void)case_get(f, 2 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], queries);
	/* Nor does a pause come back after ever so many requests. */
	f->heap->searches[CM_POOL_LARGE] += (UINT32_C(1) << 31) + CM_POLL_PAUSE;
	(void)case_get(f, 2 * MIB);
	assert_true(f->driver.called[FAKE_EVENT_QUERY] > queries);
	case_close(f);
}

fixture_case(many_blocks_that_wait_are_asked_for)
{
	struct fixture *f = *state;
	uint32_t i;

	/* A segment holds far more of them, so that none is ever wanted back. */
	for (i = 0; i < 3 * CM_PENDING_BLOCKS; i++)
		case_put(f, case_get(f, 512));
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 1);
	assert_true(f->heap->row->pending_blocks <= 2 * CM_PENDING_BLOCKS);
	assert_true(fixture_scalar(f, CM_SCALAR_epochs_ready) > 0);
}
