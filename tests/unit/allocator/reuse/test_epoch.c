/* SPDX-License-Identifier: MIT */
/* When freed memory may be used again, and what that costs. */
#include "allocator/reuse/epoch.h"

#include <pthread.h>
#include <string.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/poll_policy.h"
#include "tests/unit/fixture_case.h"

static uint64_t launch(struct fixture *f, uint64_t addr, uint64_t duration_ns)
{
	return fixture_launch(f, f->ctx, 1, addr, 512, duration_ns);
}

static struct fixture *open_reuse_on_card(enum cm_reuse reuse, uint64_t bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.reuse = reuse;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = bytes});
}

static struct fixture *open_reuse(enum cm_reuse reuse)
{
	return open_reuse_on_card(reuse, 0);
}

static void a_free_calls_no_driver(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[100], calls;
	size_t i;

	for (i = 0; i < 100; i++) {
		addr[i] = case_get(f, 5000 * (i + 1));
		(void)launch(f, addr[i], 10 * MS);
	}
	calls = f->driver.calls;
	for (i = 0; i < 100; i++)
		case_put(f, addr[i]);
	assert_int_equal(f->driver.calls, calls);
	assert_true(f->heap->row->pending_bytes > 0);
}

static void memory_of_idle_work_is_ready_by_one_event_for_all(void **state)
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
static void a_block_in_use_by_the_device_is_had_behind_a_barrier(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), now;

	(void)launch(f, addr, 500 * MS);
	case_put(f, addr);
	now = f->driver.now_ns;
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_true(f->driver.now_ns - now < MS);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_hits), 1);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
}

static void a_block_freed_and_requested_in_a_loop_costs_three_calls_a_turn(void **state)
{
	struct fixture *f = *state;
	uint64_t other = case_get(f, 512), addr, calls = 0;
	int i;

	for (i = 0; i < 1000; i++) {
		if (i == 1)
			calls = f->driver.calls;
		addr = case_get(f, 256 * MIB);
		(void)launch(f, addr, MS);
		case_put(f, addr);
		if (i % 2)
			(void)launch(f, other, MS);
	}
	if (f->driver.calls - calls > 3 * 999)
		fail_msg("%llu calls in 999 turns", (unsigned long long)(f->driver.calls - calls));
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
			(void)launch(f, addr[at], lag_ns);
		fake_advance(2000);
	}
	free(addr);
	return (double)(f->driver.calls - calls) / (double)pairs;
}

static void a_thousand_live_blocks_cost_a_fifth_of_a_call_a_pair(void **state)
{
	static const uint64_t lags[] = {0, 4000, 8000, 100000};
	struct fixture *f;
	double calls;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
		f = case_open(&(struct fixture_params){.events = 64});
		calls = calls_per_pair(f, lags[i], 1000, 5000);
		if (calls > 0.2)
			fail_msg("kernels of %llu ns: %.3f calls a pair",
				 (unsigned long long)lags[i], calls);
		case_close(f);
	}
}

static void no_barrier_is_laid_where_a_second_context_could_pass_it(void **state)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr = case_get(f, 64 * MIB);

	(void)fixture_add_context(f, 0, &heap);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_finish_all();
	assert_int_equal(case_get(f, 64 * MIB), addr);
}

static void no_barrier_is_laid_where_others_reach_the_memory(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	cm_cache_mark_shared(f->cache, f->ctx);
	fake_reach(f->ctx);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
}

/* Of the same device. The event of the block's own context does not capture it. */
static void work_of_another_context_holds_a_block_back(void **state)
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
static void questions_to_another_device_are_counted_for_the_one_that_asks(void **state)
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

