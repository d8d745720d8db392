/* SPDX-License-Identifier: MIT */
/* What happens to a request that no ready memory serves, down to the last step. */
#include "allocator/entry/slow_path.h"

#include <errno.h>
#include <string.h>

#include "allocator/reuse/epoch.h"
#include "allocator/state/suspended.h"
#include "stats/region.h"
#include "tests/unit/fixture_case.h"

/* How many rows of a table may still be committed; negative: any number. */
static int rows_left[CM_TABLE_COUNT];

int __real_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows);
int __wrap_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows);

int __wrap_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows)
{
	if (!rows_left[table])
		return -ENOSPC;
	if (rows_left[table] > 0)
		rows_left[table]--;
	return __real_cm_region_commit(region, table, rows);
}

static void allow_rows(void)
{
	memset(rows_left, 0xff, sizeof(rows_left));
}

CM_TEST(a_failure_is_answered_by_waiting_giving_back_and_asking_again)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	uint64_t a, b, work;

	a = case_get(f, 30 * MIB);
	b = case_get(f, 40 * MIB);
	case_put(f, a);
	case_settle(f);
	work = fixture_launch(f, f->ctx, 1, b, 512, 20 * MS);
	case_put(f, b);
	/* Neither fits, and together with what is free at the driver they are enough. */
	(void)case_get(f, 90 * MIB);
	assert_true(fake_is_done(work));
	assert_failures(f, 1, 1, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 4);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 2);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 90 * MIB);
	case_close(f);
}

CM_TEST(a_block_that_gets_ready_by_the_wait_serves_without_a_retry)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t a;

	cm_policy_init(&policy);
	policy.reuse = CM_REUSE_GROW;
	f = case_open_limit(&policy, 50 * MIB);
	a = case_get(f, 40 * MIB);
	(void)fixture_launch(f, f->ctx, 1, a, 512, 20 * MS);
	case_put(f, a);
	assert_int_equal(case_get(f, 40 * MIB), a);
	assert_failures(f, 1, 0, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	case_close(f);
}

/* A program that could have its 2.25 MiB without us must not fail for the 10 of a segment. */
CM_TEST(a_request_gets_its_own_size_where_a_segment_cannot_be_had)
{
	struct fixture *f = case_open_limit(NULL, 67 * MIB + 2304 * KIB);
	uint64_t addr;

	(void)case_get(f, 64 * MIB);
	assert_int_equal(fake_memory_of(case_get(f, MIB)).bytes, 2 * MIB);
	assert_int_equal(fake_memory_of(case_get(f, MIB)).bytes, 2 * MIB);
	addr = case_get(f, 2304 * KIB);
	assert_int_equal(fake_memory_of(addr).bytes, 2304 * KIB);
	assert_int_equal(fake_memory_of(case_get(f, MIB)).bytes, MIB);
	assert_int_equal(case_try(f, 512), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	case_close(f);
}

/* The driver's own size for it, whose rest then serves, too. */
CM_TEST(a_request_gets_whole_pages_where_they_can_be_had)
{
	struct fixture *f = case_open_limit(NULL, 68 * MIB);
	uint64_t addr;

	(void)case_get(f, 64 * MIB);
	addr = case_get(f, 2304 * KIB);
	assert_int_equal(fake_memory_of(addr).bytes, 4 * MIB);
	assert_int_equal(fake_memory_of(case_get(f, 1536 * KIB)).addr, fake_memory_of(addr).addr);
	case_close(f);
}

/* As on the driver alone, where both come out of the same memory. */
CM_TEST(a_small_request_takes_a_large_block_rather_than_fail)
{
	struct fixture *f = case_open_limit(NULL, 64 * MIB);
	uint64_t addr[4], small;
	size_t i;

	for (i = 0; i < 4; i++)
		addr[i] = case_get(f, 16 * MIB);
	assert_int_equal(case_try(f, 512), CM_DRIVER_OUT_OF_MEMORY);
	case_put(f, addr[1]);
	addr[1] = case_get(f, 3 * MIB);
	small = case_get(f, 512);
	assert_true(small >= addr[1] && small - addr[1] < 16 * MIB);
	case_put(f, addr[1]);
	case_settle(f);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_int_equal(case_reserved(f), 48 * MIB);
	case_close(f);
}

CM_TEST(small_requests_on_a_full_card_do_not_ask_the_driver_each_time)
{
	struct fixture *f = case_open_limit(NULL, 64 * MIB);
	uint64_t calls, retries;
	int i;

	(void)case_get(f, 48 * MIB);
	case_put(f, case_get(f, 16 * MIB));
	(void)case_get(f, 3 * MIB);
	case_put(f, case_get(f, 512));
	calls = f->driver.called[FAKE_MEM_ALLOC];
	retries = fixture_scalar(f, CM_SCALAR_num_alloc_retries);
	for (i = 0; i < 10; i++)
		case_put(f, case_get(f, 512));
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], calls);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_alloc_retries), retries);
	case_close(f);
}

