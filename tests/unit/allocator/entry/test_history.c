/* SPDX-License-Identifier: MIT */
/* The rings of events: order, on and off, emptied, and what an event says of whom it comes from. */
#include <errno.h>

#include "allocator/base/thread.h"
#include "allocator/state/state.h"
#include "stats/region.h"
#include "tests/unit/fixture_case.h"

static bool no_space;

int __real_cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows);
int __wrap_cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows);

int __wrap_cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows)
{
	if (no_space && (table == CM_TABLE_EVENT || table == CM_TABLE_HOST_EVENT))
		return -ENOSPC;
	return __real_cm_region_commit(public, table, rows);
}

static struct cm_device_row counters(struct fixture *f)
{
	struct cm_device_row row = {0};

	assert_int_equal(cm_cache_read_device(f->cache, 0, &row), 0);
	return row;
}

static struct cm_host_row host(struct fixture *f)
{
	struct cm_host_row row;

	cm_cache_read_host(f->cache, &row);
	return row;
}

static const struct cm_event *event_at(struct fixture *f, enum cm_table table, uint64_t number)
{
	const uint32_t ring = f->region->header->table[table].ring;

	return cm_region_row(f->region, table, (uint32_t)((number - 1) % ring));
}

static uint64_t get_pinned(struct fixture *f)
{
	uint64_t addr = 0;

	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 5000, &addr), 0);
	return addr;
}

static void put_pinned(struct fixture *f, uint64_t addr)
{
	uint64_t forward;

	assert_int_equal(cm_cache_host_free(f->cache, addr, &forward), 0);
}

static uint64_t recorded; /* devices, since the last call */

static int record(struct fixture *f, uint64_t devices, bool on)
{
	return cm_cache_record_events(f->cache, devices, on, &recorded);
}

fixture_case(recording_stops_and_goes_on)
{
	struct fixture *f = *state;
	uint64_t count;

	case_put(f, case_get(f, 100));
	put_pinned(f, get_pinned(f));
	count = counters(f).event_next;
	assert_true(count >= 3);
	assert_int_equal(host(f).event_next, 3);
	assert_int_equal(record(f, CM_ALL_DEVICES, false), 0);
	case_put(f, case_get(f, 100));
	put_pinned(f, get_pinned(f));
	/* What is not written has no number: nothing was lost. */
	assert_int_equal(counters(f).event_next, count);
	assert_int_equal(host(f).event_next, 3);
	assert_int_equal(record(f, CM_ALL_DEVICES, true), 0);
	(void)case_get(f, 100);
	assert_int_equal(event_at(f, CM_TABLE_EVENT, count + 1)->number, count + 1);
	(void)get_pinned(f);
	assert_true(host(f).event_next > 3);
}

CM_TEST(recording_can_begin_late)
{
	struct fixture *f = case_open(&(struct fixture_params){.events = 0});

	(void)case_get(f, 100);
	assert_int_equal(counters(f).event_next, 0);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].rows, 0);
	assert_int_equal(record(f, CM_ALL_DEVICES, true), 0);
	(void)case_get(f, 100);
	assert_int_equal(counters(f).event_next, 1);
	assert_int_equal(event_at(f, CM_TABLE_EVENT, 1)->action, CM_ACTION_ALLOC);
	case_close(f);
}

/* A device that appears while recording is off has no ring until it is on. */
fixture_case(devices_that_come_later_follow_the_switch)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	struct cm_heap *heap;
	uint64_t addr;

	assert_int_equal(record(f, CM_ALL_DEVICES, false), 0);
	assert_true(fixture_add_context(f, 1, &heap) != 0);
	assert_int_equal(fixture_alloc(f, heap, 100, &addr), 0);
	assert_int_equal(cm_cache_read_device(f->cache, 1, &row), 0);
	assert_int_equal(row.event_next, 0);
	assert_int_equal(record(f, CM_ALL_DEVICES, true), 0);
	assert_int_equal(fixture_alloc(f, heap, 100, &addr), 0);
	assert_int_equal(cm_cache_read_device(f->cache, 1, &row), 0);
	assert_int_equal(row.event_next, 1);
}

static uint64_t count_events(struct fixture *f, uint32_t device)
{
	struct cm_device_row row;

	assert_int_equal(cm_cache_read_device(f->cache, device, &row), 0);
	return row.event_next - row.event_cleared;
}

