/* SPDX-License-Identifier: MIT */
/* Memory backed by pages: where they are added, from where they are taken, and where they stay. */
#include "allocator/paged/paged.h"

#include <errno.h>

#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

#define PAGE CM_PAGED_PAGE

static struct fixture *open_paged(uint64_t limit_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	return case_open(&(struct fixture_params){
		.policy = &policy, .limit_bytes = limit_bytes, .events = 64});
}

static int setup(void **state)
{
	*state = open_paged(0);
	return 0;
}

static void assert_pages(struct fixture *f, uint64_t pages)
{
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, (int64_t)(pages * PAGE));
	assert_int_equal(f->driver.used_bytes[0], pages * PAGE);
}

static void pages_stand_only_under_blocks(void **state)
{
	struct fixture *f = *state;
	uint64_t first = case_get(f, 5 * MIB), second = case_get(f, 5 * MIB);

	/* Two blocks of 5 MiB in five pages of 2 MiB, side by side in one growing segment. */
	assert_int_equal(second, first + 5 * MIB);
	assert_pages(f, 5);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 0);
	/* Small blocks have a range of their own. */
	(void)case_get(f, 512);
	assert_pages(f, 6);
	assert_current(f, CM_POOL_SMALL, CM_STAT_RESERVED_BYTES, PAGE);
}

/* Searches are the clock by which free blocks grow old. */
static void new_pages_make_no_block_older_than_a_segment_does(void **state)
{
	struct fixture *f = case_open(&(struct fixture_params){.events = 64});
	uint32_t small, large;

	(void)state;
	(void)case_get(f, 512);
	(void)case_get(f, 5 * MIB);
	small = f->heap->searches[CM_POOL_SMALL];
	large = f->heap->searches[CM_POOL_LARGE];
	case_close(f);
	f = open_paged(0);
	(void)case_get(f, 512);
	(void)case_get(f, 5 * MIB);
	assert_int_equal(f->heap->searches[CM_POOL_SMALL], small);
	assert_int_equal(f->heap->searches[CM_POOL_LARGE], large);
	case_close(f);
}

/* A page that is taken from a place is soon wanted back there. */
static void pages_stay_where_they_are_on_a_card_with_room(void **state)
{
	struct fixture *f = *state;
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB), other;
	int pass;

	for (pass = 0; pass < 3; pass++) {
		case_put(f, hole);
		case_settle(f);
		other = case_get(f, 24 * MIB);
		assert_int_equal(case_get(f, 20 * MIB), hole);
		case_put(f, other);
		case_settle(f);
	}
	assert_pages(f, 23);
	assert_int_equal(f->driver.called[FAKE_PAGE_MAP], 3);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
	case_put(f, wall);
}

static void free_pages_are_moved_on_a_card_that_fills_up(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB);

	(void)state;
	case_put(f, hole);
	case_settle(f);
	/* It does not fit the hole; ten of its pages come from there. */
	(void)case_get(f, 24 * MIB);
	assert_pages(f, 13);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 13);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 10);
	/* And the hole can be filled again. */
	assert_int_equal(case_get(f, 20 * MIB), hole);
	assert_pages(f, 23);
	case_put(f, wall);
	case_close(f);
}

static void a_page_with_a_block_on_it_stays(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t hole = case_get(f, 20 * MIB - 512), wall = case_get(f, 512 + 1024 * KIB);

	(void)state;
	case_put(f, hole);
	case_settle(f);
	(void)case_get(f, 24 * MIB);
	/* The last page of the hole holds the first bytes of the wall. */
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 9);
	case_put(f, wall);
	case_close(f);
}

static void pages_behind_a_barrier_are_not_moved_until_it_is_passed(void **state)
{
	struct fixture *f = open_paged(80 * MIB);
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 2 * MIB), work;

	(void)state;
	work = fixture_launch(f, f->ctx, 1, hole, 20 * MIB, 10 * MS);
	case_put(f, hole);
	/* The barrier makes the hole ready, not idle: its pages stay, and new ones are made. */
	(void)case_get(f, 24 * MIB);
	assert_false(fake_is_done(work));
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 0);
	assert_pages(f, 23);
	case_settle(f);
	(void)case_get(f, 30 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 10);
	case_put(f, wall);
	case_close(f);
}

static void a_trim_gives_back_every_whole_page(void **state)
{
	struct fixture *f = *state;
	uint64_t hole = case_get(f, 20 * MIB), wall = case_get(f, 3 * MIB), bytes;

	case_put(f, hole);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 20 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(bytes, 20 * MIB);
	assert_pages(f, 2);
	case_put(f, wall);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_pages(f, 0);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
}