CM_TEST(the_driver_is_not_asked_again_unless_memory_has_returned)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const uint64_t addr = case_get(f, 64 * MIB);

	/* The same size as of a segment. */
	assert_int_equal(case_try(f, 40 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	case_put(f, addr);
	/* The idle segment returns, and the same is asked for again. */
	assert_int_equal(fake_memory_of(case_get(f, 100 * MIB)).bytes, 100 * MIB);
	case_close(f);
}

/* The card is known to be too small for a segment, which would be rounded up. */
CM_TEST(a_large_request_that_the_card_will_refuse_asks_for_its_own_size)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);

	(void)case_get(f, 64 * MIB);
	assert_int_equal(case_try(f, 40 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(case_try(f, 40 * MIB - 512), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 3);
	assert_int_equal(fake_memory_of(case_get(f, 35 * MIB)).bytes, 36 * MIB);
	case_close(f);
}

fixture_case(an_error_that_is_not_want_of_memory_goes_to_the_program)
{
	struct fixture *f = *state;

	f->driver.fail_call = 1;
	f->driver.fail_code = 999;
	assert_int_equal(case_try(f, MIB), 999);
	assert_sound(f);
	assert_failures(f, 0, 0, 0);
	assert_int_equal(f->driver.calls, 1);
	(void)case_get(f, MIB);
}

CM_TEST(full_tables_pass_the_request_on)
{
	static const enum cm_table tables[] = {CM_TABLE_BLOCK, CM_TABLE_SEGMENT};
	struct fixture *f;
	size_t i;

	for (i = 0; i < 2; i++) {
		allow_rows();
		f = case_open_limit(NULL, 0);
		rows_left[tables[i]] = 0;
		assert_int_equal(case_try(f, MIB), -ENOSPC);
		assert_sound(f);
		assert_int_equal(f->driver.used_bytes[0], 0);
		assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
		allow_rows();
		(void)case_get(f, MIB);
		case_close(f);
	}
}

/* Where no row is left for the remainder, the block is allocated whole. */
CM_TEST(without_a_row_for_the_rest_a_block_is_not_cut)
{
	struct fixture *f = case_open_limit(NULL, 0);
	uint64_t addr;
	int i;

	allow_rows();
	rows_left[CM_TABLE_BLOCK] = 1;
	/* The last row of the first batch is the remainder. */
	for (i = 0; i < CM_SPARE_BATCH - 1; i++)
		(void)case_get(f, 512);
	addr = case_get(f, 512);
	assert_current(f, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES, 2 * MIB);
	assert_int_equal(case_try(f, 512), -ENOSPC);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(case_get(f, 512), addr);
	allow_rows();
	case_close(f);
}

/* Natively the kernel and the request have nothing to do with each other. */
CM_TEST(a_kernel_without_end_does_not_hang_a_request)
{
	struct fixture *f = case_open_limit(NULL, 200 * MIB);
	uint64_t keep = case_get(f, 512), kernel, now;

	case_put(f, case_get(f, 150 * MIB));
	case_settle(f);
	kernel = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	/* To give 150 MiB back would wait for the kernel. */
	assert_int_equal(case_try(f, 180 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_true(f->driver.last_oom.busy);
	assert_int_equal(f->driver.last_oom.figures.releasable, 150 * MIB);
	assert_sound(f);
	assert_false(fake_is_done(kernel));
	/* It is waited for once. */
	now = f->driver.now_ns;
	assert_int_equal(case_try(f, 180 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_true(f->driver.now_ns - now < MS);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), -ETIME);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 0);
	assert_sound(f);
	fake_finish(kernel);
	(void)case_get(f, 180 * MIB);
	case_close(f);
}

/* The driver would wait for the kernel before it takes that back. */
CM_TEST(what_a_capture_kept_hangs_no_request)
{
	static const enum cm_mode modes[] = {CM_MODE_CACHE, CM_MODE_STATS};
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr, keep;
	size_t i;

	for (i = 0; i < 2; i++) {
		cm_policy_init(&policy);
		policy.mode = modes[i];
		policy.placement = CM_PLACEMENT_EXACT;
		f = case_open_limit(&policy, 0);
		keep = case_get(f, 512);
		addr = case_get(f, 64 * MIB);
		assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
		fake_capture(true);
		case_put(f, addr);
		fake_capture(false);
		(void)fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
		(void)case_get(f, 80 * MIB);
		(void)case_get(f, 96 * MIB);
		assert_int_not_equal(fake_memory_of(addr).bytes, 0);
		fake_finish_all();
		(void)case_get(f, 112 * MIB);
		assert_int_equal(fake_memory_of(addr).bytes, 0);
		case_close(f);
	}
}

/* To give back memory of one device does not wait for another, unless that has access to it. */
CM_TEST(a_kernel_without_end_of_another_device_keeps_no_memory)
{
	uint64_t ctx, kernel, bytes;
	struct cm_heap *heap;
	struct fixture *f;
	int shared;

	for (shared = 0; shared < 2; shared++) {
		f = case_open_limit(NULL, 200 * MIB);
		ctx = fixture_add_context(f, 1, &heap);
		if (shared)
			cm_cache_mark_shared(f->cache, f->ctx);
		case_put(f, case_get(f, 150 * MIB));
		case_put(f, case_get(f, 20 * MIB));
		case_settle(f);
		kernel = fixture_launch(f, ctx, 1, 512, 0, FAKE_FOREVER);
		assert_int_equal(case_try(f, 180 * MIB), shared ? CM_DRIVER_OUT_OF_MEMORY : 0);
		assert_true(shared || f->driver.now_ns < 100 * MS);
		assert_int_equal(cm_cache_trim(f->cache, 1, &bytes), 0);
		assert_sound(f);
		fake_finish(kernel);
		case_close(f);
	}
}

/* Whatever call fails, an answer that nobody gave is not taken for a good one. */
CM_TEST(what_cannot_be_asked_for_is_not_waited_for)
{
	struct fixture *f;
	uint64_t keep, call;

	/* The first calls are one of each kind; thousands of questions follow. */
	for (call = 1; call <= 12; call++) {
		f = case_open_limit(NULL, 200 * MIB);
		keep = case_get(f, 512);
		case_put(f, case_get(f, 150 * MIB));
		case_settle(f);
		(void)fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
		case_fail_call(f, call, CM_DRIVER_OUT_OF_MEMORY);
		(void)case_try(f, 180 * MIB);
		assert_true(f->driver.failed);
		if (fixture_complaint(f))
			fail_msg("call %d fails: %s", (int)call, fixture_complaint(f));
		fake_finish_all();
		case_close(f);
	}
}

CM_TEST(a_kernel_that_takes_its_time_is_waited_for)
{
	struct fixture *f = case_open_limit(NULL, 200 * MIB);
	uint64_t keep = case_get(f, 512);

	case_put(f, case_get(f, 150 * MIB));
	case_settle(f);
	(void)fixture_launch(f, f->ctx, 1, keep, 512, 5000 * MS);
	(void)case_get(f, 180 * MIB);
	case_close(f);
}

static struct fixture *trading;

/* As another thread that gets two segments meanwhile. */
static int free_late(uint64_t ctx, uint64_t addr)
{
	struct fixture *f = trading;

	f->cache->ops = fake_driver_ops();
	assert_int_equal(case_try(f, 512), 0);
	assert_int_equal(case_try(f, 2 * MIB), 0);
	return f->cache->ops->mem_free(ctx, addr);
}

CM_TEST(what_others_get_meanwhile_is_not_taken_for_what_went)
{
	struct fixture *f = case_open(&(struct fixture_params){.limit_bytes = 200 * MIB});
	struct cm_driver_ops ops = *fake_driver_ops();

	(void)case_get(f, 140 * MIB);
	case_put(f, case_get(f, 54 * MIB));
	case_settle(f);
	ops.mem_free = free_late;
	f->cache->ops = &ops;
	trading = f;
	(void)case_get(f, 8 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 54 * MIB);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 4);
	case_close(f);
}

static void run_program(struct fixture *f)
{
	uint64_t addr[15] = {0};
	size_t i;

	for (i = 0; i < 15; i++) {
		addr[i] = fixture_get(f, (i % 4 ? 3 * MIB : 30 * MIB) + i * 700);
		if (addr[i])
			(void)fixture_launch(f, f->ctx, i % 3, addr[i], 515, MS);
		if (i % 3 == 2 && addr[i - 1]) {
			(void)fixture_put(f, addr[i - 1]);
			addr[i - 1] = 0;
		}
	}
	cm_cache_poll(f->cache);
	for (i = 0; i < 15; i++)
		if (addr[i])
			(void)fixture_put(f, addr[i]);
	(void)fixture_get(f, 90 * MIB);
	(void)cm_cache_trim(f->cache, 0, NULL);
}

static uint64_t others; /* a block of another thread */

/* What was given back goes to that thread, which has just freed more. */
static int free_for_another(uint64_t ctx, uint64_t addr)
{
	struct fixture *f = trading;
	const int err = fake_driver_ops()->mem_free(ctx, addr);

	f->cache->ops = fake_driver_ops();
	assert_int_equal(fixture_put(f, others), 0);
	assert_int_not_equal(fixture_get(f, 33 * MIB), 0);
	return err;
}

CM_TEST(nobody_fails_since_another_frees_and_allocates_its_own)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	policy.placement = CM_PLACEMENT_EXACT;
	trading = f = case_open_limit(&policy, 128 * MIB);
	others = case_get(f, 64 * MIB);
	/* Idle, and larger than the request may waste. */
	case_put(f, case_get(f, 64 * MIB));
	case_settle(f);
	ops.mem_free = free_for_another;
	f->cache->ops = &ops;
	(void)case_get(f, 50 * MIB);
	assert_ptr_equal(f->cache->ops, fake_driver_ops());
	assert_failures(f, 2, 2, 0);
	case_close(f);
}

