/* SPDX-License-Identifier: MIT */
/* Blocks of pinned memory: their sizes, when they are allocated again, what the counters tell. */
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/state/suspended.h"
#include "stats/region.h"
#include "tests/unit/pinned_case.h"

CM_TEST(classes_waste_no_more_than_an_eighth)
{
	uint32_t class, last = 0;
	uint64_t bytes, size;

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

CM_TEST(request_gets_its_class_and_no_power_of_two)
{
	uint64_t addr;

	open_plain();
	addr = get(20 * MIB + 1);
	assert_int_equal(fake_memory_of(addr).bytes, 22 * MIB);
	assert_int_equal(fake_memory_of(addr).addr, addr);
	close_well();
}

CM_TEST(odd_requests_are_passed_on)
{
	uint64_t addr = 77, calls;

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

CM_TEST(freed_block_is_reused)
{
	uint64_t addr;

	open_plain();
	addr = get(MIB);
	assert_int_equal(put(addr), 0);
	assert_int_equal(get(MIB), addr);
	assert_int_equal(called(FAKE_HOST_ALLOC), 1);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	close_well();
}

CM_TEST(ready_block_is_allocated_without_a_driver_call)
{
	uint64_t addr, calls;

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

CM_TEST(block_once_shown_is_never_allocated_again)
{
	uint64_t addr, kept;

	open_plain();
	kept = get(MIB);
	addr = get(MIB);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, addr + MIB - 1), 0);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, 4096), -ENOENT);
	assert_int_equal(put(addr), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 1);
	assert_int_equal(put(kept), 0);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, kept + 1), -EFAULT);
	assert_int_equal(get(MIB), kept);
	close_well();
}

CM_TEST(block_once_shown_returns_alone)
{
	uint64_t idle, addr;

	open_plain();
	idle = get(MIB);
	addr = get(MIB);
	assert_int_equal(put(idle), 0);
	cm_cache_poll(fixture.cache);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, addr), 0);
	assert_int_equal(put(addr), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 1);
	assert_int_equal(get(MIB), idle);
	assert_int_equal(called(FAKE_HOST_ALLOC), 2);
	close_well();
}

/* One that is shown and freed during a capture goes with the next. */
CM_TEST(blocks_once_shown_return_after_a_capture)
{
	uint64_t addr[3];
	int i;

	open_plain();
	for (i = 0; i < 3; i++)
		addr[i] = get(MIB);
	for (i = 1; i < 3; i++)
		assert_int_equal(cm_cache_host_mark_exported(fixture.cache, addr[i]), 0);
	fake_capture(true);
	assert_int_equal(put(addr[0]), 0);
	assert_int_equal(put(addr[1]), 0);
	fake_capture(false);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	assert_int_equal(put(addr[2]), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 2);
	assert_int_equal(get(MIB), addr[0]);
	close_well();
}

/* One whose context may be ending stays, and holds up no other. */
CM_TEST(block_once_shown_returns_beside_one_that_may_not)
{
	struct cm_heap *other;
	uint64_t ctx, stays, goes;

	open_plain();
	ctx = fixture_add_context(&fixture, 0, &other);
	stays = get(MIB);
	goes = get_of(other, ctx, 0, MIB);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, stays), 0);
	assert_int_equal(cm_cache_host_mark_exported(fixture.cache, goes), 0);
	cm_cache_lock_contexts(fixture.cache);
	assert_ptr_equal(cm_cache_suspend_heap(fixture.cache, fixture.ctx), fixture.heap);
	cm_cache_unlock_contexts(fixture.cache);
	assert_int_equal(put(stays), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	assert_int_equal(put(goes), 0);
	assert_int_equal(called(FAKE_HOST_FREE), 1);
	fixture_remove_context(&fixture, fixture.ctx);
	close_well();
}