/* More of them than are taken out at once. */
static void a_trim_gives_back_the_pages_of_many_holes(void **state)
{
	struct fixture *f = *state;
	uint64_t hole[100];
	size_t i;

	for (i = 0; i < 100; i++) {
		hole[i] = case_get(f, i % 2 ? 5 * MIB : 6 * MIB);
		(void)case_get(f, 3 * MIB);
	}
	for (i = 0; i < 100; i++)
		case_put(f, hole[i]);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_sound(f);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 0);
	for (i = 0; i < 100; i++)
		(void)case_get(f, i % 2 ? 5 * MIB : 6 * MIB);
}

/* One that is larger than what is still missing goes to the driver, and a smaller one comes. */
static void handles_are_moved_where_they_fit(void **state)
{
	struct fixture *f = open_paged(1200 * MIB);
	uint64_t large = case_get(f, 1024 * MIB), left, middle;

	(void)state;
	(void)case_get(f, 2 * MIB);
	case_put(f, large);
	case_settle(f);
	left = case_get(f, 512 * MIB);
	middle = case_get(f, 8 * MIB);
	assert_int_equal(middle, left + 512 * MIB);
	case_put(f, left);
	case_settle(f);
	assert_pages(f, 513);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 129);
	/* 258 pages are missing: 64 handles of 4 pages come from the left, one from the right. */
	(void)case_get(f, 516 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_UNMAP], 65);
	assert_int_equal(f->driver.called[FAKE_PAGE_RELEASE], 1);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 130);
	assert_pages(f, 511);
	case_close(f);
}

static void a_full_card_serves_by_moving(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t block[8];
	size_t i;

	(void)state;
	for (i = 0; i < 8; i++)
		block[i] = case_get(f, 8 * MIB);
	for (i = 0; i < 8; i += 2)
		case_put(f, block[i]);
	case_settle(f);
	/* Four holes of 8 MiB make one block of 32. */
	(void)case_get(f, 32 * MIB);
	assert_pages(f, 32);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_alloc_retries), 0);
	assert_int_equal(fixture_get(f, 2 * MIB), 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	case_close(f);
}

/* A program may ask for less and less until it gets something. */
static void a_request_beyond_the_card_creates_no_pages(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	const uint64_t block = case_get(f, 32 * MIB);

	(void)state;
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 16);
	assert_int_equal(fixture_get(f, 48 * MIB), 0);
	assert_int_equal(fixture_get(f, 34 * MIB), 0);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 16);
	(void)case_get(f, 32 * MIB);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 32);
	case_put(f, block);
	case_close(f);
}

/* The number of its pages is no 32-bit number. */
static void a_request_of_more_than_the_range_gets_no_pages(void **state)
{
	static const uint64_t sizes[] = {
		UINT64_C(1) << 40,
		(UINT64_C(1) << 53) + 3 * MIB,
		(UINT64_C(3) << 53) + 64 * MIB,
	};
	struct fixture *f = *state;
	size_t i;

	(void)case_get(f, 3 * MIB);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(fixture_get(f, sizes[i]), 0);
	assert_int_equal(f->driver.called[FAKE_PAGE_MAP], 2);
	assert_sound(f);
}

static void a_failure_in_the_middle_leaves_nothing(void **state)
{
	uint64_t n, addr;

	(void)state;
	for (n = 1; n < 40; n++) {
		struct fixture *f = open_paged(GIB);

		f->driver.fail_call = n;
		f->driver.fail_code = CM_DRIVER_OUT_OF_MEMORY;
		addr = fixture_get(f, 16 * MIB);
		assert_sound(f);
		f->driver.fail_call = 0;
		if (addr)
			case_put(f, addr);
		case_put(f, case_get(f, 16 * MIB));
		case_close(f);
	}
}

/* Whatever the driver has against pages: without us the program would not have asked for any. */
static void what_is_refused_as_pages_is_had_as_a_segment(void **state)
{
	bool failed = true;
	uint64_t n;

	(void)state;
	for (n = 1; failed; n++) {
		struct fixture *f = open_paged(GIB);

		f->driver.fail_call = n;
		f->driver.fail_code = FAKE_INVALID_VALUE;
		(void)case_get(f, 16 * MIB);
		(void)case_get(f, 3 * MIB);
		failed = f->driver.failed;
		assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], failed ? 1 : 0);
		case_close(f);
	}
	assert_true(n > 16);
}

static void a_context_takes_its_pages_along(void **state)
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

static void idle_pages_serve_another_context(void **state)
{
	struct fixture *f = open_paged(GIB);
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), block = case_get(f, 30 * MIB), addr, work;

	assert_int_equal(fixture_alloc(f, heap, 5 * MIB, &addr), 0);
	assert_pages(f, 18);
	(void)state;
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
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], 23);
	/* They stay when the context goes that had them first. */
	fixture_remove_context(f, f->ctx);
	assert_sound(f);
	assert_pages(f, 18);
	fixture_launch(f, ctx, 1, addr, 20 * MIB, MS);
	assert_int_equal(fixture_put(f, addr), 0);
	fixture_remove_context(f, ctx);
	assert_pages(f, 0);
	assert_int_equal(f->driver.called[FAKE_RANGE_FREE], 1);
	case_close(f);
}

