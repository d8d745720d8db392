/* SPDX-License-Identifier: MIT */
/* Memory that leaves the cache: what a trim returns, what was exported, what drains. */
#include <errno.h>

#include "tests/unit/fixture_case.h"

fixture_case(a_trim_returns_what_is_wholly_free)
{
	struct fixture *f = *state;
	uint64_t small = case_get(f, 512), large = case_get(f, 30 * MIB), bytes = 0;

	case_put(f, case_get(f, 5 * MIB));
	case_put(f, large);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 50 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, 7, &bytes), 0); /* no such device */
	assert_int_equal(bytes, 0);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_sound(f);
	assert_int_equal(bytes, 50 * MIB);
	assert_int_equal(f->driver.used_bytes[0], 2 * MIB);
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_trims), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_sync_all_streams), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_device_free), 2);
	case_put(f, small);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_no_memory(f);
}

fixture_case(a_trim_of_all_devices_returns_everything)
{
	struct fixture *f = *state;
	struct cm_heap *heap[3];
	uint64_t addr, bytes, i;

	for (i = 0; i < 3; i++) {
		assert_true(fixture_add_context(f, (uint32_t)i, &heap[i]) != 0);
		assert_int_equal(fixture_alloc(f, heap[i], 10 * MIB * (i + 1), &addr), 0);
		case_put(f, addr);
	}
	assert_int_equal(cm_cache_trim(f->cache, 1, &bytes), 0);
	assert_int_equal(bytes, 20 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(bytes, 40 * MIB);
}

/* More segments than are given back at a time. */
fixture_case(a_trim_returns_any_number_of_segments)
{
	struct fixture *f = *state;
	uint64_t addr[200], bytes;
	size_t i;

	for (i = 0; i < 200; i++)
		addr[i] = case_get(f, 10 * MIB);
	for (i = 0; i < 200; i += 2)
		case_put(f, addr[i]);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, 100 * 10 * MIB);
	assert_sound(f);
}

fixture_case(room_is_made_on_the_device_of_the_context)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr, ctx = fixture_add_context(f, 1, &heap);

	case_put(f, case_get(f, 30 * MIB));
	assert_int_equal(fixture_alloc(f, heap, 20 * MIB, &addr), 0);
	case_put(f, addr);
	assert_int_equal(cm_cache_make_room(f->cache, ctx), 20 * MIB);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 30 * MIB);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 0);
}

fixture_case(an_exported_block_is_given_back_and_never_recycled)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	assert_int_equal(cm_cache_mark_exported(f->cache, addr + 5), 0);
	case_put(f, addr);
	assert_int_equal(fake_memory_of(addr).bytes, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_no_memory(f);
}

fixture_case(an_exported_segment_serves_nobody_else)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 2 * MIB);

	assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
	assert_sound(f);
	assert_int_not_equal(fake_memory_of(case_get(f, 2 * MIB)).addr, addr);
	case_put(f, addr);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
}

/* One block was freed before, and waits for the device. */
fixture_case(an_exported_segment_goes_with_its_last_block)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 2 * MIB), b = case_get(f, 2 * MIB), c = case_get(f, 2 * MIB);

	case_put(f, c);
	assert_int_equal(cm_cache_mark_exported(f->cache, a), 0);
	case_put(f, a);
	case_put(f, b);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	case_settle(f);
	assert_sound(f);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_no_memory(f);
}

fixture_case(a_draining_heap_gives_back_and_passes_on)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 64 * MIB), b = case_get(f, 64 * MIB), c = case_get(f, 64 * MIB);
	uint64_t addr;

	case_put(f, a);
	case_settle(f);
	case_put(f, b);
	cm_cache_drain_heap(f->cache, f->ctx);
	assert_sound(f);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 512, &addr), -EAGAIN);
	case_put(f, c);
	assert_int_equal(f->driver.used_bytes[0], 128 * MIB);
	case_settle(f);
	assert_sound(f);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_no_memory(f);
}
