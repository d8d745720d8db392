/* SPDX-License-Identifier: MIT */
/* When freed memory may be used again where the driver can't or must not be asked: after an error,
 * during a capture, of an old version. */
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/ordered.h"

#include <errno.h>

#include "tests/unit/fixture_case.h"

/* As many events are kept as there may be, and one more would have to be destroyed. */
CM_TEST(settling_during_a_capture_gives_no_event_back)
{
	const struct cm_driver_ops *ops = fake_driver_ops();
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t addr;
	int breaks;

	for (breaks = 0; breaks < 2; breaks++) {
		f = case_open(&(struct fixture_params){0});
		heap = f->heap;
		addr = case_get(f, 64 * MIB);
		(void)fixture_launch(f, f->ctx, 1, addr, 512, 10 * MS);
		case_put(f, addr);
		assert_int_equal(case_get(f, 64 * MIB), addr);
		assert_int_equal(cm_heap_ordered(heap)->events, 1);
		assert_true(ops->gate_enter());
		for (; heap->spare_events < CM_BATCHES_MAX; heap->spare_events++)
			assert_int_equal(
				ops->event_create(f->ctx, &heap->spare_event[heap->spare_events]),
				0);
		ops->gate_leave();
		fake_capture(true);
		if (breaks)
			fake_context_break(f->ctx, FAKE_STICKY_ERROR);
		cm_ordered_settle(heap);
		assert_sound(f);
		assert_int_equal(cm_heap_ordered(heap)->events, 1);
		fake_capture(false);
		cm_ordered_settle(heap);
		assert_int_equal(f->driver.called[FAKE_EVENT_DESTROY], 1);
		case_close(f);
	}
}

fixture_case(an_epoch_that_cannot_be_recorded_stays_open)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, MIB), b = case_get(f, MIB);

	case_put(f, a);
	case_fail_call(f, 1, CM_DRIVER_OUT_OF_MEMORY);
	cm_cache_poll(f->cache);
	assert_true(f->driver.failed);
	assert_sound(f);
	assert_int_equal(f->heap->epochs.open.blocks, 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_epochs_closed), 0);
	case_put(f, b);
	cm_cache_poll(f->cache);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	/* An event could not be made for lack of memory: that is no reason to stop caching. */
	assert_int_equal(case_get(f, MIB), a);
}

fixture_case(a_context_with_a_sticky_error_is_left_to_the_driver)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), addr;

	case_put(f, a);
	fake_context_break(f->ctx, FAKE_STICKY_ERROR);
	cm_cache_poll(f->cache);
	assert_sound(f);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, MIB, &addr), -EAGAIN);
	/* The program hears the error from the driver. */
	assert_int_equal(fixture_put(f, b), FAKE_STICKY_ERROR);
	assert_sound(f);
}

fixture_case(an_error_of_one_context_keeps_nobody_waiting)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 1, &heap), addr = case_get(f, 64 * MIB);

	(void)fixture_launch(f, f->ctx, 1, addr, 512, 10 * MS);
	case_put(f, addr);
	cm_cache_poll(f->cache);
	fake_context_break(ctx, FAKE_STICKY_ERROR);
	(void)cm_cache_make_room(f->cache, f->ctx);
	assert_sound(f);
}

/* Natively neither device knows of the other. */
CM_TEST(an_error_of_one_context_ends_no_reuse_in_another)
{
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t ctx, addr;
	int old, i;

	for (old = 0; old < 2; old++) {
		/* Without room to let more wait. */
		f = case_open(
			&(struct fixture_params){.old_driver = old, .limit_bytes = 4096 * MIB});
		ctx = fixture_add_context(f, 1, &heap);
		addr = case_get(f, 64 * MIB);
		(void)fixture_launch(f, ctx, 1, addr, MIB, 10 * MS);
		(void)fixture_launch(f, f->ctx, 1, addr, 512, 10 * MS);
		case_put(f, addr);
		cm_cache_poll(f->cache);
		fake_context_break(ctx, FAKE_STICKY_ERROR);
		/* What was closed before has an event of the broken one, what comes after has
		 * none. */
		for (i = 0; i < 40; i++) {
			addr = case_get(f, 64 * MIB);
			(void)fixture_launch(f, f->ctx, 1, addr, 512, MS);
			case_put(f, addr);
		}
		assert_true(f->driver.used_bytes[0] <= 3 * 64 * MIB);
		assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
		assert_int_equal(f->driver.used_bytes[0], 0);
		case_close(f);
	}
}

