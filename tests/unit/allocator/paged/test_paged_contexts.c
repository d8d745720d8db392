/* SPDX-License-Identifier: MIT */
/* Pages of several contexts: who gets them when a context is done with them or has gone, who may
 * access them, and what has been exported. */
#include "allocator/paged/paged.h"

#include <errno.h>

#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "tests/unit/paged_case.h"

paged_case(a_context_takes_its_pages_along)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), addr;

	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	assert_int_equal(f->driver.used_bytes[0], 30 * MIB);
	fixture_remove_context(f, ctx);
	assert_int_equal(f->driver.used_bytes[0], 0);
	/* The range is the device's: it goes with its last context. */
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 0);
	assert_sound(f);
	fixture_remove_context(f, f->ctx);
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 1);
	assert_sound(f);
}

CM_TEST(idle_pages_serve_another_context)
{
	struct fixture *f = open_paged(GIB);
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), block = case_get(f, 30 * MIB), addr, work;

	assert_int_equal(fixture_alloc(f, heap, 5 * MIB, &addr), 0);
	assert_pages(f, 18);
	/* Not while work of either context may touch them. */
	work = fixture_launch(f, ctx, 1, block, 30 * MIB, FAKE_FOREVER);
	case_put(f, block);
	assert_int_equal(fixture_alloc(f, heap, 10 * MIB, &addr), 0);
	assert_true(addr < block || addr >= block + 30 * MIB);
	assert_pages(f, 23);
	fake_finish(work);
	/* No request of the first context is needed for it, nor the driver. */
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &addr), 0);
	assert_true(addr >= block && addr + 20 * MIB <= block + 30 * MIB);
	assert_pages(f, 23);
	assert_sound(f);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_device_alloc), 3);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_device_free), 0);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 13);
	/* They stay when the context goes that had them first: 11, as handles have two. */
	fixture_remove_context(f, f->ctx);
	assert_sound(f);
	assert_pages(f, 19);
	fixture_launch(f, ctx, 1, addr, 20 * MIB, MS);
	assert_int_equal(fixture_put(f, addr), 0);
	fixture_remove_context(f, ctx);
	assert_pages(f, 0);
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 1);
	case_close(f);
}

paged_case(idle_pages_of_contexts_are_joined)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t block = case_get(f, 20 * MIB), addr, next;

	(void)fixture_add_context(f, 0, &heap);
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &next), 0);
	assert_int_equal(next, block + 20 * MIB);
	case_put(f, block);
	case_put(f, next);
	assert_int_equal(case_get(f, 40 * MIB), block);
	assert_pages(f, 20);
	/* Not the other context's own pages beside one that it uses. */
	case_put(f, block);
	assert_int_equal(fixture_alloc(f, heap, 10 * MIB, &addr), 0);
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &next), 0);
	case_put(f, next);
	(void)case_get(f, 36 * MIB);
	assert_pages(f, 38);
	assert_sound(f);
}

/* How many pages are the first context's. */
static uint64_t pages_of_first(struct fixture *f)
{
	const struct cm_segment *segment = f->cache->segment;
	uint64_t bytes = 0;
	uint32_t s, end = cm_rows_segments(f->cache);

	for (s = 1; s < end; s++)
		if (segment[s].flags & CM_SEGMENT_USED && segment[s].heap == f->heap->index)
			bytes += segment[s].size;
	return bytes / PAGE;
}

paged_case(all_idle_pages_change_hands_seldom)
{
	struct fixture *f = *state;
	uint64_t block[3], addr;
	struct cm_heap *heap;
	int i;

	(void)fixture_add_context(f, 0, &heap);
	for (i = 0; i < 3; i++)
		assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &block[i]), 0);
	case_put(f, block[0]);
	case_put(f, block[2]);
	/* The request's own, and no more. */
	addr = case_get(f, 20 * MIB);
	assert_int_equal(pages_of_first(f), 10);
	for (i = 0; i < 64; i++) {
		case_put(f, addr);
		addr = case_get(f, 20 * MIB);
	}
	(void)case_get(f, 10 * MIB);
	assert_int_equal(pages_of_first(f), 20);
	assert_pages(f, 30);
	assert_sound(f);
}