static void behind_a_barrier_nothing_is_let_in_before_old_work_is_done(void **state)
{
	static const char *const who[] = {"a second context", "a peer", "another process"};
	struct fixture *f;
	struct cm_heap *heap;
	uint64_t addr, work;
	int i;

	(void)state;
	/* Without a capture, and during one. */
	for (i = 0; i < 6; i++) {
		f = case_open(&(struct fixture_params){0});
		addr = case_get(f, 64 * MIB);
		work = launch(f, addr, 300 * MS);
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
static void work_launched_after_a_free_is_never_waited_for(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), small = case_get(f, 512), kernel, work;

	(void)launch(f, addr, MS);
	case_put(f, addr);
	/* As a hook that does not call cm_cache_before_work. */
	kernel = fake_submit(f->ctx, 2, small, 512, FAKE_FOREVER);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	work = launch(f, small, MS);
	assert_false(fake_is_blocked(work));
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_advance(500 * MS);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	work = launch(f, small, MS);
	assert_false(fake_is_blocked(work));
	fake_finish(kernel);
	fake_advance(500 * MS);
	assert_int_equal(case_get(f, 64 * MIB), addr);
}

static void an_epoch_closed_before_the_work_is_clean_of_it(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), small = case_get(f, 512), kernel, work;

	(void)launch(f, addr, MS);
	case_put(f, addr);
	assert_true(cm_cache_wants_close(f->cache));
	kernel = launch(f, small, FAKE_FOREVER);
	assert_false(cm_cache_wants_close(f->cache));
	assert_int_equal(case_get(f, 64 * MIB), addr);
	work = fake_submit(f->ctx, 7, small, 512, MS);
	assert_false(fake_is_blocked(work));
	fake_finish(kernel);
}

/* A little freed memory is not worth an event before each launch. */
static void a_small_share_is_not_worth_an_event(void **state)
{
	struct fixture *f = *state;
	uint64_t small = case_get(f, 512);

	(void)case_get(f, 64 * MIB);
	case_put(f, small);
	assert_false(cm_cache_wants_close(f->cache));
}

static void behind_an_epoch_that_hangs_no_barrier_is_laid(void **state)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), kernel, work, c;

	kernel = launch(f, a, FAKE_FOREVER);
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
static void an_epoch_whose_barrier_failed_does_not_hang_for_that(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	fake_advance(10 * CM_PATIENCE_NS);
	(void)launch(f, addr, MS);
	case_put(f, addr);
	f->driver.fail_call = f->driver.calls + 3; /* an event is made and recorded before */
	f->driver.fail_code = CM_DRIVER_OUT_OF_MEMORY;
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_true(f->driver.failed);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 2);
}

static void reuse_grow_takes_new_memory_and_lays_no_barrier(void **state)
{
	struct fixture *f = open_reuse(CM_REUSE_GROW);
	uint64_t addr = case_get(f, 64 * MIB);

	(void)state;
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_finish_all();
	assert_int_equal(case_get(f, 64 * MIB), addr);
	case_close(f);
}

static void reuse_wait_waits_and_takes_no_new_memory(void **state)
{
	struct fixture *f = open_reuse(CM_REUSE_WAIT);
	uint64_t addr = case_get(f, 64 * MIB), work;

	(void)state;
	work = launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_true(fake_is_done(work));
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_waits), 1);
	assert_true(fixture_scalar(f, CM_SCALAR_wait_ns) >= 9000000);
	case_close(f);
}

