/* SPDX-License-Identifier: MIT */
#include "allocator/pinned.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/size_class.h"
#include "stats/region.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/fixture.h"

#define MS UINT64_C(1000000)

static struct fixture fixture;

static void open_with(const struct fixture_params *params)
{
	assert_true(fixture_open(&fixture, params));
}

static void open_plain(void)
{
	open_with(&(struct fixture_params){.events = 64});
}

static void close_well(void)
{
	const char *complaint = fixture_complaint(&fixture);

	if (complaint)
		fail_msg("%s", complaint);
	fixture_close(&fixture);
}

/* A block, past the referee; 0 where there is none. */
static uint64_t get_of(struct cm_heap *heap, uint64_t ctx, uint32_t kind, uint64_t bytes)
{
	uint64_t addr = 0;

	if (cm_cache_host_alloc(fixture.cache, heap, kind, bytes, &addr))
		return 0;
	fake_hand_out(ctx, addr, bytes);
	return addr;
}

static uint64_t get_kind(uint32_t kind, uint64_t bytes)
{
	return get_of(fixture.heap, fixture.ctx, kind, bytes);
}

static uint64_t get(uint64_t bytes)
{
	return get_kind(0, bytes);
}

static int put(uint64_t addr)
{
	uint64_t forward = 0;

	return cm_cache_host_free(fixture.cache, addr, &forward);
}

static struct cm_host_row host(void)
{
	struct cm_host_row row;

	cm_cache_read_host(fixture.cache, &row);
	return row;
}

static uint64_t called(enum fake_call call)
{
	return fixture.driver.called[call];
}

static void classes_waste_no_more_than_an_eighth(void **state)
{
	uint32_t class, last = 0;
	uint64_t bytes, size;

	(void)state;
	for (bytes = 1; bytes <= CM_PINNED_MAX; bytes += bytes < 100000 ? 1 : bytes / 97) {
		class = cm_pinned_class(bytes);
		size = cm_pinned_class_bytes(class);
		assert_true(class < CM_PINNED_CLASSES);
		assert_true(class >= last);
		assert_true(size >= bytes && size % CM_GRAIN == 0);
		assert_true(size - bytes < CM_GRAIN || (size - bytes) * 8 <= bytes);
		assert_int_equal(cm_pinned_class(size), class);
		last = class;
	}
	assert_int_equal(cm_pinned_class(CM_PINNED_MAX), CM_PINNED_CLASSES - 1);
	assert_int_equal(cm_pinned_class_bytes(CM_PINNED_CLASSES - 1), CM_PINNED_MAX);
}

static void request_gets_its_class_and_no_power_of_two(void **state)
{
	uint64_t addr;

	(void)state;
	open_plain();
	addr = get(20 * MIB + 1);
	assert_int_equal(fake_memory_of(addr).bytes, 22 * MIB);
	assert_int_equal(fake_memory_of(addr).addr, addr);
	close_well();
}

static void odd_requests_are_passed_on(void **state)
{
	uint64_t addr = 77, calls;

	(void)state;
	open_plain();
	calls = fixture.driver.calls;
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, 0, &addr), -EINVAL);
	assert_int_equal(
		cm_cache_host_alloc(fixture.cache, fixture.heap, 0, CM_PINNED_MAX + 1, &addr),
		-EINVAL);
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, CM_HOST_KINDS, 1, &addr),
			 -EINVAL);
	assert_int_equal(addr, 77);
	assert_int_equal(fixture.driver.calls, calls);
	close_well();
}

static void freed_block_is_reused(void **state)
{
	uint64_t addr;

	(void)state;
	open_plain();
	addr = get(MIB);
	assert_int_equal(put(addr), 0);
	assert_int_equal(get(MIB), addr);
	assert_int_equal(called(FAKE_HOST_ALLOC), 1);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	close_well();
}

static void ready_block_is_handed_out_without_a_driver_call(void **state)
{
	uint64_t addr, calls;

	(void)state;
	open_plain();
	addr = get(MIB);
	assert_int_equal(put(addr), 0);
	cm_cache_poll(fixture.cache);
	calls = fixture.driver.calls;
	assert_int_equal(get(MIB), addr);
	assert_int_equal(put(addr), 0);
	assert_int_equal(fixture.driver.calls, calls);
	close_well();
}