static void pages_change_hands_only_if_they_are_open_enough(void **state)
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

static void no_page_changes_hands_on_a_full_card(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	struct cm_heap *heap;
	uint64_t addr;

	(void)state;
	(void)fixture_add_context(f, 0, &heap);
	case_put(f, case_get(f, 62 * MIB));
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &addr), 0);
	assert_pages(f, 10);
	case_close(f);
}

/* No call is made while a capture is active: whoever wants memory next gives them back, though a
 * context that goes on has work under way. */
static void pages_of_a_context_that_went_in_a_capture_are_given_back(void **state)
{
	struct fixture *f = open_paged(64 * MIB);
	uint64_t live = case_get(f, 2 * MIB), addr;
	struct cm_heap *heap;
	uint64_t ctx;
	int make_room;

	(void)state;
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

static void a_heap_without_a_context_gets_no_pages(void **state)
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

/* What another thread can do of it while this one moves pages. */
static void end_context(void *arg)
{
	struct fixture *f = arg;

	cm_cache_lock_contexts(f->cache);
	cm_cache_forget_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	fake_context_destroy(f->ctx);
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

static void a_range_is_not_given_to_the_next_context(void **state)
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

static void shown_memory_is_not_moved(void **state)
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

static void shown_memory_waits_for_a_context_that_is_ending(void **state)
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
static void shown_memory_holds_nobody_up_behind_a_kernel_without_end(void **state)
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

static void a_peer_can_use_pages_made_before_and_after(void **state)
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

static void a_peer_is_let_in_while_a_capture_is_active(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 4 * MIB);

	fake_capture(true);
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), 0);
	assert_true(fake_is_open_to(1, addr) && fake_is_open_to(1, addr + 2 * MIB));
	fake_capture(false);
	assert_true(fake_is_open_to(1, case_get(f, 4 * MIB)));
}

static void a_heap_begins_open_to_who_had_access_before(void **state)
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

static void a_page_that_stays_closed_is_told(void **state)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 2 * MIB);

	(void)case_get(f, 2 * MIB);
	f->driver.fail_call = f->driver.calls + 2; /* of the second page */
	f->driver.fail_code = FAKE_INVALID_VALUE;
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), FAKE_INVALID_VALUE);
	assert_true(f->driver.failed);
	/* The next time all are asked for again. */
	f->driver.fail_call = 0;
	assert_int_equal(cm_cache_open_to(f->cache, f->ctx, 1 << 1), 0);
	assert_true(fake_is_open_to(1, addr) && fake_is_open_to(1, addr + 2 * MIB));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(pages_stand_only_under_blocks),
		cmocka_unit_test(new_pages_make_no_block_older_than_a_segment_does),
		CASE(pages_stay_where_they_are_on_a_card_with_room),
		cmocka_unit_test(free_pages_are_moved_on_a_card_that_fills_up),
		cmocka_unit_test(a_page_with_a_block_on_it_stays),
		cmocka_unit_test(pages_behind_a_barrier_are_not_moved_until_it_is_passed),
		CASE(a_trim_gives_back_every_whole_page),
		CASE(a_trim_gives_back_the_pages_of_many_holes),
		cmocka_unit_test(handles_are_moved_where_they_fit),
		cmocka_unit_test(a_full_card_serves_by_moving),
		cmocka_unit_test(a_request_beyond_the_card_creates_no_pages),
		CASE(a_request_of_more_than_the_range_gets_no_pages),
		cmocka_unit_test(a_failure_in_the_middle_leaves_nothing),
		cmocka_unit_test(what_is_refused_as_pages_is_had_as_a_segment),
		CASE(a_context_takes_its_pages_along),
		cmocka_unit_test(idle_pages_serve_another_context),
		CASE(pages_change_hands_only_if_they_are_open_enough),
		cmocka_unit_test(no_page_changes_hands_on_a_full_card),
		cmocka_unit_test(pages_of_a_context_that_went_in_a_capture_are_given_back),
		CASE(a_heap_without_a_context_gets_no_pages),
		CASE(a_range_is_not_given_to_the_next_context),
		CASE(shown_memory_is_not_moved),
		CASE(shown_memory_waits_for_a_context_that_is_ending),
		CASE(shown_memory_holds_nobody_up_behind_a_kernel_without_end),
		CASE(a_peer_can_use_pages_made_before_and_after),
		CASE(a_peer_is_let_in_while_a_capture_is_active),
		CASE(a_heap_begins_open_to_who_had_access_before),
		CASE(a_page_that_stays_closed_is_told),
	};

	return cmocka_run_group_tests_name("paged", tests, NULL, NULL);
}
