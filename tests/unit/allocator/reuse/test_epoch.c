/* SPDX-License-Identifier: MIT */
/* When freed memory may be used again, and what that costs. */
#include "allocator/reuse/epoch.h"

#include <string.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/free.h"
#include "tests/unit/fixture_case.h"
#include "tests/unit/shard_case.h"

fixture_case(a_free_calls_no_driver)
{
	struct fixture *f = *state;
	uint64_t addr[100], calls;
	size_t i;

	for (i = 0; i < 100; i++) {
		addr[i] = case_get(f, 5000 * (i + 1));
		(void)case_launch(f, addr[i], 10 * MS);
	}
	calls = f->driver.calls;
	for (i = 0; i < 100; i++)
		case_put(f, addr[i]);
	assert_int_equal(f->driver.calls, calls);
	assert_true(f->heap->row->pending_bytes > 0);
}

fixture_case(memory_of_idle_work_is_ready_by_one_event_for_all)
{
	struct fixture *f = *state;
	uint64_t addr[10];
	size_t i;

	for (i = 0; i < 10; i++)
		addr[i] = case_get(f, MIB / 5);
	for (i = 0; i < 10; i++)
		case_put(f, addr[i]);
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 1);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_closed), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_ready), 1);
}

/* The device works on the block: the next owner's work is put behind that, the host does not
 * wait. */
fixture_case(a_block_in_use_by_the_device_is_had_behind_a_barrier)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), now;

	(void)case_launch(f, addr, 500 * MS);
	case_put(f, addr);
	now = f->driver.now_ns;
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_true(f->driver.now_ns - now < MS);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_hits), 1);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
}

fixture_case(a_block_freed_and_requested_in_a_loop_costs_three_calls_a_turn)
{
	struct fixture *f = *state;
	uint64_t other = case_get(f, 512), addr, calls = 0;
	int i;

	for (i = 0; i < 1000; i++) {
		if (i == 1)
			calls = f->driver.calls;
		addr = case_get(f, 256 * MIB);
		(void)case_launch(f, addr, MS);
		case_put(f, addr);
		if (i % 2)
			(void)case_launch(f, other, MS);
	}
	if (f->driver.calls - calls > 3 * 999)
		fail_msg("%llu calls in 999 rounds", (unsigned long long)(f->driver.calls - calls));
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 0);
	/* An event for the barrier laid, and one for the next. */
	assert_true(fake_events_alive() <= 3);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 33;
}

/* From 512 bytes to 8 MiB, each power of two as likely as the next. */
static uint64_t mixed_size(uint64_t *random)
{
	uint64_t base = UINT64_C(512) << next_random(random) % 14;

	return base + next_random(random) % base;
}

/* `lag_ns`: how long each kernel takes; one is launched every fourth pair. */
static double calls_per_pair(struct fixture *f, uint64_t lag_ns, size_t live, size_t pairs)
{
	uint64_t *addr = calloc(live, sizeof(*addr)), random = 42, calls = 0;
	size_t i, at;

	assert_non_null(addr);
	for (i = 0; i < live; i++)
		addr[i] = fixture_get(f, mixed_size(&random));
	for (i = 0; i < 2 * pairs; i++) {
		if (i == pairs)
			calls = f->driver.calls;
		at = next_random(&random) % live;
		assert_int_equal(fixture_put(f, addr[at]), 0);
		addr[at] = fixture_get(f, mixed_size(&random));
		assert_true(addr[at] != 0);
		if (i % 4 == 0)
			(void)case_launch(f, addr[at], lag_ns);
		fake_advance(2000);
	}
	free(addr);
	return (double)(f->driver.calls - calls) / (double)pairs;
}

CM_TEST(a_thousand_live_blocks_cost_a_fifth_of_a_call_a_pair)
{
	static const uint64_t lags[] = {0, 4000, 8000, 100000};
	struct fixture *f;
	double calls;
	size_t i;

	for (i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
		f = case_open(&(struct fixture_params){.events = 64});
		calls = calls_per_pair(f, lags[i], 1000, 5000);
		if (calls > 0.2)
			fail_msg("kernels of %llu ns: %.3f calls a pair",
				 (unsigned long long)lags[i], calls);
		case_close(f);
	}
}

fixture_case(no_barrier_is_laid_where_a_second_context_could_pass_it)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr = case_get(f, 64 * MIB);

	(void)fixture_add_context(f, 0, &heap);
	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_finish_all();
	assert_int_equal(case_get(f, 64 * MIB), addr);
}

fixture_case(no_barrier_is_laid_where_others_reach_the_memory)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	cm_cache_mark_shared(f->cache, f->ctx);
	fake_reach(f->ctx);
	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
}