paged_case(pages_that_change_hands_stay_idle)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t older = case_get(f, 20 * MIB), live = case_get(f, 2 * MIB), newer, addr;
	const struct cm_paged *paged;

	(void)fixture_add_context(f, 0, &heap);
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &newer), 0);
	case_put(f, older);
	case_put(f, newer);
	case_settle(f);
	/* Too large for all that is idle. */
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	assert_int_equal(pages_of_first(f), 1);
	paged = f->heap->device->paged[CM_POOL_LARGE];
	assert_true(paged->page[cm_paged_page_at(paged, older)].tick <
		    paged->page[cm_paged_page_at(paged, newer)].tick);
	case_put(f, live);
	assert_sound(f);
}

paged_case(pages_change_hands_only_if_they_are_open_enough)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), block = case_get(f, 30 * MIB), addr;

	assert_int_equal(cm_cache_open_to(f->cache, ctx, 1 << 1), 0);
	case_put(f, block);
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	assert_true(fake_is_open_to(1, addr));
	assert_pages(f, 30);
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), 0);
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	assert_int_equal(addr, block);
	assert_true(fake_is_open_to(1, addr) && fake_is_open_to(1, addr + 28 * MIB));
	assert_pages(f, 30);
}

CM_TEST(no_page_changes_hands_on_a_full_card)
{
	struct fixture *f = open_paged(64 * MIB);
	struct cm_heap *heap;
	uint64_t addr;

	(void)fixture_add_context(f, 0, &heap);
	case_put(f, case_get(f, 62 * MIB));
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &addr), 0);
	assert_pages(f, 10);
	case_close(f);
}

/* No call is made while a capture is active: whoever wants memory next gives them back, though a
 * context that goes on has work under way. */
CM_TEST(pages_of_a_context_that_went_in_a_capture_are_given_back)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t live = case_get(f, 2 * MIB), addr;
	struct cm_heap *heap;
	uint64_t ctx;
	int make_room;

	fixture_launch(f, f->ctx, 1, live, 2 * MIB, FAKE_FOREVER);
	for (make_room = 0; make_room < 2; make_room++) {
		ctx = fixture_add_context(f, 0, &heap);
		assert_int_equal(fixture_alloc(f, heap, 40 * MIB, &addr), 0);
		fake_capture(true);
		fixture_remove_context(f, ctx);
		fake_capture(false);
		assert_int_equal(f->driver.used_bytes[0], (make_room ? 46 : 42) * MIB);
		if (make_room)
			(void)cm_cache_make_room(f->cache, f->ctx);
		else
			assert_int_not_equal(fixture_get(f, 4 * MIB), 0);
		assert_int_equal(f->driver.used_bytes[0], 6 * MIB);
	}
	case_close(f);
}

paged_case(a_heap_without_a_context_gets_no_pages)
{
	struct fixture *f = *state;
	uint64_t addr = 0;

	(void)case_get(f, 2 * MIB);
	/* As a thread that has found the heap, and comes to ask for memory now. */
	fixture_remove_context(f, f->ctx);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 30 * MIB, &addr), -EAGAIN);
	assert_sound(f);
	assert_pages(f, 0);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
}

static void replace_context(void *arg)
{
	struct fixture *f = arg;
	struct cm_heap *heap;

	end_context(f);
	(void)fixture_add_context(f, 1, &heap); /* the old handle */
	f->ctx = fixture_add_context(f, 0, &heap);
	assert_ptr_equal(heap, f->heap);
}

paged_case(a_range_is_not_given_to_the_next_context)
{
	struct fixture *f = *state;
	uint64_t addr = 0;

	f->driver.meanwhile_arg = f;
	f->driver.meanwhile = replace_context;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 30 * MIB, &addr), -EAGAIN);
	assert_sound(f);
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 1);
	(void)case_get(f, 30 * MIB);
	f->driver.meanwhile = end_context;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 512, &addr), -EAGAIN);
	assert_sound(f);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
	cm_cache_forgotten(f->cache);
	assert_pages(f, 0);
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 3);
}

paged_case(shown_memory_is_not_moved)
{
	struct fixture *f = *state;
	uint64_t shown = case_get(f, 20 * MIB), bytes;

	assert_int_equal(cm_cache_mark_exported(f->cache, shown), 0);
	(void)case_get(f, 20 * MIB);
	case_put(f, shown);
	case_settle(f);
	/* What was shown has gone back to the driver, and nothing was recycled. */
	assert_pages(f, 10);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 2);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_pages(f, 10);
}

