/* SPDX-License-Identifier: MIT */
/* Pinned memory when it runs short or must not be touched, when contexts go, and under options. */
#include <errno.h>

#include "tests/unit/pinned_case.h"

CM_TEST(idle_memory_is_bounded_by_what_is_in_use)
{
	uint64_t addr[32], big;
	uint32_t i;

	open_plain();
	for (i = 0; i < 32; i++)
		addr[i] = get(64 * MIB);
	for (i = 0; i < 32; i++) {
		struct cm_host_row row;

		assert_int_equal(put(addr[i]), 0);
		row = host();
		assert_true(row.reserved_bytes.current - row.allocated_bytes.current <=
			    row.allocated_bytes.current + (int64_t)CM_PINNED_IDLE_BYTES);
		/* Nothing goes before it must: 18 idle blocks, and 14 in use beside the
		 * constant. */
		assert_int_equal(called(FAKE_HOST_FREE) > 0, i >= 18);
	}
	assert_int_equal(host().reserved_bytes.current, CM_PINNED_IDLE_BYTES);
	/* The longest idle went first. */
	assert_int_equal(fake_memory_of(addr[0]).bytes, 0);
	assert_int_equal(fake_memory_of(addr[31]).bytes, 64 * MIB);
	/* One block beyond the limit goes to the driver as it does without us. */
	big = get(2 * CM_PINNED_IDLE_BYTES);
	assert_int_equal(put(big), 0);
	assert_int_equal(fake_memory_of(big).bytes, 0);
	close_well();
}

CM_TEST(device_that_lags_bounds_what_waits)
{
	uint64_t addr;
	uint32_t i;

	open_plain();
	for (i = 0; i < 32; i++) {
		addr = get(64 * MIB);
		(void)fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, 50 * MS);
		assert_int_equal(put(addr), 0);
		assert_true(host().reserved_bytes.current <= (int64_t)CM_PINNED_IDLE_BYTES);
	}
	close_well();
}

CM_TEST(trim_returns_what_is_ready_and_leaves_what_is_not)
{
	uint64_t idle, busy, bytes = 0;

	open_plain();
	idle = get(MIB);
	busy = get(MIB);
	assert_int_equal(put(idle), 0);
	cm_cache_poll(fixture.cache);
	(void)fixture_launch(&fixture, fixture.ctx, 1, 0, 0, 10 * MS);
	assert_int_equal(put(busy), 0);
	(void)fixture_launch(&fixture, fixture.ctx, 2, 0, 0, FAKE_FOREVER);
	assert_int_equal(cm_cache_trim(fixture.cache, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
	fake_finish_all();
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(bytes, 2 * MIB);
	assert_int_equal(host().reserved_bytes.current, 0);
	close_well();
}

/* The driver would wait for it, and a capture that begins meanwhile for us. */
CM_TEST(a_kernel_without_end_keeps_what_is_ready)
{
	uint64_t addr;

	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB});
	assert_int_equal(put(get(6 * MIB)), 0);
	cm_cache_poll(fixture.cache);
	(void)fixture_launch(&fixture, fixture.ctx, 1, 0, 0, FAKE_FOREVER);
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, NULL), -ETIME);
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, 8 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	assert_int_not_equal(get(6 * MIB), 0);
	fake_finish_all();
	close_well();
}

/* Of contexts of another device. */
CM_TEST(a_kernel_without_end_keeps_nothing_of_others)
{
	struct cm_heap *heap;
	uint64_t ctx, bytes = 0;

	open_plain();
	ctx = fixture_add_context(&fixture, 1, &heap);
	assert_int_equal(put(get_of(heap, ctx, 0, 4 * MIB)), 0);
	assert_int_equal(put(get(6 * MIB)), 0);
	cm_cache_poll(fixture.cache);
	(void)fixture_launch(&fixture, fixture.ctx, 1, 0, 0, FAKE_FOREVER);
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(bytes, 4 * MIB);
	fake_finish_all();
	close_well();
}

CM_TEST(failure_for_memory_returns_idle_blocks_and_asks_again)
{
	uint64_t addr;

	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB});
	addr = get(6 * MIB);
	(void)fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, 20 * MS);
	assert_int_equal(put(addr), 0);
	addr = get(5 * MIB);
	assert_int_not_equal(addr, 0);
	assert_int_equal(host().reserved_bytes.current, 5 * MIB);
	assert_int_equal(put(addr), 0);
	close_well();
}

