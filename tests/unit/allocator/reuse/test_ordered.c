/* SPDX-License-Identifier: MIT */
/* Barriers that are kept, as blocks or threads wait for what lies before them. */
#include "allocator/reuse/ordered.h"

#include "tests/unit/fixture_case.h"

#define BLOCK (16 * MIB)

static uint64_t barriers_kept(const struct cm_heap *heap)
{
	return heap->ordered.open.number - heap->ordered.oldest;
}

/* Lays a barrier behind the work on a named block and on another one, which is had again. */
static bool lay(struct fixture *f, uint64_t named, uint64_t *other)
{
	const uint64_t before = *other;

	(void)fixture_launch(f, f->ctx, 1, named, 512, 10 * MS);
	case_put(f, named);
	case_put(f, before);
	*other = case_get(f, BLOCK);
	return *other == before;
}

fixture_case(the_last_barrier_alone_is_kept)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, BLOCK), named = case_get(f, MIB);
	int i;

	for (i = 0; i < 3; i++) {
		assert_true(lay(f, named, &addr));
		named = case_get(f, MIB);
	}
	assert_int_equal(barriers_kept(f->heap), 1);
	assert_false(cm_ordered_holds_event_locked(f->heap));
}

/* As many as there is room for; then all is reused by event, and none is lost. */
fixture_case(barriers_that_blocks_wait_for_are_kept)
{
	struct fixture *f = *state;
	uint64_t named[CM_BATCHES_MAX + 1], addr;
	uint64_t i;

	for (i = 0; i <= CM_BATCHES_MAX; i++) {
		named[i] = case_get(f, BLOCK);
		cm_cache_mark_named(f->cache, named[i], BLOCK);
		fake_name(named[i], BLOCK);
	}
	addr = case_get(f, BLOCK);
	for (i = 0; i < CM_BATCHES_MAX; i++) {
		assert_true(lay(f, named[i], &addr));
		assert_int_equal(barriers_kept(f->heap), i + 1);
		assert_sound(f);
	}
	assert_false(cm_ordered_has_room_event_locked(f->heap));
	assert_false(lay(f, named[i], &addr));
	case_settle(f);
	case_settle(f);
	assert_false(cm_ordered_holds_event_locked(f->heap));
	assert_int_equal(cm_heap_pending_bytes(f->heap), 0);
}

fixture_case(a_thread_waits_for_the_barrier_that_it_met)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, BLOCK), named = case_get(f, MIB);

	assert_true(lay(f, named, &addr));
	f->heap->settlers++;
	assert_true(lay(f, case_get(f, MIB), &addr));
	assert_int_equal(barriers_kept(f->heap), 2);
	f->heap->settlers--;
	assert_true(lay(f, case_get(f, MIB), &addr));
	assert_int_equal(barriers_kept(f->heap), 1);
	cm_ordered_settle(f->heap);
	assert_int_equal(f->heap->settlers, 0);
}