/* Caching stops in the context while the driver gives memory. */
static int alloc_and_drain(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	cm_cache_drain_heap(trading->cache, ctx);
	return fake_driver_ops()->mem_alloc(ctx, bytes, ret_addr);
}

static int free_while_the_end_waits(uint64_t ctx, uint64_t addr)
{
	assert_true(cm_heap_has_calls(trading->heap));
	return fake_driver_ops()->mem_free(ctx, addr);
}

fixture_case(what_goes_back_at_once_holds_up_the_end_of_its_context)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct fixture *f = trading = *state;

	ops.mem_alloc = alloc_and_drain;
	ops.mem_free = free_while_the_end_waits;
	f->cache->ops = &ops;
	assert_int_equal(case_try(f, 30 * MIB), -EAGAIN);
	f->cache->ops = fake_driver_ops();
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_false(cm_heap_has_calls(f->heap));
	assert_no_memory(f);
}

/* As another thread that destroys the context meanwhile; the next one gets its handle. */
static int alloc_and_end(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	struct fixture *f = trading;
	const int err = fake_driver_ops()->mem_alloc(ctx, bytes, ret_addr);

	f->cache->ops = fake_driver_ops();
	fixture_remove_context(f, ctx);
	assert_int_equal(fixture_add_context(f, 0, &f->heap), ctx);
	return err;
}