/* Of the same device. The event of the block's own context does not capture it. */
fixture_case(work_of_another_context_holds_a_block_back)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), addr = case_get(f, 64 * MIB), other;

	(void)fake_copy(ctx, 1, addr, 64 * MIB, 10 * MS);
	case_put(f, addr);
	other = case_get(f, 64 * MIB);
	assert_int_not_equal(other, addr);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 2);
	fake_advance(20 * MS);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	case_put(f, other);
}

static int64_t questions_of(const struct cm_heap *heap)
{
	return heap->device->row->scalar[CM_SCALAR_event_queries];
}

/* Nor is the lock of the other one taken for it, which is its own threads'. */
fixture_case(questions_to_another_device_are_counted_for_the_one_that_asks)
{
	struct fixture *f = *state;
	struct cm_heap *heap;

	(void)fixture_add_context(f, 1, &heap);
	cm_cache_mark_shared(f->cache, f->ctx);
	case_put(f, case_get(f, MIB));
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 2);
	assert_int_equal(questions_of(f->heap), 2);
	assert_int_equal(questions_of(heap), 0);
}

CM_TEST(behind_a_barrier_nothing_is_let_in_before_old_work_is_done)
{
	static const char *const who[] = {"a second context", "a peer", "another process"};
	struct fixture *f;
	struct cm_heap *heap;
	uint64_t addr, work;
	int i;

	/* Without a capture, and during one. */
	for (i = 0; i < 6; i++) {
		f = case_open(&(struct fixture_params){0});
		addr = case_get(f, 64 * MIB);
		work = case_launch(f, addr, 300 * MS);
		case_put(f, addr);
		assert_int_equal(case_get(f, 64 * MIB), addr);
		assert_false(fake_is_done(work));
		fake_capture(i >= 3);
		if (i % 3 == 0)
			(void)fixture_add_context(f, 0, &heap);
		else if (i % 3 == 1)
			cm_cache_mark_shared(f->cache, f->ctx);
		else
			assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
		if (!fake_is_done(work))
			fail_msg("%s is let in", who[i % 3]);
		fake_capture(false);
		case_close(f);
	}
}

/* Natively the free would not have waited for a kernel that was launched after it. */
fixture_case(work_launched_after_a_free_is_never_waited_for)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), small = case_get(f, 512), kernel, work;

	(void)case_launch(f, addr, MS);
	case_put(f, addr);
	/* As a hook that does not call cm_cache_before_work. */
	kernel = fake_submit(f->ctx, 2, small, 512, FAKE_FOREVER);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	work = case_launch(f, small, MS);
	assert_false(fake_is_blocked(work));
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_advance(500 * MS);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	work = case_launch(f, small, MS);
	assert_false(fake_is_blocked(work));
	fake_finish(kernel);
	fake_advance(500 * MS);
	assert_int_equal(case_get(f, 64 * MIB), addr);
}

fixture_case(an_epoch_closed_before_the_work_is_clean_of_it)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), small = case_get(f, 512), kernel, work;

	(void)case_launch(f, addr, MS);
	case_put(f, addr);
	assert_true(cm_cache_wants_close(f->cache));
	kernel = case_launch(f, small, FAKE_FOREVER);
	assert_false(cm_cache_wants_close(f->cache));
	assert_int_equal(case_get(f, 64 * MIB), addr);
	work = fake_submit(f->ctx, 7, small, 512, MS);
	assert_false(fake_is_blocked(work));
	fake_finish(kernel);
}

/* A little freed memory is not worth an event before each launch. */
fixture_case(a_small_share_is_not_worth_an_event)
{
	struct fixture *f = *state;
	uint64_t small = case_get(f, 512);

	(void)case_get(f, 64 * MIB);
	case_put(f, small);
	assert_false(cm_cache_wants_close(f->cache));
}

fixture_case(behind_an_epoch_that_hangs_no_barrier_is_laid)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), kernel, work, c;

	kernel = case_launch(f, a, FAKE_FOREVER);
	case_put(f, a);
	cm_cache_poll(f->cache);
	fake_advance(CM_PATIENCE_NS + MS);
	case_put(f, b);
	c = case_get(f, 64 * MIB);
	assert_true(c != a && c != b);
	work = fake_submit(f->ctx, 3, c, 512, MS);
	assert_false(fake_is_blocked(work));
	fake_finish(kernel);
}