/* An error of a call, and the context goes on: nobody knows when its work ends. */
CM_TEST(an_error_that_passes_makes_nothing_ready)
{
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t ctx, addr, call;
	bool met;

	for (call = 1, met = true; met; call++) {
		f = case_open(&(struct fixture_params){.events = 64});
		ctx = fixture_add_context(f, 1, &heap);
		addr = case_get(f, 64 * MIB);
		(void)fixture_launch(f, ctx, 1, addr, MIB, 1000 * MS);
		case_put(f, addr);
		case_fail_call(f, call, FAKE_INVALID_VALUE);
		cm_cache_poll(f->cache);
		met = f->driver.failed;
		(void)fixture_get(f, 64 * MIB);
		case_close(f);
	}
	assert_true(call > 4);
}

static struct fixture *open_old(void)
{
	return case_open(&(struct fixture_params){.old_driver = true});
}

CM_TEST(an_old_driver_waits_at_reuse_and_never_at_a_free)
{
	struct fixture *f = open_old();
	uint64_t addr = case_get(f, 64 * MIB), calls, work;

	work = fixture_launch(f, f->ctx, 1, addr, 512, 10 * MS);
	calls = f->driver.calls;
	case_put(f, addr);
	assert_int_equal(f->driver.calls, calls);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_true(fake_is_done(work));
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_CREATE], 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_waits), 1);
	case_close(f);
}

/* One wait for as much as a batch is elsewhere. */
CM_TEST(an_old_driver_is_waited_for_by_the_batch)
{
	enum { ROUNDS = 320 };
	struct fixture *f = open_old();
	int i;

	for (i = 0; i < ROUNDS; i++) {
		const uint64_t addr = case_get(f, MIB);

		(void)fixture_launch(f, f->ctx, 1, addr, MIB, MS);
		case_put(f, addr);
	}
	assert_true(f->driver.called[FAKE_CTX_SYNCHRONIZE] <= ROUNDS / 32);
	assert_true(case_reserved(f) <= 64 * MIB);
	case_close(f);
}

CM_TEST(an_old_driver_does_not_wait_for_work_launched_after_the_free)
{
	struct fixture *f = open_old();
	uint64_t addr = case_get(f, 16 * MIB), small = case_get(f, 512), kernel;

	case_put(f, addr);
	kernel = fixture_launch(f, f->ctx, 1, small, 512, FAKE_FOREVER);
	assert_int_not_equal(case_get(f, 16 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 0);
	fake_finish(kernel);
	case_close(f);
}

fixture_case(while_a_capture_is_active_the_driver_is_left_alone)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), calls, addr, bytes;

	case_put(f, a);
	calls = f->driver.calls;
	fake_capture(true);
	case_put(f, b);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 64 * MIB, &addr), -EBUSY);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), -EBUSY);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 0);
	cm_cache_before_work(f->cache);
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.calls, calls);
	fake_capture(false);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, 128 * MIB);
}

CM_TEST(a_segment_freed_while_a_capture_is_active_is_given_back_later)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	f = case_open(&(struct fixture_params){.policy = &policy});
	addr = case_get(f, 64 * MIB);
	fake_capture(true);
	case_put(f, addr);
	assert_int_equal(f->driver.used_bytes[0], 64 * MIB);
	fake_capture(false);
	cm_cache_poll(f->cache);
	assert_int_equal(f->driver.used_bytes[0], 0);
	case_close(f);
}
