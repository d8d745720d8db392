/* SPDX-License-Identifier: MIT */
#include "allocator/state/life_cycle.h"

#include "allocator/state/suspended.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/fixture_case.h"

/* As docs/architecture.md draws them; x: the state of the column may follow that of the row. */
CM_TEST(only_the_transitions_that_are_drawn_are_legal)
{
	static const char *const legal[CM_STATE_COUNT] = {
		[CM_STATE_UNUSED] = ".x....",    [CM_STATE_SERVING] = "..xx..",
		[CM_STATE_SUSPENDED] = ".x...x", [CM_STATE_DRAINING] = "x...xx",
		[CM_STATE_DEAD] = "x..x.x",      [CM_STATE_DRAINING_SUSPENDED] = "x..x..",
	};
	uint32_t from, to;

	for (from = 0; from < CM_STATE_COUNT; from++)
		for (to = 0; to < CM_STATE_COUNT; to++)
			assert_int_equal(cm_heap_state_may_follow(from, to),
					 legal[from][to] == 'x');
}

static void set_suspended(struct fixture *f, bool suspended)
{
	cm_cache_lock_contexts(f->cache);
	if (suspended)
		(void)cm_cache_suspend_heap(f->cache, f->ctx);
	else
		cm_cache_resume_heap(f->heap);
	cm_cache_unlock_contexts(f->cache);
}

static void assert_state(const struct fixture *f, enum cm_heap_state state, uint32_t flags)
{
	assert_int_equal(cm_heap_state(f->heap), state);
	assert_int_equal(cm_heap_flags(f->heap), flags);
	assert_int_equal(atomic_load(&f->cache->suspended), cm_heap_is_suspended(f->heap));
}

fixture_case(a_heap_that_is_resumed_is_what_it_was)
{
	struct fixture *f = *state;

	assert_state(f, CM_STATE_SERVING, CM_HEAP_USED);
	set_suspended(f, true);
	assert_state(f, CM_STATE_SUSPENDED, CM_HEAP_USED);
	set_suspended(f, false);
	assert_state(f, CM_STATE_SERVING, CM_HEAP_USED);
	set_suspended(f, true);
	cm_heap_drain(f->heap);
	assert_state(f, CM_STATE_DRAINING_SUSPENDED, CM_HEAP_USED | CM_HEAP_DRAINING);
	set_suspended(f, false);
	assert_state(f, CM_STATE_DRAINING, CM_HEAP_USED | CM_HEAP_DRAINING);
}

/* Two threads end one context; or the second one hears of it too late. */
fixture_case(who_suspends_twice_or_resumes_what_has_gone_changes_nothing)
{
	struct fixture *f = *state;

	set_suspended(f, true);
	set_suspended(f, true);
	assert_state(f, CM_STATE_SUSPENDED, CM_HEAP_USED);
	set_suspended(f, false);
	set_suspended(f, false);
	assert_state(f, CM_STATE_SERVING, CM_HEAP_USED);
	set_suspended(f, true);
	cm_cache_lock_contexts(f->cache);
	(void)cm_cache_forget_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	assert_state(f, CM_STATE_UNUSED, 0);
	set_suspended(f, false);
	assert_state(f, CM_STATE_UNUSED, 0);
}