/* The host must not run ahead of the device without bound: it waits in the end. */
static void run_ahead_of(uint64_t kernel_ns)
{
	struct fixture *f = open_reuse_on_card(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr;
	int i;

	for (i = 0; i < 200; i++) {
		addr = case_get(f, 16 * MIB);
		(void)launch(f, addr, kernel_ns);
		case_put(f, addr);
	}
	assert_in_range(fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak, 0, 128 * MIB);
	case_close(f);
}

static void growth_by_running_ahead_is_bounded(void **state)
{
	(void)state;
	run_ahead_of(5 * MS);
}

/* Longer than the patience with what may never end: a cudaFree would have waited all the same. */
static void growth_behind_long_kernels_is_bounded(void **state)
{
	(void)state;
	run_ahead_of(300 * MS);
}

/* New memory would be as good, and the device must not idle: what was freed last is not waited
 * for. */
static void the_oldest_batch_is_waited_for_and_the_device_goes_on(void **state)
{
	struct fixture *f = open_reuse_on_card(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr, work = 0, waits;
	int i;

	(void)state;
	for (i = 0; i < 400; i++) {
		waits = f->driver.called[FAKE_EVENT_WAIT_UNGATED];
		addr = case_get(f, 4 * MIB);
		if (f->driver.called[FAKE_EVENT_WAIT_UNGATED] != waits)
			assert_false(fake_is_done(work));
		cm_cache_note_work(f->cache, f->ctx);
		work = launch(f, addr, MS);
		case_put(f, addr);
		if (cm_cache_wants_close(f->cache))
			cm_cache_before_work(f->cache);
	}
	assert_in_range(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 20, 100);
	assert_in_range(f->driver.called[FAKE_EVENT_QUERY], 0, 100);
	assert_in_range(fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak, 0, 64 * MIB);
	case_close(f);
}

enum { FREED = 20 };

struct freer {
	struct fixture *fixture;
	uint64_t addr[FREED];
};

static void *free_all(void *arg)
{
	struct freer *freer = arg;
	int i;

	for (i = 0; i < FREED; i++)
		case_put(freer->fixture, freer->addr[i]);
	return NULL;
}

/* Its cudaFree would hang, and this thread may be what the kernel waits for. */
static void what_another_thread_freed_is_not_waited_for_without_a_limit(void **state)
{
	struct freer freer = {.fixture = open_reuse_on_card(CM_REUSE_GROW, 16384 * MIB)};
	struct fixture *f = freer.fixture;
	uint64_t kernel, start;
	pthread_t thread;
	int i;

	(void)state;
	for (i = 0; i < FREED; i++)
		freer.addr[i] = case_get(f, 4 * MIB);
	kernel = launch(f, freer.addr[0], FAKE_FOREVER);
	assert_int_equal(pthread_create(&thread, NULL, free_all, &freer), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	start = f->driver.now_ns;
	(void)case_get(f, 4 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
	assert_in_range(f->driver.now_ns - start, CM_PATIENCE_NS, 2 * CM_STUCK_NS);
	fake_finish(kernel);
	case_close(f);
}

/* Work that no hook saw may have come between the last free and the event. */
static void an_old_batch_is_not_waited_for_without_a_limit(void **state)
{
	struct fixture *f = open_reuse_on_card(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr[FREED], kernel, start;
	int i;

	(void)state;
	for (i = 0; i < FREED; i++)
		addr[i] = case_get(f, 4 * MIB);
	for (i = 1; i < FREED / 2; i++)
		case_put(f, addr[i]);
	kernel = fake_copy(f->ctx, 1, addr[0], 512, FAKE_FOREVER);
	cm_cache_before_work(f->cache);
	while (i < FREED)
		case_put(f, addr[i++]);
	f->driver.now_ns += CM_PATIENCE_NS;
	start = f->driver.now_ns;
	(void)case_get(f, 4 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
	assert_in_range(f->driver.now_ns - start, 0, 2 * CM_STUCK_NS);
	fake_finish(kernel);
	case_close(f);
}

/* A cudaFree would not have waited for that, nor for long. */
static void growth_behind_another_device_is_not_held_up_for_long(void **state)
{
	struct fixture *f = open_reuse(CM_REUSE_GROW);
	struct cm_heap *heap;
	uint64_t addr, kernel;
	int i;

	(void)state;
	kernel = fixture_add_context(f, 1, &heap);
	kernel = fixture_launch(f, kernel, 1, 512, 0, FAKE_FOREVER);
	for (i = 0; i < 30; i++) {
		addr = case_get(f, 16 * MIB);
		(void)fake_copy(f->ctx, 1, addr, 512, MS);
		case_put(f, addr);
	}
	assert_true(f->driver.now_ns < 1000 * MS);
	fake_finish(kernel);
	case_close(f);
}

void __real_cm_lock_let_in(struct cm_lock *lock);
void __wrap_cm_lock_let_in(struct cm_lock *lock);

/* What is retired in one hold of the device's lock, at most. */
static struct {
	const struct cm_heap *heap; /* NULL: nobody looks */
	uint64_t before;            /* pending when the lock was taken */
	uint64_t most;
	uint32_t holds;
} slices;

static void end_slice(void)
{
	const uint64_t pending = slices.heap->row->pending_blocks;

	if (slices.before - pending > slices.most)
		slices.most = slices.before - pending;
	slices.before = pending;
	slices.holds++;
}

void __wrap_cm_lock_let_in(struct cm_lock *lock)
{
	if (slices.heap)
		end_slice();
	__real_cm_lock_let_in(lock);
}

/* Another thread's free waits for one slice, however long the epoch is. */
static void a_long_epoch_is_retired_in_slices(void **state)
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
	assert_int_equal(f->heap->row->pending_bytes, 0);
	assert_int_equal(f->heap->row->pending_blocks, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_closed), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_ready), 1);
}

static void more_epochs_than_places_lose_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[CM_BATCHES_MAX + 8], keep = case_get(f, 512);
	size_t i;

	for (i = 0; i < CM_BATCHES_MAX + 8; i++)
		addr[i] = case_get(f, 2 * MIB);
	(void)launch(f, keep, FAKE_FOREVER);
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
static void epochs_that_are_done_cost_one_question(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[20], keep = case_get(f, 512);
	size_t i;

	for (i = 0; i < 20; i++)
		addr[i] = case_get(f, MIB);
	(void)launch(f, keep, 50 * MS);
	for (i = 0; i < 20; i++) {
		case_put(f, addr[i]);
		(void)launch(f, keep, MS);
	}
	assert_true(fixture_scalar(f, CM_SCALAR_epochs_closed) > 10);
	fake_finish_all();
	f->driver.called[FAKE_EVENT_QUERY] = 0;
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 1);
	assert_int_equal(f->heap->row->pending_bytes, 0);
}

static void sync_free_waits_in_the_free_as_cuda_does(void **state)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr, work;
	int old;

	(void)state;
	cm_policy_init(&policy);
	policy.sync = CM_SYNC_FREE;
	for (old = 0; old < 2; old++) {
		f = case_open(&(struct fixture_params){.policy = &policy, .old_driver = old});
		addr = case_get(f, 64 * MIB);
		work = launch(f, addr, 10 * MS);
		case_put(f, addr);
		assert_true(fake_is_done(work));
		assert_int_equal(f->heap->row->pending_bytes, 0);
		assert_int_equal(case_get(f, 64 * MIB), addr);
		assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 0);
		case_close(f);
	}
}