CM_TEST(device_memory_is_given_back_only_when_nothing_else_helps)
{
	uint64_t addr, forward;

	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB});
	assert_int_equal(cm_cache_free(fixture.cache, fixture_get(&fixture, MIB), &forward), 0);
	assert_int_equal(put(get(6 * MIB)), 0);
	assert_int_not_equal(get(5 * MIB), 0);
	assert_int_equal(called(FAKE_MEM_FREE), 0);
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, 6 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(called(FAKE_MEM_FREE), 1);
	close_well();
}

CM_TEST(last_try_asks_for_no_more_than_the_program)
{
	uint64_t addr, again;

	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB - 512});
	addr = get(9 * MIB + 512);
	assert_int_equal(fake_memory_of(addr).bytes, 9 * MIB + 512);
	assert_int_equal(put(addr), 0);
	/* Smaller than its class: it serves the class below, never a larger request. */
	again = get(9 * MIB + 1024);
	assert_int_equal(fake_memory_of(again).bytes, 9 * MIB + 1024);
	assert_int_equal(put(again), 0);
	again = get(9 * MIB);
	assert_int_equal(fake_memory_of(again).bytes, 9 * MIB + 1024);
	close_well();
}

CM_TEST(out_of_memory_is_the_drivers_own)
{
	uint64_t addr = 77;

	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB});
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, 11 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(addr, 77);
	assert_int_equal(host().num_host_alloc, 0);
	assert_int_equal(host().num_host_ooms, 1);
	assert_int_equal(fixture.driver.ooms_shown, 1);
	close_well();
}

CM_TEST(frees_wait_while_a_capture_is_active)
{
	uint64_t addr, fresh = 77, calls;

	open_plain();
	addr = get(512 * MIB);
	fake_capture(true);
	calls = fixture.driver.calls;
	assert_int_equal(put(addr), 0);
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, MIB, &fresh), -EBUSY);
	assert_int_equal(fresh, 77);
	assert_int_equal(fixture.driver.calls, calls);
	fake_capture(false);
	assert_int_equal(get(512 * MIB), addr);
	close_well();
}

CM_TEST(destroyed_context_takes_its_blocks_along)
{
	struct cm_heap *heap;
	uint64_t ctx, kept, live, waiting, ready, calls;
	uint32_t portable = CM_HOST_PORTABLE;

	open_plain();
	ctx = fixture_add_context(&fixture, 0, &heap);
	kept = get(MIB);
	ready = get_of(heap, ctx, portable, MIB);
	assert_int_equal(put(ready), 0);
	cm_cache_poll(fixture.cache);
	live = get_of(heap, ctx, 0, MIB);
	waiting = get_of(heap, ctx, portable, 2 * MIB);
	(void)fixture_launch(&fixture, ctx, 1, waiting, MIB, FAKE_FOREVER);
	assert_int_equal(put(waiting), 0);
	assert_int_equal(put(kept), 0);
	cm_cache_poll(fixture.cache);
	calls = fixture.driver.calls;
	fixture_remove_context(&fixture, ctx);
	/* The batch of both has the living one's block alone. */
	assert_null(fixture_complaint(&fixture));
	assert_int_equal(fixture.driver.calls, calls);
	assert_int_equal(host().segment.current, 1);
	assert_int_equal(host().num_host_free, 0);
	assert_int_equal(put(live), -ENOENT);
	/* Nothing of the dead context holds up the living. */
	assert_int_equal(get(MIB), kept);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	close_well();
}

CM_TEST(forgetting_many_blocks_misses_none)
{
	struct cm_heap *heap;
	uint64_t ctx, addr;
	uint32_t i;

	open_plain();
	ctx = fixture_add_context(&fixture, 0, &heap);
	for (i = 0; i < 6000; i++) {
		addr = get_of(i % 3 ? heap : fixture.heap, i % 3 ? ctx : fixture.ctx, 0, 512);
		assert_int_not_equal(addr, 0);
		if (i % 4 == 0)
			assert_int_equal(put(addr), 0);
	}
	fixture_remove_context(&fixture, ctx);
	fixture_remove_context(&fixture, fixture.ctx);
	assert_int_equal(host().segment.current, 0);
	close_well();
}

CM_TEST(stats_mode_passes_on_and_counts)
{
	struct cm_policy policy;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	open_with(&(struct fixture_params){.policy = &policy});
	addr = get(MIB + 3);
	assert_int_equal(fake_memory_of(addr).bytes, MIB + 3);
	assert_int_equal(host().allocated_bytes.current, MIB + 3);
	assert_int_equal(put(addr), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 1);
	assert_int_equal(called(FAKE_EVENT_RECORD), 0);
	assert_int_equal(host().reserved_bytes.current, 0);
	assert_int_equal(put(addr), -ENOENT);
	close_well();
}

/* What a capture kept from the driver waits for its end; a block of no class is on no list of
 * one. */