/* What is said of one device leaves the other, and pinned memory, as they were. */
fixture_case(devices_are_recorded_one_by_one)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr, first, pinned;

	assert_true(fixture_add_context(f, 1, &heap) != 0);
	assert_int_equal(record(f, CM_ALL_DEVICES, false), 0);
	assert_int_equal(recorded, 0);
	assert_int_equal(record(f, 1u << 1, true), 0);
	assert_int_equal(recorded, 1u << 1);
	first = count_events(f, 0);
	pinned = host(f).event_next;
	(void)case_get(f, 100);
	(void)get_pinned(f);
	assert_int_equal(fixture_alloc(f, heap, 100, &addr), 0);
	assert_int_equal(count_events(f, 0), first);
	assert_int_equal(host(f).event_next, pinned);
	assert_true(count_events(f, 1) > 0);
	assert_int_equal(record(f, CM_ALL_DEVICES, true), 0);
	assert_int_equal(recorded, CM_ALL_DEVICES);
	assert_int_equal(record(f, 1u << 1, false), 0);
	assert_int_equal(recorded, CM_ALL_DEVICES & ~(UINT64_C(1) << 1));
	cm_cache_clear_events(f->cache, 1u << 1);
	assert_int_equal(count_events(f, 1), 0);
	(void)case_get(f, 100);
	(void)get_pinned(f);
	assert_int_equal(fixture_alloc(f, heap, 100, &addr), 0);
	assert_int_equal(count_events(f, 1), 0);
	assert_true(count_events(f, 0) > first);
	assert_true(host(f).event_next > pinned);
}

fixture_case(clearing_forgets_what_was_before)
{
	struct fixture *f = *state;
	struct cm_device_row row;

	case_put(f, case_get(f, 100));
	put_pinned(f, get_pinned(f));
	cm_cache_clear_events(f->cache, CM_ALL_DEVICES);
	row = counters(f);
	assert_int_equal(cm_event_first(row.event_next, row.event_cleared, 64, UINT64_MAX),
			 row.event_next + 1);
	assert_int_equal(host(f).event_cleared, host(f).event_next);
	(void)case_get(f, 100);
	row = counters(f);
	assert_true(row.event_cleared < row.event_next);
}

CM_TEST(a_ring_without_space_is_told_and_hurts_nobody)
{
	struct fixture *f = case_open(&(struct fixture_params){.events = 0});

	no_space = true;
	assert_int_equal(record(f, CM_ALL_DEVICES, true), -ENOSPC);
	(void)case_get(f, 100);
	assert_int_equal(counters(f).event_next, 0);
	no_space = false;
	assert_int_equal(record(f, CM_ALL_DEVICES, true), 0);
	case_close(f);
}

static void check_event(struct fixture *f, enum cm_table table, uint64_t number,
			enum cm_action action, uint32_t stack, uint32_t annotation)
{
	const struct cm_event *event = event_at(f, table, number);

	if (event->number != number || event->action != action || event->stack != stack ||
	    event->annotation != annotation)
		fail_msg("event %llu is number %llu, action %u, stack %u, annotation %u",
			 (unsigned long long)number, (unsigned long long)event->number,
			 event->action, event->stack, event->annotation);
}

/* With the stacks of allocations alone: a free bears that of its allocation. */
fixture_case(events_bear_the_stack_of_the_request)
{
	struct fixture *f = *state;
	uint64_t addr, pinned;

	cm_thread.stack = 77;
	cm_thread.annotation = 5;
	addr = case_get(f, 100);
	pinned = get_pinned(f);
	cm_thread.stack = cm_thread.annotation = 0;
	case_put(f, addr);
	put_pinned(f, pinned);
	case_settle(f);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	check_event(f, CM_TABLE_EVENT, 1, CM_ACTION_SEGMENT_ALLOC, 77, 5);
	check_event(f, CM_TABLE_EVENT, 2, CM_ACTION_ALLOC, 77, 5);
	check_event(f, CM_TABLE_EVENT, 3, CM_ACTION_FREE_REQUESTED, 77, 0);
	check_event(f, CM_TABLE_EVENT, 4, CM_ACTION_FREES_COMPLETED, 0, 0);
	check_event(f, CM_TABLE_EVENT, 5, CM_ACTION_SEGMENT_FREE, 0, 0);
	check_event(f, CM_TABLE_HOST_EVENT, 1, CM_ACTION_SEGMENT_ALLOC, 77, 5);
	check_event(f, CM_TABLE_HOST_EVENT, 2, CM_ACTION_ALLOC, 77, 5);
	check_event(f, CM_TABLE_HOST_EVENT, 3, CM_ACTION_FREE_REQUESTED, 77, 0);
	check_event(f, CM_TABLE_HOST_EVENT, 4, CM_ACTION_FREE_COMPLETED, 77, 0);
}