fixture_case(what_a_context_took_along_is_no_memory_of_the_next)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct fixture *f = trading = *state;
	struct cm_heap *heap = f->heap;

	ops.mem_alloc = alloc_and_end;
	f->cache->ops = &ops;
	assert_int_equal(case_try(f, 30 * MIB), -EAGAIN);
	assert_ptr_equal(f->heap, heap);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	assert_no_memory(f);
}

/* As another thread that asks the driver to destroy the context, and finds it broken. */
static int alloc_and_suspend(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	struct fixture *f = trading;
	const int err = fake_driver_ops()->mem_alloc(ctx, bytes, ret_addr);

	f->cache->ops = fake_driver_ops();
	cm_cache_lock_contexts(f->cache);
	assert_ptr_equal(cm_cache_suspend_heap(f->cache, ctx), f->heap);
	cm_cache_unlock_contexts(f->cache);
	cm_cache_drain_heap(f->cache, ctx);
	return err;
}

fixture_case(memory_that_no_call_may_return_goes_back_once_the_context_stays)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct fixture *f = trading = *state;

	ops.mem_alloc = alloc_and_suspend;
	f->cache->ops = &ops;
	assert_int_equal(case_try(f, 30 * MIB), -EAGAIN);
	assert_sound(f);
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(f->heap);
	cm_cache_unlock_contexts(f->cache);
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_no_memory(f);
}

/* The 1st, the 2nd, ... call of the driver fails, until a run meets no failure. */
CM_TEST(whatever_call_fails_the_counters_balance)
{
	static const int codes[] = {CM_DRIVER_OUT_OF_MEMORY, FAKE_INVALID_VALUE, FAKE_STICKY_ERROR,
				    FAKE_DEINITIALIZED};
	struct fixture *f;
	uint64_t call;
	size_t i;
	bool met;
	int old;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]) * 2; i++) {
		old = i % 2;
		for (call = 1, met = true; met; call++) {
			f = case_open(&(struct fixture_params){.limit_bytes = 100 * MIB,
							       .old_driver = old});
			f->driver.fail_call = call;
			f->driver.fail_code = codes[i / 2];
			run_program(f);
			if (fixture_complaint(f))
				fail_msg("call %llu fails with %d: %s", (unsigned long long)call,
					 codes[i / 2], fixture_complaint(f));
			met = f->driver.failed;
			case_close(f);
		}
		assert_true(call > 20);
	}
}

int main(void)
{
	allow_rows();
	return cm_run_tests(NULL, NULL);
}