/* A cudaFree of one device does not wait for another's. */
static void sync_free_waits_for_its_own_context_alone(void **state)
{
	struct cm_policy policy;
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t addr, work, kernel, ctx;
	int old;

	(void)state;
	cm_policy_init(&policy);
	policy.sync = CM_SYNC_FREE;
	for (old = 0; old < 2; old++) {
		f = case_open(&(struct fixture_params){.policy = &policy, .old_driver = old});
		ctx = fixture_add_context(f, 1, &heap);
		addr = case_get(f, 64 * MIB);
		kernel = fixture_launch(f, ctx, 1, 512, 0, FAKE_FOREVER);
		work = launch(f, addr, 10 * MS);
		case_put(f, addr);
		assert_true(fake_is_done(work));
		assert_false(fake_is_done(kernel));
		fake_finish(kernel);
		case_close(f);
	}
}

/* One that is about to wait for an epoch is not kept by those that come after. */
static void a_wait_is_for_what_was_freed_before_it(void **state)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), bytes, now;

	(void)fixture_launch(f, f->ctx, 1, a, 64 * MIB, 10 * MS);
	case_put(f, a);
	(void)fixture_launch(f, f->ctx, 2, b, 64 * MIB, 10 * MS);
	now = f->driver.now_ns;
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, 64 * MIB);
	assert_true(f->driver.now_ns - now < 30 * MS);
}

/* A free block of 40 MiB, and one of 12 MiB that waits for work of so long. */
static uint64_t keep_a_large_one_and_free_a_better_one(struct fixture *f, uint64_t work_ns)
{
	uint64_t large = case_get(f, 40 * MIB), better = case_get(f, 12 * MIB);

	case_put(f, large);
	case_settle(f);
	(void)launch(f, better, work_ns);
	case_put(f, better);
	return better;
}

static void no_large_block_is_split_while_a_better_one_is_pending(void **state)
{
	struct fixture *f = *state;
	uint64_t better = keep_a_large_one_and_free_a_better_one(f, MS);

	assert_int_equal(case_get(f, 12 * MIB), better);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
}