CM_TEST(block_waits_for_work_of_its_context)
{
	uint64_t addr, work;

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

CM_TEST(block_waits_for_work_of_every_context)
{
	struct cm_heap *heap;
	uint64_t ctx, addr, work;

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

CM_TEST(work_submitted_later_holds_back_no_block)
{
	uint64_t addr, other, work;

	open_plain();
	addr = get(MIB);
	other = get(4 * MIB);
	assert_int_equal(put(addr), 0);
	work = fixture_launch(&fixture, fixture.ctx, 1, other, MIB, FAKE_FOREVER);
	assert_int_equal(get(MIB), addr);
	fake_finish(work);
	close_well();
}

CM_TEST(kinds_and_contexts_are_kept_apart)
{
	struct cm_heap *heap;
	uint64_t addr[CM_HOST_KINDS], ctx, other;
	uint32_t kind;

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

CM_TEST(free_of_what_is_no_block_in_use_is_refused)
{
	uint64_t addr, forward;

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

CM_TEST(counters_tell_every_state)
{
	struct cm_host_row row;
	uint64_t addr, work;

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

CM_TEST(resets_are_pytorchs)
{
	struct cm_host_row row;

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

/* As the hook does it. */
static void unregister(uint64_t addr)
{
	const uint64_t which = cm_cache_host_find_registered(fixture.cache, addr);

	cm_cache_host_remove_registered(fixture.cache, addr, which, 700);
}

CM_TEST(registered_memory_is_counted_by_its_bytes)
{
	uint64_t pages = 0x1234567;
	struct cm_host_row row;

	open_plain();
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 12345, 500);
	row = host();
	assert_int_equal(row.registered.current, 1);
	assert_int_equal(row.registered_bytes.current, 12345);
	assert_int_equal(row.num_host_alloc, 1);
	assert_int_equal(row.alloc_time.total_ns, 500);
	assert_int_equal(row.reserved_bytes.current, 0);
	assert_int_equal(put(pages), -ENOENT);
	/* Unmapped without a call of CUDA, and registered again. */
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 4096, 500);
	assert_int_equal(host().registered_bytes.current, 4096);
	unregister(pages);
	unregister(pages);
	unregister(get(4096));
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

/* The driver has ended the first registration, and given the address to another thread's. */
CM_TEST(memory_registered_anew_stays_counted)
{
	uint64_t pages = 0x1234567, which;

	open_plain();
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 4096, 500);
	which = cm_cache_host_find_registered(fixture.cache, pages);
	cm_cache_host_add_registered(fixture.cache, fixture.heap, pages, 8192, 500);
	cm_cache_host_remove_registered(fixture.cache, pages, which, 700);
	assert_int_equal(host().registered_bytes.current, 8192);
	assert_int_equal(host().num_host_free, 1);
	unregister(pages);
	assert_int_equal(host().registered.current, 0);
	assert_int_equal(host().num_host_free, 2);
	close_well();
}

CM_TEST(events_go_to_the_hosts_ring)
{
	static const enum cm_action actions[] = {
		CM_ACTION_SEGMENT_ALLOC,  CM_ACTION_ALLOC,        CM_ACTION_FREE_REQUESTED,
		CM_ACTION_FREE_COMPLETED, CM_ACTION_SEGMENT_FREE,
	};
	const struct cm_event *event;
	uint64_t addr;
	uint32_t i;

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

CM_TEST(random_programs_keep_every_invariant)
{
	uint64_t seed;

	for (seed = 1; seed <= 20; seed++)
		run_program(seed);
}

/* Freed by a library that no hook reaches; the driver gives its address out again. */
CM_TEST(a_lost_block_makes_way)
{
	const struct cm_driver_ops *ops = fake_driver_ops();
	uint64_t addr;

	open_plain();
	addr = get(2 * MIB);
	assert_true(ops->gate_enter());
	assert_int_equal(ops->host_free(fixture.ctx, addr), 0);
	ops->gate_leave();
	assert_int_equal(get(MIB), addr);
	assert_int_equal(host().allocated.current, 1);
	assert_int_equal(host().reserved_bytes.current, MIB);
	close_well();
}

/* The driver's answer to a request is under way; until then the context is another thread's. */
static void (*while_asked)(void);
static struct cm_driver_ops late;

static int host_alloc_late(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr)
{
	const int err = fake_driver_ops()->host_alloc(ctx, bytes, kind, ret_addr);

	fixture.cache->ops = fake_driver_ops();
	while_asked();
	return err;
}

static void assert_passed_on_while(void (*meanwhile)(void))
{
	while_asked = meanwhile;
	late = *fake_driver_ops();
	late.host_alloc = host_alloc_late;
	fixture.cache->ops = &late;
	assert_int_equal(get(MIB), 0);
	assert_ptr_equal(fixture.cache->ops, fake_driver_ops());
	assert_int_equal(host().reserved_bytes.current, 0);
}

/* It goes, with that memory; the next one gets its handle. */
static void end_and_begin(void)
{
	fixture_remove_context(&fixture, fixture.ctx);
	assert_int_equal(fixture_add_context(&fixture, 0, &fixture.heap), fixture.ctx);
}

static void suspend_and_drain(void)
{
	cm_cache_lock_contexts(fixture.cache);
	assert_ptr_equal(cm_cache_suspend_heap(fixture.cache, fixture.ctx), fixture.heap);
	cm_cache_unlock_contexts(fixture.cache);
	cm_cache_drain_heap(fixture.cache, fixture.ctx);
}

static void drain(void)
{
	cm_cache_drain_heap(fixture.cache, fixture.ctx);
}

CM_TEST(what_a_context_took_along_is_not_freed_again)
{
	open_plain();
	assert_passed_on_while(end_and_begin);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	/* As cuda.h wants no call in a context that is being destroyed. */
	assert_passed_on_while(suspend_and_drain);
	assert_int_equal(called(FAKE_HOST_FREE), 0);
	fixture_remove_context(&fixture, fixture.ctx);
	close_well();
}

CM_TEST(what_comes_too_late_to_be_cached_goes_back)
{
	open_plain();
	assert_passed_on_while(drain);
	assert_int_equal(called(FAKE_HOST_FREE), 1);
	assert_int_equal(fixture.driver.used_bytes[FAKE_HOST], 0);
	assert_false(cm_heap_has_calls(fixture.heap));
	close_well();
}