static void block_waits_for_work_of_its_context(void **state)
{
	uint64_t addr, work;

	(void)state;
	open_plain();
	addr = get(MIB);
	work = fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, FAKE_FOREVER);
	assert_int_equal(put(addr), 0);
	assert_int_not_equal(get(MIB), addr);
	fake_finish(work);
	assert_int_equal(get(MIB), addr);
	assert_int_equal(called(FAKE_CTX_WAIT_EVENT), 0);
	close_well();
}

static void block_waits_for_work_of_every_context(void **state)
{
	struct cm_heap *heap;
	uint64_t ctx, addr, work;

	(void)state;
	open_plain();
	ctx = fixture_add_context(&fixture, 1, &heap);
	addr = get(MIB);
	work = fixture_launch(&fixture, ctx, 1, addr, MIB, FAKE_FOREVER);
	assert_int_equal(put(addr), 0);
	assert_int_not_equal(get(MIB), addr);
	fake_finish(work);
	assert_int_equal(get(MIB), addr);
	close_well();
}

static void work_submitted_later_holds_back_no_block(void **state)
{
	uint64_t addr, other, work;

	(void)state;
	open_plain();
	addr = get(MIB);
	other = get(4 * MIB);
	assert_int_equal(put(addr), 0);
	work = fixture_launch(&fixture, fixture.ctx, 1, other, MIB, FAKE_FOREVER);
	assert_int_equal(get(MIB), addr);
	fake_finish(work);
	close_well();
}

static void kinds_and_contexts_are_kept_apart(void **state)
{
	struct cm_heap *heap;
	uint64_t addr[CM_HOST_KINDS], ctx, other;
	uint32_t kind;

	(void)state;
	open_plain();
	ctx = fixture_add_context(&fixture, 0, &heap);
	for (kind = 0; kind < CM_HOST_KINDS; kind++)
		addr[kind] = get_kind(kind, 4096);
	for (kind = 0; kind < CM_HOST_KINDS; kind++)
		assert_int_equal(put(addr[kind]), 0);
	other = get_of(heap, ctx, 0, 4096);
	assert_int_not_equal(other, addr[0]);
	assert_int_equal(fake_memory_of(other).ctx, ctx);
	for (kind = CM_HOST_KINDS; kind-- > 0;) {
		assert_int_equal(get_kind(kind, 4096), addr[kind]);
		assert_int_equal(fake_memory_of(addr[kind]).kind, kind);
	}
	close_well();
}

static void free_of_what_is_no_block_in_use_is_refused(void **state)
{
	uint64_t addr, forward;

	(void)state;
	open_plain();
	addr = get(8192);
	forward = 0;
	assert_int_equal(cm_cache_host_free(fixture.cache, addr + 64, &forward), -ENOENT);
	assert_int_equal(cm_cache_host_free(fixture.cache, 4096, &forward), -ENOENT);
	assert_int_equal(cm_cache_host_free(fixture.cache, 0, &forward), -ENOENT);
	assert_int_equal(forward, 0);
	assert_int_equal(put(addr), 0);
	assert_int_equal(cm_cache_host_free(fixture.cache, addr, &forward), -EFAULT);
	assert_int_not_equal(forward, addr);
	cm_cache_poll(fixture.cache);
	assert_int_equal(cm_cache_host_free(fixture.cache, addr, &forward), -EFAULT);
	assert_int_not_equal(forward, addr);
	assert_int_equal(fake_memory_of(forward).addr, addr);
	close_well();
}