/* Pieces of the large block are allocated; each time the one that waits might have been better. */
static void a_device_that_lags_is_not_asked_for_every_piece(void **state)
{
	struct fixture *f = open_reuse(CM_REUSE_GROW);
	uint64_t queries;
	uint32_t i;

	(void)state;
	(void)keep_a_large_one_and_free_a_better_one(f, 1000 * MS);
	(void)case_get(f, 2 * MIB);
	queries = f->driver.called[FAKE_EVENT_QUERY];
	for (i = 0; i < 10; i++)
		(void)case_get(f, 2 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], queries);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	assert_int_equal(f->heap->row->pending_bytes, 12 * MIB);
	for (i = 0; i < CM_POLL_PAUSE; i++)
		case_put(f, case_get(f, 2 * MIB));
	assert_true(f->driver.called[FAKE_EVENT_QUERY] > queries);
	case_close(f);
}

static void a_pause_does_not_come_back_after_ever_so_many_requests(void **state)
{
	struct fixture *f = open_reuse(CM_REUSE_GROW);
	uint64_t queries;

	(void)state;
	(void)keep_a_large_one_and_free_a_better_one(f, 1000 * MS);
	(void)case_get(f, 2 * MIB);
	queries = f->driver.called[FAKE_EVENT_QUERY];
	/* None of them had anything to ask for. */
	f->heap->searches[CM_POOL_LARGE] += (UINT32_C(1) << 31) + CM_POLL_PAUSE;
	(void)case_get(f, 2 * MIB);
	assert_true(f->driver.called[FAKE_EVENT_QUERY] > queries);
	case_close(f);
}

static void many_blocks_that_wait_are_asked_for(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_case(a_free_calls_no_driver),
		fixture_case(memory_of_idle_work_is_ready_by_one_event_for_all),
		fixture_case(a_block_in_use_by_the_device_is_had_behind_a_barrier),
		fixture_case(a_block_freed_and_requested_in_a_loop_costs_three_calls_a_turn),
		cmocka_unit_test(a_thousand_live_blocks_cost_a_fifth_of_a_call_a_pair),
		fixture_case(no_barrier_is_laid_where_a_second_context_could_pass_it),
		fixture_case(no_barrier_is_laid_where_others_reach_the_memory),
		fixture_case(work_of_another_context_holds_a_block_back),
		fixture_case(questions_to_another_device_are_counted_for_the_one_that_asks),
		cmocka_unit_test(behind_a_barrier_nothing_is_let_in_before_old_work_is_done),
		fixture_case(work_launched_after_a_free_is_never_waited_for),
		fixture_case(an_epoch_closed_before_the_work_is_clean_of_it),
		fixture_case(a_small_share_is_not_worth_an_event),
		fixture_case(behind_an_epoch_that_hangs_no_barrier_is_laid),
		fixture_case(an_epoch_whose_barrier_failed_does_not_hang_for_that),
		cmocka_unit_test(reuse_grow_takes_new_memory_and_lays_no_barrier),
		cmocka_unit_test(reuse_wait_waits_and_takes_no_new_memory),
		cmocka_unit_test(growth_by_running_ahead_is_bounded),
		cmocka_unit_test(growth_behind_long_kernels_is_bounded),
		cmocka_unit_test(the_oldest_batch_is_waited_for_and_the_device_goes_on),
		cmocka_unit_test(what_another_thread_freed_is_not_waited_for_without_a_limit),
		cmocka_unit_test(an_old_batch_is_not_waited_for_without_a_limit),
		cmocka_unit_test(growth_behind_another_device_is_not_held_up_for_long),
		fixture_case(a_long_epoch_is_retired_in_slices),
		fixture_case(more_epochs_than_places_lose_nothing),
		fixture_case(epochs_that_are_done_cost_one_question),
		cmocka_unit_test(sync_free_waits_in_the_free_as_cuda_does),
		cmocka_unit_test(sync_free_waits_for_its_own_context_alone),
		fixture_case(a_wait_is_for_what_was_freed_before_it),
		fixture_case(no_large_block_is_split_while_a_better_one_is_pending),
		cmocka_unit_test(a_device_that_lags_is_not_asked_for_every_piece),
		cmocka_unit_test(a_pause_does_not_come_back_after_ever_so_many_requests),
		fixture_case(many_blocks_that_wait_are_asked_for),
	};

	return cmocka_run_group_tests_name("epoch", tests, NULL, NULL);
}
