/* SPDX-License-Identifier: MIT */
/* Contexts that come and go. */
#include <errno.h>

#include "allocator/state/suspended.h"
#include "stats/region.h"
#include "tests/unit/fixture_case.h"

/* Live, pending in an open and in a closed epoch, and ready. */
static void fill(struct fixture *f)
{
	uint64_t a, b, c;

	(void)case_get(f, 5 * MIB);
	(void)case_get(f, 700);
	a = case_get(f, 3 * MIB);
	b = case_get(f, 64 * MIB);
	c = case_get(f, 4000);
	case_put(f, a);
	cm_cache_poll(f->cache);
	(void)fixture_launch(f, f->ctx, 1, b, 512, FAKE_FOREVER);
	case_put(f, b);
	cm_cache_poll(f->cache);
	case_put(f, c);
}

fixture_case(a_context_that_goes_takes_its_memory_out_of_the_counters)
{
	struct fixture *f = *state;
	uint64_t calls;

	fill(f);
	calls = f->driver.calls;
	fixture_remove_context(f, f->ctx);
	assert_sound(f);
	assert_int_equal(f->driver.calls, calls);
	assert_no_memory(f);
	assert_null(cm_cache_find_heap(f->cache, f->ctx));
	assert_int_equal(f->heap->device->row->heaps, 0);
}

void __real_cm_epoch_forget_context_event_locked(struct cm_cache *cache, struct cm_heap *gone);
void __wrap_cm_epoch_forget_context_event_locked(struct cm_cache *cache, struct cm_heap *gone);

static bool asks_while_it_goes;
static int told_while_it_goes;

/* As another thread that asks for pinned memory of the context. */
void __wrap_cm_epoch_forget_context_event_locked(struct cm_cache *cache, struct cm_heap *gone)
{
	uint64_t addr;

	if (asks_while_it_goes)
		told_while_it_goes = cm_cache_host_alloc(cache, gone, CM_HOST_PLAIN, MIB, &addr);
	asks_while_it_goes = false;
	__real_cm_epoch_forget_context_event_locked(cache, gone);
}

fixture_case(pinned_memory_is_entered_in_no_heap_that_is_being_forgotten)
{
	struct fixture *f = *state;

	asks_while_it_goes = true;
	fixture_remove_context(f, f->ctx);
	assert_int_equal(told_while_it_goes, -EAGAIN);
	assert_sound(f);
	assert_int_equal(f->region->header->host.reserved_bytes.current, 0);
}

fixture_case(a_stranger_that_goes_changes_nothing)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, MIB);

	cm_cache_lock_contexts(f->cache);
	cm_cache_forget_heap(f->cache, 77);
	cm_cache_forget_heap(f->cache, 0);
	cm_cache_unlock_contexts(f->cache);
	cm_cache_mark_shared(f->cache, 77);
	cm_cache_drain_heap(f->cache, 0);
	assert_int_equal(cm_cache_make_room(f->cache, 77), 0);
	assert_int_equal(cm_cache_returnable(f->cache, 77), 0);
	assert_int_equal(cm_cache_mark_exported(f->cache, 77), -ENOENT);
	case_put(f, addr);
}

fixture_case(a_handle_that_is_used_again_begins_anew)
{
	struct fixture *f = *state;
	uint64_t old = f->ctx, addr;
	struct cm_heap *heap;
	int i;

	for (i = 0; i < 5; i++) {
		fill(f);
		cm_cache_mark_shared(f->cache, f->ctx);
		fixture_remove_context(f, f->ctx);
		f->ctx = fixture_add_context(f, 0, &heap);
		assert_int_equal(f->ctx, old);
		assert_ptr_equal(heap, f->heap);
		assert_no_memory(f);
		assert_int_equal(heap->row->flags, CM_HEAP_USED);
		assert_int_equal(heap->row->pending_bytes, 0);
	}
	/* It is not shared any more: a barrier may be laid. */
	addr = case_get(f, 64 * MIB);
	(void)fixture_launch(f, f->ctx, 1, addr, 512, MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, 64 * MIB), addr);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_barriers), 1);
}

