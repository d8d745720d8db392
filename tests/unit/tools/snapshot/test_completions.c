/* SPDX-License-Identifier: MIT */
/* The fixture compares what is derived from its rings with its cache (ring_check.h). */
#include "tools/snapshot/completions.h"

#include <string.h>

#include "allocator/blocks/free.h"
#include "allocator/reuse/epoch.h"
#include "tests/unit/fixture_case.h"
#include "tests/unit/ring_check.h"

#define ALLOC CM_ACTION_ALLOC
#define FREE  CM_ACTION_FREE_REQUESTED
#define DONE  CM_ACTION_FREE_COMPLETED
#define ALL   CM_ACTION_FREES_COMPLETED
#define MANY  16

void __real_cm_lock_let_in(struct cm_lock *lock, bool rests);
void __wrap_cm_lock_let_in(struct cm_lock *lock, bool rests);

static const struct fixture *watched; /* NULL: none */

void __wrap_cm_lock_let_in(struct cm_lock *lock, bool rests)
{
	const char *complaint = watched ? ring_check_complaint(watched->region, false) : NULL;

	if (complaint)
		fail_msg("between two slices: %s", complaint);
	__real_cm_lock_let_in(lock, rests);
}

static uint64_t count(const struct fixture *f, enum cm_action action)
{
	const struct cm_device *device = f->heap->device;
	uint64_t i, n = 0;

	for (i = 0; i < device->row->event_next && i <= device->ring.mask; i++)
		n += device->ring.row[i].action == action;
	return n;
}

CM_TEST(a_slice_has_one_event_for_its_blocks_alone)
{
	enum { BLOCKS = CM_RETIRE_SLICE + 10 };
	struct fixture *f = case_open(&(struct fixture_params){.events = 256});
	uint64_t addr[BLOCKS];
	size_t i;

	for (i = 0; i < BLOCKS; i++)
		addr[i] = case_get(f, 512);
	for (i = 0; i < BLOCKS; i++)
		case_put(f, addr[i]);
	watched = f;
	cm_cache_poll(f->cache);
	watched = NULL;
	assert_int_equal(count(f, ALL), 2);
	assert_int_equal(count(f, DONE), 0);
	assert_sound(f);
	case_close(f);
}

/* Their numbers follow each other, and so do the epochs. */
fixture_case(a_free_behind_a_closed_epoch_waits_for_its_own)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, MIB), b = case_get(f, MIB), keep = case_get(f, MIB), work;

	work = case_launch(f, keep, FAKE_FOREVER);
	case_put(f, a);
	cm_cache_poll(f->cache);
	(void)case_launch(f, keep, FAKE_FOREVER);
	case_put(f, b);
	cm_cache_poll(f->cache);
	assert_int_equal(count(f, ALL), 0);
	assert_sound(f);
	fake_finish(work);
	cm_cache_poll(f->cache);
	assert_int_equal(count(f, ALL), 1);
	assert_int_equal(f->heap->row->pending_blocks, 1);
	assert_sound(f);
	case_settle(f);
	assert_int_equal(count(f, ALL), 2);
}

fixture_case(blocks_of_an_epoch_that_is_put_back_wait_on)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, MIB), b = case_get(f, MIB);

	case_put(f, a);
	case_fail_call(f, 1, CM_DRIVER_OUT_OF_MEMORY);
	cm_cache_poll(f->cache);
	case_put(f, b);
	assert_int_equal(f->heap->epochs.open.blocks, 2);
	assert_sound(f);
	cm_cache_poll(f->cache);
	assert_int_equal(count(f, ALL), 1);
	assert_sound(f);
}

fixture_case(named_memory_has_events_of_its_own)
{
	struct fixture *f = *state;
	uint64_t named = case_get(f, 16 * MIB), a = case_get(f, 16 * MIB),
		 b = case_get(f, 16 * MIB);

	case_put(f, b);
	cm_cache_mark_named(f->cache, named, 16 * MIB);
	fake_name(named, 16 * MIB);
	(void)case_launch(f, named, 10 * MS);
	case_put(f, named);
	case_put(f, a);
	assert_int_not_equal(case_get(f, 16 * MIB), named);
	assert_true(count(f, DONE) > 0);
	assert_true(f->heap->row->pending_blocks > 0);
	case_settle(f);
	assert_sound(f);
	assert_int_equal(count(f, ALL), 0);
	assert_int_equal(count(f, DONE), 3);
}