/* Its time counts from its event. */
fixture_case(an_epoch_whose_barrier_failed_does_not_hang_for_that)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	fake_advance(10 * CM_PATIENCE_NS);
	(void)case_launch(f, addr, MS);
	case_put(f, addr);
	case_fail_call(f, 4, CM_DRIVER_OUT_OF_MEMORY); /* an event is made, recorded and queried */
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_true(f->driver.failed);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 2);
}

void __real_cm_lock_let_in(struct cm_lock *lock, bool rests);
void __wrap_cm_lock_let_in(struct cm_lock *lock, bool rests);

/* What is retired in one hold of the device's lock, at most. */
static struct {
	const struct cm_heap *heap; /* NULL: nobody looks */
	uint64_t before;            /* pending when the lock was taken */
	uint64_t most;
	uint32_t holds;
	uint32_t rests;
} slices;

static void end_slice(void)
{
	const uint64_t pending = slices.heap->row->pending_blocks;

	if (slices.before - pending > slices.most)
		slices.most = slices.before - pending;
	slices.before = pending;
	slices.holds++;
}

void __wrap_cm_lock_let_in(struct cm_lock *lock, bool rests)
{
	if (slices.heap)
		end_slice();
	slices.rests += rests;
	__real_cm_lock_let_in(lock, rests);
}

/* Another thread's free waits for one slice, however long the epoch is. */
fixture_case(a_long_epoch_is_retired_in_slices)
{
	enum { BLOCKS = 1000 };
	struct fixture *f = *state;
	uint64_t addr[BLOCKS];
	size_t i;

	for (i = 0; i < BLOCKS; i++)
		addr[i] = case_get(f, 512);
	for (i = 0; i < BLOCKS; i++)
		case_put(f, addr[i]);
	memset(&slices, 0, sizeof(slices));
	slices.heap = f->heap;
	slices.before = f->heap->row->pending_blocks;
	assert_int_equal(slices.before, BLOCKS);
	cm_cache_poll(f->cache);
	end_slice();
	slices.heap = NULL;
	assert_int_equal(slices.most, CM_RETIRE_SLICE);
	assert_int_equal(slices.holds, (BLOCKS + CM_RETIRE_SLICE - 1) / CM_RETIRE_SLICE);
	assert_int_equal(slices.rests, slices.holds - 1);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	assert_int_equal(f->heap->row->pending_blocks, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_closed), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_ready), 1);
}

/* They hold the event lock, which all threads want. */
CM_TEST(blocks_of_a_shard_are_retired_without_a_rest)
{
	enum { BLOCKS = 1000 };
	struct fixture *f = open_limit(0);
	uint64_t addr[BLOCKS];
	size_t i;

	be_of(f, 1);
	for (i = 0; i < BLOCKS; i++)
		addr[i] = case_get(f, 512);
	for (i = 0; i < BLOCKS; i++)
		case_put(f, addr[i]);
	memset(&slices, 0, sizeof(slices));
	cm_cache_poll(f->cache);
	assert_int_equal(slices.rests, 0);
	assert_int_equal(f->heap->row->pending_blocks, 0);
	close_shards(f);
}

fixture_case(more_epochs_than_places_lose_nothing)
{
	struct fixture *f = *state;
	uint64_t addr[CM_BATCHES_MAX + 8], keep = case_get(f, 512);
	size_t i;

	for (i = 0; i < CM_BATCHES_MAX + 8; i++)
		addr[i] = case_get(f, 2 * MIB);
	(void)case_launch(f, keep, FAKE_FOREVER);
	for (i = 0; i < CM_BATCHES_MAX + 8; i++) {
		case_put(f, addr[i]);
		cm_cache_poll(f->cache);
		assert_sound(f);
	}
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_closed), CM_BATCHES_MAX);
	assert_int_equal(f->heap->epochs.open.blocks, 8);
	case_settle(f);
	assert_int_equal(f->heap->row->pending_bytes, 8 * 2 * MIB);
	cm_cache_poll(f->cache);
	assert_int_equal(f->heap->row->pending_bytes, 0);
}

/* The newest of many epochs that are done is one question. */
fixture_case(epochs_that_are_done_cost_one_question)
{
	struct fixture *f = *state;
	uint64_t addr[20], keep = case_get(f, 512);
	size_t i;

	for (i = 0; i < 20; i++)
		addr[i] = case_get(f, MIB);
	(void)case_launch(f, keep, 50 * MS);
	for (i = 0; i < 20; i++) {
		case_put(f, addr[i]);
		(void)case_launch(f, keep, MS);
	}
	assert_true(fixture_scalar(f, CM_SCALAR_epochs_closed) > 10);
	fake_finish_all();
	f->driver.called[FAKE_EVENT_QUERY] = 0;
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 1);
	assert_int_equal(f->heap->row->pending_bytes, 0);
}