static void books_tell_every_state(void **state)
{
	struct cm_host_row row;
	uint64_t addr, work;

	(void)state;
	open_plain();
	addr = get(MIB - 5);
	work = fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, FAKE_FOREVER);
	row = host();
	assert_int_equal(row.allocated.current, 1);
	assert_int_equal(row.allocated_bytes.current, MIB);
	assert_int_equal(row.active_bytes.current, MIB);
	assert_int_equal(row.segment.current, 1);
	assert_int_equal(row.reserved_bytes.current, MIB);
	assert_int_equal(row.num_host_alloc, 1);
	assert_int_equal(row.alloc_time.count, 1);
	assert_int_equal(row.alloc_time.total_ns, fixture.driver.call_ns);
	assert_int_equal(row.alloc_time.min_ns, fixture.driver.call_ns);
	assert_int_equal(put(addr), 0);
	row = host();
	assert_int_equal(row.allocated.current, 0);
	assert_int_equal(row.allocated.freed, 1);
	assert_int_equal(row.active.current, 1);
	assert_int_equal(row.active_bytes.current, MIB);
	fake_finish(work);
	cm_cache_poll(fixture.cache);
	row = host();
	assert_int_equal(row.active.current, 0);
	assert_int_equal(row.reserved_bytes.current, MIB);
	assert_int_equal(get(MIB), addr);
	assert_int_equal(host().cache_hits, 1);
	assert_int_equal(put(addr), 0);
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, NULL), 0);
	row = host();
	assert_int_equal(row.segment.current, 0);
	assert_int_equal(row.reserved_bytes.current, 0);
	assert_int_equal(row.reserved_bytes.peak, MIB);
	assert_int_equal(row.num_host_free, 1);
	assert_int_equal(row.free_time.count, 1);
	assert_true(row.free_time.max_ns >= fixture.driver.call_ns);
	assert_int_equal(fixture_stat(&fixture, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak, 0);
	close_well();
}

static void resets_are_pytorchs(void **state)
{
	struct cm_host_row row;

	(void)state;
	open_plain();
	assert_int_equal(put(get(MIB)), 0);
	(void)get(4096);
	cm_cache_host_reset_peak(fixture.cache);
	row = host();
	assert_int_equal(row.allocated_bytes.peak, 4096);
	assert_int_equal(row.alloc_time.max_ns, 0);
	assert_int_equal(row.alloc_time.count, 2);
	(void)get(4096);
	assert_int_equal(host().alloc_time.min_ns, fixture.driver.call_ns);
	cm_cache_host_reset_accumulated(fixture.cache);
	row = host();
	assert_int_equal(row.allocated.current, 2);
	assert_int_equal(row.allocated.allocated, 0);
	assert_int_equal(row.num_host_alloc, 0);
	assert_int_equal(row.alloc_time.count, 0);
	assert_int_equal(row.alloc_time.total_ns, 0);
	close_well();
}