/* That of a context that does not cache any more. */
fixture_case(a_block_that_need_not_wait_is_completed_before_older_ones)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 16 * MIB), b = case_get(f, 16 * MIB);

	(void)case_launch(f, a, 10 * MS);
	case_put(f, a);
	cm_cache_poll(f->cache);
	cm_cache_drain_heap(f->cache, f->ctx);
	case_put(f, b);
	assert_int_equal(count(f, DONE), 1);
	assert_sound(f);
	case_settle(f);
	assert_int_equal(count(f, ALL), 1);
	assert_sound(f);
}

fixture_case(a_context_takes_its_pending_blocks_along)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 0, &heap), addr, live;

	assert_true(ctx != 0);
	assert_int_equal(fixture_alloc(f, heap, MIB, &addr), 0);
	assert_int_equal(fixture_alloc(f, heap, MIB, &live), 0);
	(void)fixture_launch(f, ctx, 1, addr, 512, FAKE_FOREVER);
	case_put(f, addr);
	cm_cache_poll(f->cache);
	assert_int_equal(count(f, ALL), 0);
	fixture_remove_context(f, ctx);
	assert_sound(f);
	assert_int_equal(count(f, FREE), 2);
	assert_true(count(f, ALL) > 0);
}

static void record(struct fixture *f, bool on)
{
	uint64_t devices;

	assert_int_equal(cm_cache_record_events(f->cache, CM_ALL_DEVICES, on, &devices), 0);
	f->record_has_gaps = true;
}

/* `a` is freed before the gap, `b` in it, `c` behind it: they are in one epoch. */
fixture_case(a_gap_in_the_record_completes_nothing_early)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, MIB), b = case_get(f, MIB), c = case_get(f, MIB);

	(void)case_launch(f, a, FAKE_FOREVER);
	case_put(f, a);
	record(f, false);
	case_put(f, b);
	record(f, true);
	case_put(f, c);
	cm_cache_poll(f->cache);
	assert_sound(f);
	case_settle(f);
	assert_int_equal(count(f, ALL), 1);
	assert_sound(f);
}

/* --- rings made by hand -------------------------------------------------------------------- */

struct made {
	uint8_t action;
	uint8_t heap;
	uint64_t addr;
	uint64_t size;
};

/* Numbers count from 101 in the ring, from 901 in the device. */
static size_t derive(const struct made *made, size_t events, struct cm_event *event)
{
	uint64_t number[MANY];
	size_t i;

	for (i = 0; i < events; i++) {
		number[i] = 101 + i;
		event[i] = (struct cm_event){.number = 901 + i,
					     .tick = 1000 + i,
					     .addr = made[i].addr,
					     .size = made[i].size,
					     .thread = (uint32_t)i,
					     .stack = 7,
					     .annotation = (uint32_t)i,
					     .action = made[i].action,
					     .pool = CM_POOL_LARGE,
					     .heap = made[i].heap};
	}
	assert_int_equal(cm_completions_derive(event, number, &events), 0);
	return events;
}

static void check(const struct made *made, size_t events, const struct made *want, size_t wanted)
{
	struct cm_event event[2 * MANY];
	const size_t got = derive(made, events, event);
	size_t i;

	for (i = 0; i < wanted && i < got; i++)
		if (event[i].action != want[i].action || event[i].addr != want[i].addr ||
		    event[i].size != want[i].size || event[i].heap != want[i].heap)
			fail_msg("event %zu is action %u, %#llx", i, event[i].action,
				 (unsigned long long)event[i].addr);
	assert_int_equal(got, wanted);
}

#define CHECK(made, want) \
	check(made, sizeof(made) / sizeof(*(made)), want, sizeof(want) / sizeof(*(want)))

CM_TEST(a_span_completes_its_heaps_frees_from_the_newest_on)
{
	static const struct made made[] = {
		{FREE, 0, 0xa0, 1}, {FREE, 1, 0xb0, 2}, {FREE, 0, 0xc0, 3}, {FREE, 0, 0xd0, 4},
		{ALL, 0, 103, 0},   {ALL, 1, 102, 0},   {ALL, 0, 104, 0},
	};
	static const struct made want[] = {
		{FREE, 0, 0xa0, 1}, {FREE, 1, 0xb0, 2}, {FREE, 0, 0xc0, 3}, {FREE, 0, 0xd0, 4},
		{DONE, 0, 0xc0, 3}, {DONE, 0, 0xa0, 1}, {DONE, 1, 0xb0, 2}, {DONE, 0, 0xd0, 4},
	};

	CHECK(made, want);
}