/* Freed memory of the one that stays waited for work of the one that goes. */
fixture_case(work_goes_with_its_context)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t ctx = fixture_add_context(f, 1, &heap), addr = case_get(f, 64 * MIB);

	(void)fixture_launch(f, ctx, 1, addr, 512, FAKE_FOREVER);
	case_put(f, addr);
	cm_cache_poll(f->cache);
	cm_cache_poll(f->cache);
	assert_int_equal(f->heap->row->pending_bytes, 64 * MIB);
	fixture_remove_context(f, ctx);
	cm_cache_poll(f->cache);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	assert_int_equal(case_get(f, 64 * MIB), addr);
}

static void remove_context(void *arg)
{
	struct fixture *f = arg;

	fixture_remove_context(f, f->ctx);
}

static void replace_context(void *arg)
{
	struct fixture *f = arg;
	struct cm_heap *heap;

	fixture_remove_context(f, f->ctx);
	(void)fixture_add_context(f, 1, &heap); /* the old handle */
	f->ctx = fixture_add_context(f, 0, &heap);
}

/* Each closes an epoch with an event of the one that stays, whose work it waits for. */
fixture_case(contexts_that_go_leave_the_events_of_others)
{
	struct fixture *f = *state;
	uint64_t keep = case_get(f, 512), work, ctx, addr;
	struct cm_heap *heap;
	size_t alive = 0;
	int i;

	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	for (i = 0; i < 10; i++) {
		ctx = fixture_add_context(f, 1, &heap);
		cm_cache_mark_shared(f->cache, ctx);
		assert_int_equal(fixture_alloc(f, heap, MIB, &addr), 0);
		case_put(f, addr);
		cm_cache_poll(f->cache);
		assert_int_equal(heap->epochs.open.number - heap->epochs.oldest, 1);
		fixture_remove_context(f, ctx);
		/* The second one has a probe of its device as well, which waits for that work. */
		if (i < 2)
			alive = fake_events_alive();
		assert_int_equal(fake_events_alive(), alive);
	}
	assert_true(alive > 0);
	fake_finish(work);
}

/* Its work may still touch what others have freed, wherever that is, and can't be asked for any
 * more. */
CM_TEST(nothing_becomes_ready_while_a_context_ends)
{
	struct cm_heap *heap;
	struct fixture *f;
	uint64_t other, addr;
	uint32_t device;

	for (device = 0; device < 2; device++) {
		f = case_open(&(struct fixture_params){0});
		other = fixture_add_context(f, device, &heap);
		addr = case_get(f, 32 * MIB);
		(void)fake_copy(other, 1, addr, 32 * MIB, FAKE_FOREVER);
		case_put(f, addr);
		cm_cache_lock_contexts(f->cache);
		cm_cache_forget_heap(f->cache, other);
		cm_cache_context_is_ending(f->cache);
		cm_cache_unlock_contexts(f->cache);
		cm_cache_poll(f->cache);
		assert_current(f, CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 32 * MIB);
		(void)case_get(f, 32 * MIB);
		fake_context_destroy(other);
		cm_cache_lock_contexts(f->cache);
		cm_cache_context_has_ended(f->cache);
		cm_cache_unlock_contexts(f->cache);
		cm_cache_poll(f->cache);
		assert_current(f, CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 32 * MIB);
		case_close(f);
	}
}

