/* SPDX-License-Identifier: MIT */
/* What the program's own wait for a context makes ready. What it names of other devices is
 * test_reach.c's. */
#include "allocator/reuse/epoch.h"
#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

#define BYTES (64 * MIB)

/* The program's call: its work is done when it returns. */
static void wait_for_all(struct fixture *f)
{
	const struct cm_program_wait wait = cm_cache_begin_wait(f->cache, f->ctx);

	fake_finish_all();
	cm_cache_end_wait(&wait);
}

static uint64_t free_in_use(struct fixture *f)
{
	uint64_t addr = case_get(f, BYTES);

	(void)fixture_launch(f, f->ctx, 1, addr, 512, MS);
	case_put(f, addr);
	return addr;
}

static bool close_epoch(struct fixture *f)
{
	bool closed;

	assert_true(f->cache->ops->gate_enter());
	closed = CM_WITH_LOCK(&f->cache->event_lock, cm_epoch_close_event_locked(f->heap));
	f->cache->ops->gate_leave();
	return closed;
}

fixture_case(what_was_freed_before_is_ready_without_a_call)
{
	struct fixture *f = *state;
	uint64_t addr = free_in_use(f), calls = f->driver.calls;
	int i;

	for (i = 0; i < 10; i++) {
		wait_for_all(f);
		assert_int_equal(f->heap->row->pending_bytes, 0);
		assert_int_equal(free_in_use(f), addr);
	}
	assert_int_equal(f->driver.calls, calls);
}

fixture_case(a_wait_that_fails_makes_nothing_ready)
{
	struct fixture *f = *state;

	(void)free_in_use(f);
	(void)cm_cache_begin_wait(f->cache, f->ctx);
	assert_int_equal(f->heap->row->pending_bytes, BYTES);
	assert_int_equal(f->heap->epochs.open.number, 1);
}

/* The open epoch is ready as a whole or not at all; what was closed before is. */
fixture_case(what_is_freed_meanwhile_waits)
{
	struct fixture *f = *state;
	uint64_t late = case_get(f, MIB);
	struct cm_program_wait wait;

	(void)free_in_use(f);
	assert_true(close_epoch(f));
	(void)free_in_use(f);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	(void)fixture_launch(f, f->ctx, 1, late, 512, MS);
	case_put(f, late);
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES + MIB);
	wait_for_all(f);
	assert_int_equal(f->heap->row->pending_bytes, 0);
}

fixture_case(what_is_closed_meanwhile_waits)
{
	struct fixture *f = *state;
	uint64_t late = case_get(f, MIB);
	struct cm_program_wait wait;

	(void)free_in_use(f);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	(void)fixture_launch(f, f->ctx, 1, late, 512, MS);
	case_put(f, late);
	assert_true(close_epoch(f));
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES + MIB);
}

/* An epoch that cannot be recorded opens again under its number, and more joins it. */
fixture_case(what_opens_again_waits)
{
	struct fixture *f = *state;
	uint64_t late = case_get(f, MIB);
	struct cm_program_wait wait;

	(void)free_in_use(f);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	case_fail_call(f, 1, CM_DRIVER_OUT_OF_MEMORY);
	assert_false(close_epoch(f));
	(void)fixture_launch(f, f->ctx, 1, late, 512, MS);
	case_put(f, late);
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES + MIB);
}

CM_TEST(others_that_reach_the_memory_are_not_waited_for)
{
	struct fixture *f;
	struct cm_heap *heap;
	int shared;

	for (shared = 0; shared < 2; shared++) {
		f = case_open(&(struct fixture_params){0});
		if (shared)
			cm_cache_mark_shared(f->cache, f->ctx);
		else
			(void)fixture_add_context(f, 0, &heap);
		(void)free_in_use(f);
		assert_int_equal(cm_cache_begin_wait(f->cache, f->ctx).shards, 0);
		case_close(f);
	}
}

fixture_case(nothing_is_ready_while_a_context_ends_or_a_capture_is_active)
{
	struct fixture *f = *state;
	struct cm_program_wait wait;

	(void)free_in_use(f);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	cm_cache_lock_contexts(f->cache);
	cm_cache_context_is_ending(f->cache);
	cm_cache_unlock_contexts(f->cache);
	assert_int_equal(cm_cache_begin_wait(f->cache, f->ctx).shards, 0);
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES);
	cm_cache_lock_contexts(f->cache);
	cm_cache_context_has_ended(f->cache);
	assert_ptr_equal(cm_cache_suspend_heap(f->cache, f->ctx), f->heap);
	cm_cache_unlock_contexts(f->cache);
	assert_int_equal(cm_cache_begin_wait(f->cache, f->ctx).shards, 0);
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES);
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(f->heap);
	cm_cache_unlock_contexts(f->cache);
	fake_capture(true);
	cm_cache_end_wait(&wait);
	fake_capture(false);
	assert_int_equal(f->heap->row->pending_bytes, BYTES);
}

/* The heap serves another context of the same handle by then, whose work goes on. */
fixture_case(a_context_that_comes_again_is_another)
{
	struct fixture *f = *state;
	const struct cm_context_info info = {.ctx = f->ctx, .can = CM_CAN_CTX_EVENTS};
	struct cm_program_wait wait;
	struct cm_heap *heap;

	(void)free_in_use(f);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	cm_cache_lock_contexts(f->cache);
	(void)cm_cache_forget_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	assert_int_equal(cm_cache_add_heap(f->cache, &info, &heap), 0);
	assert_ptr_equal(heap, f->heap);
	(void)free_in_use(f);
	cm_cache_end_wait(&wait);
	assert_int_equal(f->heap->row->pending_bytes, BYTES);
}