fixture_case(a_free_with_a_stack_bears_its_own)
{
	struct fixture *f = *state;
	uint64_t addr, pinned;

	cm_thread.stack = 77;
	addr = case_get(f, 100);
	pinned = get_pinned(f);
	cm_thread.stack = 88;
	case_put(f, addr);
	put_pinned(f, pinned);
	cm_thread.stack = 0;
	case_settle(f);
	check_event(f, CM_TABLE_EVENT, 3, CM_ACTION_FREE_REQUESTED, 88, 0);
	check_event(f, CM_TABLE_EVENT, 4, CM_ACTION_FREES_COMPLETED, 0, 0);
	check_event(f, CM_TABLE_HOST_EVENT, 3, CM_ACTION_FREE_REQUESTED, 88, 0);
	check_event(f, CM_TABLE_HOST_EVENT, 4, CM_ACTION_FREE_COMPLETED, 88, 0);
}

/* Rows that a reader finds: of what is in use, and of what waits. */
fixture_case(rows_bear_their_stacks)
{
	struct fixture *f = *state;
	const struct cm_segment *segment;
	const struct cm_block *block;
	uint64_t addr;

	cm_thread.stack = 77;
	addr = case_get(f, 100);
	segment = cm_region_row(f->region, CM_TABLE_SEGMENT, 1);
	block = cm_region_row(f->region, CM_TABLE_BLOCK, segment->first);
	assert_true(block->addr == addr && block->stack == 77);
	assert_int_equal(segment->stack, 77);
	cm_thread.stack = 88;
	case_put(f, addr);
	cm_thread.stack = 0;
	assert_int_equal(block->state, CM_BLOCK_PENDING);
	assert_int_equal(block->stack, 77);
	assert_int_equal(block->free_stack, 88);
	/* The next one to have it was not recorded. */
	case_settle(f);
	assert_int_equal(case_get(f, 100), addr);
	assert_int_equal(block->stack, 0);
}

/* Of pinned memory, before there is any: what was wanted, and from where. */
CM_TEST(a_failed_request_for_pinned_memory_is_an_event)
{
	struct fixture *f = case_open(
		&(struct fixture_params){.events = 64, .limit_bytes = 64 * MIB});
	uint64_t addr = 77;

	cm_thread.stack = 99;
	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 65 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	cm_thread.stack = 0;
	assert_int_equal(addr, 77);
	assert_int_equal(host(f).event_next, 1);
	check_event(f, CM_TABLE_HOST_EVENT, 1, CM_ACTION_OOM, 99, 0);
	assert_true(event_at(f, CM_TABLE_HOST_EVENT, 1)->size == 65 * MIB);
	assert_true(event_at(f, CM_TABLE_HOST_EVENT, 1)->addr == CM_FREE_UNKNOWN);
	case_close(f);
}

struct expected {
	enum cm_action action;
	uint64_t addr;
	uint64_t size;
};

static void assert_events(struct fixture *f, const struct expected *expected, uint64_t count)
{
	const struct cm_device *device = f->heap->device;
	uint64_t i;

	assert_int_equal(device->row->event_next, count);
	for (i = 0; i < count; i++) {
		const struct cm_event *event = &device->ring.row[i & device->ring.mask];

		if (event->number != i + 1 || event->action != expected[i].action ||
		    event->addr != expected[i].addr || event->size != expected[i].size)
			fail_msg("event %llu is number %llu, action %u, %#llx, %llu",
				 (unsigned long long)i, (unsigned long long)event->number,
				 event->action, (unsigned long long)event->addr,
				 (unsigned long long)event->size);
	}
}

fixture_case(the_events_of_a_block_come_in_pytorchs_order)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 700), other = case_get(f, 100);
	const struct expected expected[] = {
		{CM_ACTION_SEGMENT_ALLOC, addr, 2 * MIB},
		{CM_ACTION_ALLOC, addr, 700},
		{CM_ACTION_ALLOC, other, 100},
		{CM_ACTION_FREE_REQUESTED, addr, 700},
		{CM_ACTION_FREE_REQUESTED, other, 100},
		/* Both at one moment: those up to number 5. */
		{CM_ACTION_FREES_COMPLETED, 5, 0},
		{CM_ACTION_SEGMENT_FREE, addr, 2 * MIB},
	};

	case_put(f, addr);
	case_put(f, other);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_events(f, expected, 7);
}

fixture_case(a_full_ring_keeps_the_youngest_events)
{
	struct fixture *f = *state;
	const struct cm_device *device = f->heap->device;
	uint64_t number;
	int i;

	for (i = 0; i < 50; i++)
		case_put(f, case_get(f, 100));
	assert_true(device->row->event_next > 100);
	assert_int_equal(device->ring.mask, 63);
	for (number = device->row->event_next - 63; number <= device->row->event_next; number++)
		assert_int_equal(device->ring.row[(number - 1) & 63].number, number);
}