/* Ready, in an open epoch, and of the host; the probe of a trim is under way in it. */
fixture_case(a_suspended_context_is_named_in_no_call)
{
	struct fixture *f = *state;
	uint64_t calls, now, work, forward, host, addr = case_get(f, 32 * MIB);
	struct cm_heap *heap;

	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, CM_HOST_PLAIN, MIB, &host), 0);
	case_put(f, case_get(f, 64 * MIB));
	assert_int_equal(cm_cache_host_free(f->cache, host, &forward), 0);
	cm_cache_poll(f->cache);
	work = fixture_launch(f, f->ctx, 1, addr, 512, FAKE_FOREVER);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), -ETIME);
	case_put(f, addr);
	cm_cache_lock_contexts(f->cache);
	heap = cm_cache_suspend_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	assert_ptr_equal(heap, f->heap);
	calls = f->driver.calls;
	now = f->driver.now_ns;
	cm_cache_poll(f->cache);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_int_equal(f->driver.calls, calls);
	/* Most contexts stay: for so long a trim waits. */
	assert_in_range(f->driver.now_ns - now, 1000 * MS, 1100 * MS);
	fake_finish(work);
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(heap);
	cm_cache_unlock_contexts(f->cache);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_no_memory(f);
	assert_int_equal(f->region->header->host.reserved_bytes.current, 0);
}

static struct fixture *napping;

static void resume(uint64_t ns)
{
	struct fixture *f = napping;

	(void)ns;
	f->cache->ops = fake_driver_ops();
	assert_int_equal(f->driver.inside_gate, 0);
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(f->heap);
	cm_cache_unlock_contexts(f->cache);
}

/* Until somebody waits for it. */
static void suspend(struct fixture *f)
{
	static struct cm_driver_ops ops;

	cm_cache_lock_contexts(f->cache);
	assert_ptr_equal(cm_cache_suspend_heap(f->cache, f->ctx), f->heap);
	cm_cache_unlock_contexts(f->cache);
	ops = *fake_driver_ops();
	ops.sleep_ns = resume;
	f->cache->ops = &ops;
	napping = f;
}

/* The release that suspends it may take as long as work does that waits for a capture. */
fixture_case(who_asks_for_memory_holds_back_no_capture_for_a_suspended_context)
{
	struct fixture *f = *state;
	uint64_t free_bytes, total;

	suspend(f);
	assert_int_equal(cm_cache_mem_info(f->cache, f->ctx, &free_bytes, &total), 0);
	assert_ptr_equal(f->cache->ops, fake_driver_ops());
	assert_int_equal(total, f->driver.limit_bytes);
	fake_capture(true);
	assert_int_equal(cm_cache_mem_info(f->cache, f->ctx, &free_bytes, &total), -EBUSY);
	fake_capture(false);
	assert_int_equal(cm_cache_mem_info(f->cache, 77, &free_bytes, &total), -ENODEV);
}

static struct fixture *open_full(enum cm_mode mode)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.mode = mode;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = 64 * MIB});
}

/* What the program has freed in it goes back as soon as it stands, or went with it. */
CM_TEST(nobody_fails_for_memory_of_a_suspended_context)
{
	static const enum cm_mode modes[] = {CM_MODE_CACHE, CM_MODE_STATS};
	uint64_t addr, again;
	struct fixture *f;
	size_t i;

	for (i = 0; i < 2; i++) {
		f = open_full(modes[i]);
		addr = case_get(f, 64 * MIB);
		suspend(f);
		assert_int_equal(fixture_put(f, addr), 0);
		assert_int_equal(cm_cache_alloc(f->cache, f->heap, 63 * MIB, &again), 0);
		case_close(f);
	}
}

CM_TEST(nobody_fails_for_pinned_memory_of_a_suspended_context)
{
	static const enum cm_mode modes[] = {CM_MODE_CACHE, CM_MODE_STATS};
	uint64_t addr, forward;
	struct fixture *f;
	size_t i;

	for (i = 0; i < 2; i++) {
		f = open_full(modes[i]);
		assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 64 * MIB, &addr), 0);
		suspend(f);
		assert_int_equal(cm_cache_host_free(f->cache, addr, &forward), 0);
		assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, MIB, &addr), 0);
		case_close(f);
	}
}

static uint64_t ending; /* the other context, 0: it is suspended */
static struct cm_heap *left;

