/* SPDX-License-Identifier: MIT */
/* When a request or a free waits for epochs, and how long. */
#include "allocator/reuse/epoch.h"

#include <pthread.h>

#include "allocator/base/gate.h"
#include "tests/unit/fixture_case.h"

CM_TEST(reuse_grow_takes_new_memory_and_lays_no_barrier)
{
	struct fixture *f = case_open_reuse(CM_REUSE_GROW, 0);
	uint64_t addr = case_get(f, 64 * MIB);

	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_finish_all();
	assert_int_equal(case_get(f, 64 * MIB), addr);
	case_close(f);
}

CM_TEST(reuse_wait_waits_and_takes_no_new_memory)
{
	struct fixture *f = case_open_reuse(CM_REUSE_WAIT, 0);
	uint64_t addr = case_get(f, 64 * MIB), work;

	work = case_launch(f, addr, 10 * MS);
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
	struct fixture *f = case_open_reuse(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr;
	int i;

	for (i = 0; i < 200; i++) {
		addr = case_get(f, 16 * MIB);
		(void)case_launch(f, addr, kernel_ns);
		case_put(f, addr);
	}
	assert_in_range(fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak, 0, 128 * MIB);
	case_close(f);
}

CM_TEST(growth_by_running_ahead_is_bounded)
{
	run_ahead_of(5 * MS);
}

/* Longer than the patience with what may never end: a cudaFree would have waited all the same. */
CM_TEST(growth_behind_long_kernels_is_bounded)
{
	run_ahead_of(300 * MS);
}

/* New memory would be as good, and the device must not idle: what was freed last is not waited
 * for. */
CM_TEST(the_oldest_batch_is_waited_for_and_the_device_goes_on)
{
	struct fixture *f = case_open_reuse(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr, work = 0, waits;
	int i;

	for (i = 0; i < 400; i++) {
		waits = f->driver.called[FAKE_EVENT_WAIT_UNGATED];
		addr = case_get(f, 4 * MIB);
		if (f->driver.called[FAKE_EVENT_WAIT_UNGATED] != waits)
			assert_false(fake_is_done(work));
		cm_cache_note_work(f->cache, f->ctx);
		work = case_launch(f, addr, MS);
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
CM_TEST(what_another_thread_freed_is_not_waited_for_without_a_limit)
{
	struct freer freer = {.fixture = case_open_reuse(CM_REUSE_GROW, 16384 * MIB)};
	struct fixture *f = freer.fixture;
	uint64_t kernel, start;
	pthread_t thread;
	int i;

	for (i = 0; i < FREED; i++)
		freer.addr[i] = case_get(f, 4 * MIB);
	kernel = case_launch(f, freer.addr[0], FAKE_FOREVER);
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
CM_TEST(an_old_batch_is_not_waited_for_without_a_limit)
{
	struct fixture *f = case_open_reuse(CM_REUSE_GROW, 16384 * MIB);
	uint64_t addr[FREED], kernel, start;
	int i;

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
CM_TEST(growth_behind_another_device_is_not_held_up_for_long)
{
	struct fixture *f = case_open_reuse(CM_REUSE_GROW, 0);
	struct cm_heap *heap;
	uint64_t addr, kernel;
	int i;

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

CM_TEST(sync_free_waits_in_the_free_as_cuda_does)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr, work;
	int old;

	cm_policy_init(&policy);
	policy.sync = CM_SYNC_FREE;
	for (old = 0; old < 2; old++) {
		f = case_open(&(struct fixture_params){.policy = &policy, .old_driver = old});
		addr = case_get(f, 64 * MIB);
		work = case_launch(f, addr, 10 * MS);
		case_put(f, addr);
		assert_true(fake_is_done(work));
		assert_int_equal(f->heap->row->pending_bytes, 0);
		assert_int_equal(case_get(f, 64 * MIB), addr);
		assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 0);
		case_close(f);
	}
}

/* A cudaFree of one device does not wait for another's. */
CM_TEST(sync_free_waits_for_its_own_context_alone)
{
	struct cm_policy policy;
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t addr, work, kernel, ctx;
	int old;

	cm_policy_init(&policy);
	policy.sync = CM_SYNC_FREE;
	for (old = 0; old < 2; old++) {
		f = case_open(&(struct fixture_params){.policy = &policy, .old_driver = old});
		ctx = fixture_add_context(f, 1, &heap);
		addr = case_get(f, 64 * MIB);
		kernel = fixture_launch(f, ctx, 1, 512, 0, FAKE_FOREVER);
		work = case_launch(f, addr, 10 * MS);
		case_put(f, addr);
		assert_true(fake_is_done(work));
		assert_false(fake_is_done(kernel));
		fake_finish(kernel);
		case_close(f);
	}
}

/* One that is about to wait for an epoch is not kept by those that come after. */
fixture_case(a_wait_is_for_what_was_freed_before_it)
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