paged_case(shown_memory_waits_for_a_context_that_is_ending)
{
	struct fixture *f = *state;
	uint64_t shown = case_get(f, 20 * MIB), ctx;
	struct cm_heap *heap;

	assert_int_equal(cm_cache_mark_exported(f->cache, shown), 0);
	ctx = fixture_add_context(f, 0, &heap);
	(void)fixture_launch(f, ctx, 1, shown, 20 * MIB, 10 * MS);
	cm_cache_lock_contexts(f->cache);
	assert_ptr_equal(cm_cache_forget_heap(f->cache, ctx), heap);
	cm_cache_context_is_ending(f->cache);
	cm_cache_unlock_contexts(f->cache);
	case_put(f, shown);
	cm_cache_poll(f->cache);
	assert_sound(f);
	assert_pages(f, 10);
	fake_context_destroy(ctx);
	cm_cache_lock_contexts(f->cache);
	cm_cache_context_has_ended(f->cache);
	cm_cache_unlock_contexts(f->cache);
	cm_cache_poll(f->cache);
	assert_pages(f, 0);
}

/* As for that of a segment cuMemFree would, which knows of no other context. */
paged_case(shown_memory_holds_nobody_up_behind_a_kernel_without_end)
{
	struct fixture *f = *state;
	uint64_t shown = case_get(f, 20 * MIB), ctx, addr, work;
	struct cm_heap *heap;

	assert_int_equal(cm_cache_mark_exported(f->cache, shown), 0);
	ctx = fixture_add_context(f, 1, &heap);
	cm_cache_mark_shared(f->cache, f->ctx);
	assert_int_equal(fixture_alloc(f, heap, 2 * MIB, &addr), 0);
	work = fixture_launch(f, ctx, 1, addr, 2 * MIB, FAKE_FOREVER);
	case_put(f, shown);
	cm_cache_poll(f->cache);
	(void)case_get(f, 30 * MIB);
	assert_false(fake_is_done(work));
	assert_pages(f, 25);
	case_settle(f);
	assert_pages(f, 15);
}

paged_case(a_peer_can_use_pages_made_before_and_after)
{
	struct fixture *f = *state;
	uint64_t before = case_get(f, 4 * MIB), after;

	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1 | 1 << 3), 0);
	after = case_get(f, 4 * MIB);
	assert_true(fake_is_open_to(1, before + 2 * MIB) && fake_is_open_to(3, before));
	assert_true(fake_is_open_to(1, after) && fake_is_open_to(3, after + 2 * MIB));
	assert_false(fake_is_open_to(2, before) || fake_is_open_to(2, after));
	assert_true(cm_heap_flags(f->heap) & CM_HEAP_SHARED);
}

paged_case(a_peer_is_let_in_while_a_capture_is_active)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 4 * MIB);

	fake_capture(true);
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), 0);
	assert_true(fake_is_open_to(1, addr) && fake_is_open_to(1, addr + 2 * MIB));
	fake_capture(false);
	assert_true(fake_is_open_to(1, case_get(f, 4 * MIB)));
}

paged_case(a_heap_begins_open_to_who_had_access_before)
{
	struct fixture *f = *state;
	const struct cm_context_info info = {.ctx = fake_context_create(0),
					     .can = CM_CAN_PAGES | CM_CAN_CTX_EVENTS,
					     .open_to = 1 << 2};
	struct cm_heap *heap;
	uint64_t addr, ctx;

	assert_int_equal(cm_cache_add_heap(f->cache, &info, &heap), 0);
	assert_true(cm_heap_flags(heap) & CM_HEAP_SHARED);
	assert_int_equal(fixture_alloc(f, heap, 4 * MIB, &addr), 0);
	assert_true(fake_is_open_to(2, addr) && !fake_is_open_to(1, addr));
	/* Who has its slot next does not. */
	fixture_remove_context(f, info.ctx);
	ctx = fixture_add_context(f, 0, &heap);
	assert_int_equal(fixture_alloc(f, heap, 4 * MIB, &addr), 0);
	assert_false(fake_is_open_to(2, addr));
	assert_false(cm_heap_flags(heap) & CM_HEAP_SHARED);
	fixture_remove_context(f, ctx);
}

paged_case(a_page_that_stays_closed_is_told)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 2 * MIB);

	(void)case_get(f, 2 * MIB);
	case_fail_call(f, 2, FAKE_INVALID_VALUE); /* of the second page */
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), FAKE_INVALID_VALUE);
	assert_true(f->driver.failed);
	/* The next time all are asked for again. */
	f->driver.fail_call = 0;
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), 0);
	assert_true(fake_is_open_to(1, addr) && fake_is_open_to(1, addr + 2 * MIB));
}