static void resume_other(uint64_t ns)
{
	struct fixture *f = napping;

	(void)ns;
	f->cache->ops = fake_driver_ops();
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(left);
	cm_cache_unlock_contexts(f->cache);
}

/* It was looked for before the device was asked whether it is idle. */
static uint64_t suspend_late(void)
{
	struct fixture *f = napping;

	if (ending && f->driver.called[FAKE_EVENT_RECORD] &&
	    !cm_lock_is_held(&f->cache->event_lock)) {
		cm_cache_lock_contexts(f->cache);
		left = cm_cache_suspend_heap(f->cache, ending);
		cm_cache_unlock_contexts(f->cache);
		ending = 0;
	}
	return fake_driver_ops()->now_ns();
}

/* All the memory there is lies idle in a context that is suspended in the midst of it. */
static void suspend_idle_late(struct fixture *f, struct cm_driver_ops *ops)
{
	struct cm_heap *heap;
	uint64_t addr;

	ending = fixture_add_context(f, 0, &heap);
	assert_int_equal(fixture_alloc(f, heap, 64 * MIB, &addr), 0);
	case_put(f, addr);
	cm_cache_poll(f->cache);
	f->driver.called[FAKE_EVENT_RECORD] = 0;
	*ops = *fake_driver_ops();
	ops->now_ns = suspend_late;
	ops->sleep_ns = resume_other;
	f->cache->ops = ops;
	napping = f;
}

CM_TEST(memory_that_is_suspended_meanwhile_is_waited_for)
{
	struct fixture *f = open_full(CM_MODE_CACHE);
	struct cm_driver_ops ops;
	uint64_t addr;

	suspend_idle_late(f, &ops);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 64 * MIB);
	assert_ptr_equal(f->cache->ops, fake_driver_ops());
	assert_sound(f);
	/* An exchange would have returned it before. */
	f->cache->policy.exchange = false;
	suspend_idle_late(f, &ops);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 63 * MIB, &addr), 0);
	assert_ptr_equal(f->cache->ops, fake_driver_ops());
	case_close(f);
}

/* The context goes while the driver is about to answer: what it gave is not ours to keep. */
fixture_case(a_context_may_go_while_the_driver_is_asked)
{
	struct fixture *f = *state;
	uint64_t addr = 0;

	(void)case_get(f, 512);
	f->driver.meanwhile = remove_context;
	f->driver.meanwhile_arg = f;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 64 * MIB, &addr), -EAGAIN);
	assert_sound(f);
	assert_no_memory(f);
	f->ctx = fixture_add_context(f, 0, &f->heap);
	f->driver.meanwhile = replace_context;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 64 * MIB, &addr), -EAGAIN);
	assert_sound(f);
	assert_no_memory(f);
}

/* The context goes, another one has its heap, and memory in it that is ready. */
static void sleep_through_a_change(uint64_t ns)
{
	struct fixture *f = napping;

	(void)ns;
	f->cache->ops = fake_driver_ops();
	replace_context(f);
	assert_int_equal(f->heap->ctx, f->ctx);
	case_put(f, case_get(f, 64 * MIB));
	case_settle(f);
}

CM_TEST(a_request_gets_nothing_of_the_context_that_came_after_its_own)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.reuse = CM_REUSE_WAIT;
	f = case_open(&(struct fixture_params){.policy = &policy});
	addr = case_get(f, 64 * MIB);
	(void)fixture_launch(f, f->ctx, 1, addr, 512, 10 * MS);
	case_put(f, addr);
	ops.sleep_ns = sleep_through_a_change;
	f->cache->ops = &ops;
	napping = f;
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 64 * MIB, &addr), -EAGAIN);
	assert_ptr_not_equal(f->cache->ops, &ops);
	assert_current(f, CM_POOL_ALL, CM_STAT_ALLOCATION, 0);
	case_close(f);
}