CM_TEST(a_completion_is_of_its_free_and_of_its_moment)
{
	static const struct made made[] = {
		{FREE, 3, 0xa0, 1}, {FREE, 3, 0xb0, 2}, {ALL, 3, 102, 101}};
	struct cm_event event[2 * MANY];

	assert_int_equal(derive(made, 3, event), 3);
	assert_int_equal(event[2].action, DONE);
	assert_int_equal(event[2].number, 903);
	assert_int_equal(event[2].tick, 1002);
	assert_int_equal(event[2].thread, 2);
	assert_int_equal(event[2].annotation, 2);
	assert_int_equal(event[2].addr, 0xb0);
	assert_int_equal(event[2].size, 2);
	assert_int_equal(event[2].stack, 7);
	assert_int_equal(event[2].pool, CM_POOL_LARGE);
	assert_int_equal(event[2].heap, 3);
}

CM_TEST(what_the_ring_has_lost_is_passed_over)
{
	static const struct made made[] = {
		{ALL, 0, 100, 90}, {FREE, 0, 0xa0, 1}, {ALL, 0, 102, 95}};
	static const struct made want[] = {{FREE, 0, 0xa0, 1}, {DONE, 0, 0xa0, 1}};

	CHECK(made, want);
}

/* The second allocation shows that the free before it was completed; its own event is lost. */
CM_TEST(an_address_that_is_in_use_again_was_completed)
{
	static const struct made made[] = {{FREE, 0, 0xa0, 1},
					   {FREE, 0, 0xb0, 1},
					   {ALLOC, 0, 0xa0, 2},
					   {FREE, 0, 0xb0, 3},
					   {ALL, 0, 104, 0}};
	static const struct made want[] = {
		{FREE, 0, 0xa0, 1}, {FREE, 0, 0xb0, 1}, {DONE, 0, 0xa0, 1}, {ALLOC, 0, 0xa0, 2},
		{DONE, 0, 0xb0, 1}, {FREE, 0, 0xb0, 3}, {DONE, 0, 0xb0, 3}};

	CHECK(made, want);
}

CM_TEST(an_event_for_one_block_is_left_as_it_is)
{
	static const struct made made[] = {
		{FREE, 0, 0xa0, 1}, {FREE, 0, 0xb0, 1}, {DONE, 0, 0xb0, 1}, {ALL, 0, 102, 0}};
	static const struct made want[] = {
		{FREE, 0, 0xa0, 1}, {FREE, 0, 0xb0, 1}, {DONE, 0, 0xb0, 1}, {DONE, 0, 0xa0, 1}};
	static const struct made old[] = {
		{DONE, 0, 0x90, 1}, {FREE, 0, 0xa0, 1}, {ALLOC, 0, 0xa0, 1}};

	CHECK(made, want);
	/* Without any event for several, nothing is changed. */
	CHECK(old, old);
}

CM_TEST(damaged_spans_complete_what_is_there_once)
{
	static const struct made made[] = {{ALL, 9, UINT64_MAX, 0}, {FREE, 0, 0xa0, 1},
					   {ALL, 0, 0, UINT64_MAX}, {ALL, 0, 102, 102},
					   {ALL, 0, 50, 200},       {ALL, 255, 102, 0},
					   {ALL, 0, UINT64_MAX, 0}, {ALL, 0, UINT64_MAX, 0}};
	static const struct made want[] = {{FREE, 0, 0xa0, 1}, {DONE, 0, 0xa0, 1}};

	CHECK(made, want);
}

/* Addresses that differ in one bit, in few, and in all. */
CM_TEST(events_of_blocks_are_ordered_by_any_address)
{
	static const uint64_t masks[] = {0,         1, UINT64_C(1) << 63, 0xff00, 0x7fff00000e00,
					 UINT64_MAX};
	enum { EVENTS = 500 };
	struct cm_event event[EVENTS];
	uint32_t order[EVENTS], scratch[EVENTS];
	uint64_t random = 1;
	size_t m, i, n;

	for (m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
		for (i = 0; i < EVENTS; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			event[i] = (struct cm_event){.addr = (random ^ random >> 29) & masks[m],
						     .action = i % 5 ? ALLOC : CM_ACTION_OOM};
		}
		n = cm_events_order_by_address(event, EVENTS, order, scratch);
		assert_int_equal(n, EVENTS / 5 * 4);
		for (i = 1; i < n; i++)
			assert_true(event[order[i - 1]].addr < event[order[i]].addr ||
				    (event[order[i - 1]].addr == event[order[i]].addr &&
				     order[i - 1] < order[i]));
	}
	assert_int_equal(cm_events_order_by_address(event, 0, order, scratch), 0);
}