static void idle_memory_is_bounded_by_what_is_in_use(void **state)
{
	uint64_t addr[32], big;
	uint32_t i;

	(void)state;
	open_plain();
	for (i = 0; i < 32; i++)
		addr[i] = get(64 * MIB);
	for (i = 0; i < 32; i++) {
		struct cm_host_row row;

		assert_int_equal(put(addr[i]), 0);
		row = host();
		assert_true(row.reserved_bytes.current - row.allocated_bytes.current <=
			    row.allocated_bytes.current + (int64_t)CM_PINNED_IDLE_BYTES);
		/* Nothing goes before it must: 18 idle blocks, and 14 in use beside the constant. */
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

static void device_that_lags_bounds_what_waits(void **state)
{
	uint64_t addr;
	uint32_t i;

	(void)state;
	open_plain();
	for (i = 0; i < 32; i++) {
		addr = get(64 * MIB);
		(void)fixture_launch(&fixture, fixture.ctx, 1, addr, MIB, 50 * MS);
		assert_int_equal(put(addr), 0);
		assert_true(host().reserved_bytes.current <= (int64_t)CM_PINNED_IDLE_BYTES);
	}
	close_well();
}

static void trim_returns_what_is_ready_and_leaves_what_is_not(void **state)
{
	uint64_t idle, busy, bytes = 0;

	(void)state;
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

static void failure_for_memory_returns_idle_blocks_and_asks_again(void **state)
{
	uint64_t addr;

	(void)state;
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

static void last_try_asks_for_no_more_than_the_program(void **state)
{
	uint64_t addr, again;

	(void)state;
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

static void out_of_memory_is_the_drivers_own(void **state)
{
	uint64_t addr = 77;

	(void)state;
	open_with(&(struct fixture_params){.limit_bytes = 10 * MIB});
	assert_int_equal(cm_cache_host_alloc(fixture.cache, fixture.heap, 0, 11 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(addr, 77);
	assert_int_equal(host().num_host_alloc, 0);
	close_well();
}

static void frees_wait_while_a_capture_is_active(void **state)
{
	uint64_t addr, fresh = 77, calls;

	(void)state;
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

static void destroyed_context_takes_its_blocks_along(void **state)
{
	struct cm_heap *heap;
	uint64_t ctx, kept, live, waiting, ready, calls;
	uint32_t portable = CM_HOST_PORTABLE;

	(void)state;
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
	assert_int_equal(fixture.driver.calls, calls);
	assert_int_equal(host().segment.current, 1);
	assert_int_equal(host().num_host_free, 0);
	assert_int_equal(put(live), -ENOENT);
	/* Nothing of the dead context holds up the living. */
	assert_int_equal(get(MIB), kept);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	close_well();
}

static void forgetting_many_blocks_misses_none(void **state)
{
	struct cm_heap *heap;
	uint64_t ctx, addr;
	uint32_t i;

	(void)state;
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

static void stats_mode_passes_on_and_counts(void **state)
{
	struct cm_policy policy;
	uint64_t addr;

	(void)state;
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

static void sync_free_waits_for_every_context(void **state)
{
	struct cm_policy policy;
	uint64_t addr, work;

	(void)state;
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

static void old_driver_waits_at_reuse_and_not_at_free(void **state)
{
	uint64_t addr, work;

	(void)state;
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

static void broken_context_gets_nothing_from_the_cache(void **state)
{
	uint64_t addr, fresh = 77;

	(void)state;
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

static void registered_memory_is_counted_by_its_bytes(void **state)
{
	uint64_t pages = 0x1234567;
	struct cm_host_row row;

	(void)state;
	open_plain();
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 12345, 500);
	row = host();
	assert_int_equal(row.registered.current, 1);
	assert_int_equal(row.registered_bytes.current, 12345);
	assert_int_equal(row.num_host_alloc, 1);
	assert_int_equal(row.alloc_time.total_ns, 500);
	assert_int_equal(row.reserved_bytes.current, 0);
	assert_int_equal(put(pages), -ENOENT);
	/* Unmapped without a word, and registered anew. */
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 4096, 500);
	assert_int_equal(host().registered_bytes.current, 4096);
	cm_cache_host_remove_registered(fixture.cache, pages, 700);
	cm_cache_host_remove_registered(fixture.cache, pages, 700);
	cm_cache_host_remove_registered(fixture.cache, get(4096), 700);
	row = host();
	assert_int_equal(row.registered.current, 0);
	assert_int_equal(row.registered_bytes.current, 0);
	assert_int_equal(row.num_host_free, 1);
	assert_int_equal(row.free_time.total_ns, 700);
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 4096, 500);
	fixture_remove_context(&fixture, fixture.ctx);
	assert_int_equal(host().registered.current, 0);
	close_well();
}

static void events_go_to_the_hosts_ring(void **state)
{
	static const enum cm_action actions[] = {
		CM_ACTION_SEGMENT_ALLOC,  CM_ACTION_ALLOC,        CM_ACTION_FREE_REQUESTED,
		CM_ACTION_FREE_COMPLETED, CM_ACTION_SEGMENT_FREE,
	};
	const struct cm_event *event;
	uint64_t addr;
	uint32_t i;

	(void)state;
	open_plain();
	addr = get(5000);
	assert_int_equal(put(addr), 0);
	assert_int_equal(cm_cache_trim(fixture.cache, UINT32_MAX, NULL), 0);
	assert_int_equal(host().event_next, 5);
	for (i = 0; i < 5; i++) {
		event = cm_region_row(fixture.region, CM_TABLE_HOST_EVENT, i);
		assert_int_equal(event->number, i + 1);
		assert_int_equal(event->action, actions[i]);
		assert_int_equal(event->addr, addr);
		assert_int_equal(event->pool, CM_POOL_SMALL);
	}
	close_well();
}

/* What a program does with pinned memory, with what the driver may do to it. */
static void run_program(uint64_t seed)
{
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15), addr[24] = {0}, bytes[24] = {0};
	struct cm_heap *heap[2];
	uint64_t ctx[2];
	const char *complaint;
	uint32_t i, at, which;

	open_with(&(struct fixture_params){.limit_bytes = 512 * MIB, .old_driver = seed % 8 == 0});
	ctx[0] = fixture.ctx;
	heap[0] = fixture.heap;
	ctx[1] = fixture_add_context(&fixture, 1, &heap[1]);
	for (i = 0; i < 400; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		at = (uint32_t)(random >> 8) % 24;
		which = (uint32_t)(random >> 16) % 2;
		switch (random % 8) {
		case 0:
		case 1:
		case 2:
			if (addr[at] || fixture.driver.capturing)
				break;
			bytes[at] = 1 + (random >> 20) % (UINT64_C(1) << (random >> 50) % 29);
			addr[at] = get_of(heap[which], ctx[which],
					  (uint32_t)(random >> 40) % CM_HOST_KINDS, bytes[at]);
			break;
		case 3:
		case 4:
			if (addr[at])
				assert_int_equal(put(addr[at]), 0);
			addr[at] = 0;
			break;
		case 5:
			if (addr[at])
				(void)fixture_launch(&fixture, ctx[which], random >> 60, addr[at],
						     bytes[at], (random >> 30) % (20 * MS));
			break;
		case 6:
			fake_advance((random >> 30) % (10 * MS));
			if (random >> 61 == 0)
				fake_capture(!fixture.driver.capturing);
			break;
		default:
			if (random >> 60 == 0)
				(void)cm_cache_trim(fixture.cache, UINT32_MAX, NULL);
			else
				cm_cache_poll(fixture.cache);
		}
		complaint = fixture_complaint(&fixture);
		if (complaint)
			fail_msg("seed %llu, step %u: %s", (unsigned long long)seed, i, complaint);
	}
	fake_capture(false);
	close_well();
}

static void random_programs_keep_every_invariant(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 20; seed++)
		run_program(seed);
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

static void books_balance_whichever_call_fails(void **state)
{
	static const int codes[] = {CM_DRIVER_OUT_OF_MEMORY, FAKE_STICKY_ERROR};
	const char *complaint;
	uint64_t n = 1;
	size_t c;
	bool failed;

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_waste_no_more_than_an_eighth),
		cmocka_unit_test(request_gets_its_class_and_no_power_of_two),
		cmocka_unit_test(odd_requests_are_passed_on),
		cmocka_unit_test(freed_block_is_reused),
		cmocka_unit_test(ready_block_is_handed_out_without_a_driver_call),
		cmocka_unit_test(block_waits_for_work_of_its_context),
		cmocka_unit_test(block_waits_for_work_of_every_context),
		cmocka_unit_test(work_submitted_later_holds_back_no_block),
		cmocka_unit_test(kinds_and_contexts_are_kept_apart),
		cmocka_unit_test(free_of_what_is_no_block_in_use_is_refused),
		cmocka_unit_test(books_tell_every_state),
		cmocka_unit_test(resets_are_pytorchs),
		cmocka_unit_test(idle_memory_is_bounded_by_what_is_in_use),
		cmocka_unit_test(device_that_lags_bounds_what_waits),
		cmocka_unit_test(trim_returns_what_is_ready_and_leaves_what_is_not),
		cmocka_unit_test(failure_for_memory_returns_idle_blocks_and_asks_again),
		cmocka_unit_test(last_try_asks_for_no_more_than_the_program),
		cmocka_unit_test(out_of_memory_is_the_drivers_own),
		cmocka_unit_test(frees_wait_while_a_capture_is_active),
		cmocka_unit_test(destroyed_context_takes_its_blocks_along),
		cmocka_unit_test(forgetting_many_blocks_misses_none),
		cmocka_unit_test(stats_mode_passes_on_and_counts),
		cmocka_unit_test(sync_free_waits_for_every_context),
		cmocka_unit_test(old_driver_waits_at_reuse_and_not_at_free),
		cmocka_unit_test(broken_context_gets_nothing_from_the_cache),
		cmocka_unit_test(registered_memory_is_counted_by_its_bytes),
		cmocka_unit_test(events_go_to_the_hosts_ring),
		cmocka_unit_test(random_programs_keep_every_invariant),
		cmocka_unit_test(books_balance_whichever_call_fails),
	};

	return cmocka_run_group_tests_name("pinned", tests, NULL, NULL);
}