CM_TEST(stats_mode_reuses_nothing_that_a_capture_kept)
{
	static const uint64_t sizes[] = {1, 100, 511, 512, 700, MIB + 3};
	struct cm_policy policy;
	uint64_t addr[sizeof(sizes) / sizeof(sizes[0])], bytes;
	size_t i;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	open_with(&(struct fixture_params){.policy = &policy});
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		addr[i] = get(sizes[i]);
	fake_capture(true);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(put(addr[i]), 0);
	fake_capture(false);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	cm_cache_poll(fixture.cache);
	assert_int_equal(host().active.current, 0);
	assert_null(fixture_complaint(&fixture));
	bytes = (uint64_t)host().reserved_bytes.current;
	assert_int_not_equal(get(100), addr[1]);
	assert_int_equal(host().reserved_bytes.current, bytes + 100);
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(called(FAKE_HOST_FREE), i);
	assert_int_equal(host().reserved_bytes.current, 100);
	close_well();
}

CM_TEST(stats_mode_fails_nobody_for_what_a_capture_kept)
{
	struct cm_policy policy;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	open_with(&(struct fixture_params){.policy = &policy, .limit_bytes = 10 * MIB});
	addr = get(6 * MIB);
	fake_capture(true);
	assert_int_equal(put(addr), 0);
	fake_capture(false);
	assert_int_not_equal(get(5 * MIB), 0);
	/* The driver is asked twice only where something went back. */
	assert_int_equal(get(6 * MIB), 0);
	assert_int_equal(called(FAKE_HOST_ALLOC), 4);
	close_well();
}

CM_TEST(sync_free_waits_for_every_context)
{
	struct cm_policy policy;
	uint64_t addr, work;

	cm_policy_init(&policy);
	policy.sync = CM_SYNC_FREE;
	open_with(&(struct fixture_params){.policy = &policy});
	addr = get(MIB);
	work = fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, 30 * MS);
	assert_int_equal(put(addr), 0);
	assert_true(fake_is_done(work));
	assert_int_equal(host().active.current, 0);
	close_well();
}

CM_TEST(old_driver_waits_at_reuse_and_not_at_free)
{
	uint64_t addr, work;

	open_with(&(struct fixture_params){.old_driver = true});
	addr = get(MIB);
	work = fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, 30 * MS);
	assert_int_equal(put(addr), 0);
	assert_false(fake_is_done(work));
	assert_int_equal(get(MIB), addr);
	assert_true(fake_is_done(work));
	/* Behind work of after the free, which a cudaFreeHost would not have met, nothing waits. */
	assert_int_equal(put(addr), 0);
	(void)fixture_launch(&fixture, fixture.ctx, 1, 0, 0, FAKE_FOREVER);
	assert_int_not_equal(get(MIB), addr);
	fake_finish_all();
	close_well();
}

CM_TEST(broken_context_gets_nothing_from_the_cache)
{
	uint64_t addr, fresh = 77;

	open_plain();
	addr = get(MIB);
	fake_context_break(fixture.ctx, FAKE_STICKY_ERROR);
	assert_int_equal(put(addr), 0);
	/* The poll hears of the error, and the request after it is the driver's. */
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, MIB, &fresh),
			 FAKE_STICKY_ERROR);
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, MIB, &fresh), -EAGAIN);
	assert_int_equal(fresh, 77);
	close_well();
}

/* A short run that comes by every driver call of this file; false: an error reached the program. */
static void run_short(void)
{
	uint64_t addr, other;

	addr = get(MIB);
	if (addr) {
		(void)fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, MS);
		(void)put(addr);
	}
	fake_advance(2 * MS);
	other = get(MIB);
	addr = get(9 * MIB);
	if (addr)
		(void)put(addr);
	addr = get(8 * MIB);
	if (addr)
		(void)put(addr);
	if (other)
		(void)put(other);
	(void)cm_cache_trim(fixture.cache, UINT32_MAX, NULL);
}

CM_TEST(counters_balance_whichever_call_fails)
{
	static const int codes[] = {CM_DRIVER_OUT_OF_MEMORY, FAKE_STICKY_ERROR};
	const char *complaint;
	uint64_t n = 1;
	size_t c;
	bool failed;

	for (c = 0; c < 2; c++)
		for (failed = true, n = 1; failed; n++) {
			open_with(&(struct fixture_params){.limit_bytes = 12 * MIB});
			fixture.driver.fail_call = n;
			fixture.driver.fail_code = codes[c];
			run_short();
			failed = fixture.driver.failed;
			complaint = fixture_complaint(&fixture);
			if (complaint)
				fail_msg("call %llu fails: %s", (unsigned long long)n, complaint);
			fixture_close(&fixture);
		}
	assert_true(n > 10);
}