fixture_case(pinned_memory_goes_with_the_context_while_the_driver_is_asked)
{
	struct fixture *f = *state;
	uint64_t addr = 77;

	f->driver.meanwhile = remove_context;
	f->driver.meanwhile_arg = f;
	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, MIB, &addr), -EAGAIN);
	/* As a thread that has found the heap, and comes to ask for memory now. */
	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, MIB, &addr), -EAGAIN);
	f->ctx = fixture_add_context(f, 0, &f->heap);
	f->driver.meanwhile = replace_context;
	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, MIB, &addr), -EAGAIN);
	assert_int_equal(addr, 77);
	assert_sound(f);
	assert_int_equal(f->region->header->host.reserved_bytes.current, 0);
	assert_int_equal(f->driver.used_bytes[FAKE_HOST], 0);
}

static void free_another(void *arg)
{
	struct fixture *f = arg;

	assert_int_equal(fixture_put(f, f->driver.memory[0].addr), 0);
	cm_cache_poll(f->cache);
}

fixture_case(a_block_may_be_freed_while_the_driver_is_asked)
{
	struct fixture *f = *state;
	uint64_t first = case_get(f, 64 * MIB);

	f->driver.meanwhile = free_another;
	f->driver.meanwhile_arg = f;
	assert_int_not_equal(case_get(f, 64 * MIB), first);
	assert_int_equal(case_get(f, 64 * MIB), first);
}

fixture_case(a_slot_is_used_again_by_its_device_only)
{
	struct fixture *f = *state;
	struct cm_heap *first, *second, *third;
	uint64_t ctx;

	ctx = fixture_add_context(f, 1, &first);
	fixture_remove_context(f, ctx);
	ctx = fixture_add_context(f, 2, &second);
	assert_ptr_not_equal(first, second);
	(void)fixture_add_context(f, 1, &third);
	assert_ptr_equal(first, third);
	assert_sound(f);
	assert_int_equal(cm_cache_device_row(f->cache, 1), 1);
	assert_int_equal(cm_cache_device_row(f->cache, 2), 2);
}

/* Who ends the context waits for the calls in it, and for no others. */
fixture_case(a_slot_is_not_used_again_while_a_call_is_under_way)
{
	struct fixture *f = *state;
	struct cm_heap *first, *second;
	uint64_t ctx = fixture_add_context(f, 1, &first);

	assert_true(cm_heap_begin_call(first, ctx));
	cm_cache_lock_contexts(f->cache);
	assert_ptr_equal(cm_cache_forget_heap(f->cache, ctx), first);
	cm_cache_unlock_contexts(f->cache);
	(void)fixture_add_context(f, 1, &second);
	assert_ptr_not_equal(second, first);
	cm_heap_end_call(first);
	fake_context_destroy(ctx);
}

fixture_case(a_heap_that_stands_is_found)
{
	struct fixture *f = *state;
	const struct cm_context_info info = {.ctx = f->ctx, .ordinal = 0};
	struct cm_heap *heap = NULL;

	assert_int_equal(cm_cache_add_heap(f->cache, &info, &heap), 0);
	assert_ptr_equal(heap, f->heap);
	assert_ptr_equal(cm_cache_find_heap(f->cache, f->ctx), f->heap);
	assert_int_equal(f->heap->device->row->heaps, 1);
}

/* More contexts than a fence holds: nothing that was freed can be known to be idle. */
fixture_case(beyond_sixteen_contexts_nothing_is_taken_for_idle)
{
	struct fixture *f = *state;
	uint64_t ctx[CM_FENCE_CONTEXTS], addr = case_get(f, 64 * MIB);
	struct cm_heap *heap;
	size_t i;

	for (i = 0; i < CM_FENCE_CONTEXTS; i++)
		ctx[i] = fixture_add_context(f, 0, &heap);
	case_put(f, addr);
	case_settle(f);
	assert_sound(f);
	assert_int_not_equal(case_get(f, 64 * MIB), addr);
	fixture_remove_context(f, ctx[0]);
	case_settle(f);
	assert_int_equal(case_get(f, 64 * MIB), addr);
}
