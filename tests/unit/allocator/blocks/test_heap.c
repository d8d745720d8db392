/* SPDX-License-Identifier: MIT */
/* Blocks, segments, and what the counters say of them at each moment. */
#include "allocator/state/state.h"

#include <errno.h>
#include <stddef.h>

#include "allocator/base/size_class.h"
#include "tests/unit/fixture_case.h"

#define ALL   CM_POOL_ALL
#define SMALL CM_POOL_SMALL
#define LARGE CM_POOL_LARGE

fixture_case(a_miss_gets_a_segment_and_splits_it)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 100);

	assert_int_equal(fake_memory_of(addr).bytes, 2 * MIB);
	assert_int_equal(fake_memory_of(addr).addr, addr);
	assert_current(f, SMALL, CM_STAT_ALLOCATION, 1);
	assert_current(f, SMALL, CM_STAT_ALLOCATED_BYTES, 512);
	assert_current(f, SMALL, CM_STAT_ACTIVE, 1);
	assert_current(f, SMALL, CM_STAT_ACTIVE_BYTES, 512);
	assert_current(f, SMALL, CM_STAT_REQUESTED_BYTES, 100);
	assert_current(f, SMALL, CM_STAT_SEGMENT, 1);
	assert_current(f, SMALL, CM_STAT_RESERVED_BYTES, 2 * MIB);
	assert_current(f, SMALL, CM_STAT_INACTIVE_SPLIT, 1);
	assert_current(f, SMALL, CM_STAT_INACTIVE_SPLIT_BYTES, 2096640);
	assert_current(f, LARGE, CM_STAT_RESERVED_BYTES, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_device_alloc), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_misses), 1);
	assert_int_equal(case_get(f, 1), addr + 512);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_hits), 1);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 1);
}

/* Allocated falls when the program frees, active and requested when the memory is ready. */
fixture_case(a_free_changes_the_counters_in_two_steps)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 3000);

	case_put(f, addr);
	assert_current(f, ALL, CM_STAT_ALLOCATION, 0);
	assert_current(f, ALL, CM_STAT_ALLOCATED_BYTES, 0);
	assert_current(f, ALL, CM_STAT_ACTIVE, 1);
	assert_current(f, ALL, CM_STAT_ACTIVE_BYTES, 3072);
	assert_current(f, ALL, CM_STAT_REQUESTED_BYTES, 3000);
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT_BYTES, 2 * MIB - 3072);
	case_settle(f);
	assert_current(f, ALL, CM_STAT_ACTIVE, 0);
	assert_current(f, ALL, CM_STAT_ACTIVE_BYTES, 0);
	assert_current(f, ALL, CM_STAT_REQUESTED_BYTES, 0);
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT, 0);
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT_BYTES, 0);
	assert_current(f, ALL, CM_STAT_SEGMENT, 1);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_REQUESTED_BYTES).allocated, 3000);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_REQUESTED_BYTES).freed, 3000);
}

static void assert_split(struct fixture *f, int64_t count, int64_t bytes)
{
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT, count);
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT_BYTES, bytes);
}

fixture_case(inactive_split_counts_free_blocks_of_segments_in_use)
{
	struct fixture *f = *state;
	const int64_t whole = 2 * MIB, rest = whole - 512 - 1024 - MIB;
	uint64_t a, b, c, d;

	a = case_get(f, 100); /* a whole segment is split */
	assert_split(f, 1, whole - 512);
	b = case_get(f, 1000); /* a piece is split */
	assert_split(f, 1, whole - 512 - 1024);
	c = case_get(f, MIB);
	assert_split(f, 1, rest);
	d = case_get(f, rest); /* a piece is taken whole */
	assert_split(f, 0, 0);
	(void)case_get(f, 10 * MIB); /* a whole segment is taken whole */
	assert_split(f, 0, 0);

	case_put(f, b);
	case_settle(f);
	assert_split(f, 1, 1024);
	case_put(f, d);
	case_settle(f);
	assert_split(f, 2, 1024 + rest);
	case_put(f, a); /* beside another one: small blocks merge late */
	case_settle(f);
	assert_split(f, 3, 512 + 1024 + rest);
	case_put(f, c); /* all of the segment is free */
	case_settle(f);
	assert_split(f, 0, 0);
	(void)case_get(f, 512); /* the rest of it counts again */
	assert_split(f, 3, whole - 512);
}

/* The net change of one return counts, whatever it passes through. */
fixture_case(inactive_split_accumulates_net_changes)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 2 * MIB), b = case_get(f, 2 * MIB);
	struct cm_stat4 count, bytes;

	(void)case_get(f, 2 * MIB);
	cm_cache_reset_accumulated(f->cache, 0);
	case_put(f, a);
	case_settle(f);
	case_put(f, b);
	case_settle(f);
	count = fixture_stat(f, LARGE, CM_STAT_INACTIVE_SPLIT);
	bytes = fixture_stat(f, LARGE, CM_STAT_INACTIVE_SPLIT_BYTES);
	assert_int_equal(count.allocated, 1);
	assert_int_equal(count.freed, 0);
	assert_int_equal(bytes.allocated, 4 * MIB);
	assert_int_equal(bytes.freed, 0);
	assert_int_equal(bytes.peak, 18 * MIB);
}

fixture_case(a_large_block_is_split_where_more_than_1_mib_remains)
{
	static const struct {
		uint64_t bytes;
		uint64_t size; /* of the block allocated of a segment of 20 MiB */
	} cases[] = {
		{MIB + 1, MIB + 512},
		{9 * MIB, 9 * MIB},
		{10 * MIB - 1, 10 * MIB}, /* rounds up to a segment of its own */
	};
	struct fixture *f = *state;
	uint64_t addr;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		addr = case_get(f, cases[i].bytes);
		assert_current(f, LARGE, CM_STAT_ALLOCATED_BYTES, cases[i].size);
		case_put(f, addr);
		case_settle(f);
	}
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);

	/* 11 MiB are left of 20; 1 MiB is no remainder, half a KiB more is. */
	(void)case_get(f, 9 * MIB);
	addr = case_get(f, 10 * MIB);
	assert_current(f, LARGE, CM_STAT_ALLOCATED_BYTES, 20 * MIB);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(case_get(f, 10 * MIB - 512), addr);
	assert_current(f, LARGE, CM_STAT_ALLOCATED_BYTES, 19 * MIB - 512);
}

fixture_case(a_small_block_is_split_where_more_than_a_sixteenth_remains)
{
	static const struct {
		uint64_t bytes;
		uint64_t rest; /* of 1 MiB */
	} cases[] = {
		{MIB - 512, 0},
		{1928 * 512, 0},
		{1927 * 512, 121 * 512},
		{512, MIB - 512},
	};
	struct fixture *f = *state;
	uint64_t addr;
	size_t i;

	(void)case_get(f, MIB);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		addr = case_get(f, cases[i].bytes);
		assert_split(f, cases[i].rest != 0, (int64_t)cases[i].rest);
		assert_current(f, SMALL, CM_STAT_ALLOCATED_BYTES, 2 * MIB - (int64_t)cases[i].rest);
		assert_current(f, SMALL, CM_STAT_REQUESTED_BYTES, MIB + (int64_t)cases[i].bytes);
		case_put(f, addr);
		case_settle(f);
		case_put(f, case_get(f, MIB)); /* what is left of it merges */
		case_settle(f);
	}
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 1);
}

fixture_case(the_pools_never_serve_each_other)
{
	struct fixture *f = *state;
	uint64_t large = case_get(f, 2 * MIB);

	case_put(f, large);
	case_settle(f);
	case_put(f, case_get(f, MIB)); /* 20 MiB lie ready */
	case_settle(f);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	assert_int_equal(case_get(f, MIB + 1), large);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
}

/* A block of twice their size fits where they were, which is all there is. */
static void free_neighbours_in_any_order(struct fixture *f, uint64_t bytes)
{
	static const uint8_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3},
					    {1, 3, 0, 2}, {2, 0, 3, 1}, {1, 2, 0, 3}};
	uint64_t addr[4], lowest, both;
	size_t i, k;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		for (k = 0, lowest = UINT64_MAX; k < 4; k++) {
			addr[k] = case_get(f, bytes);
			lowest = addr[k] < lowest ? addr[k] : lowest;
		}
		assert_split(f, 0, 0);
		for (k = 0; k < 4; k++) {
			case_put(f, addr[orders[i][k]]);
			case_settle(f);
		}
		assert_split(f, 0, 0);
		both = case_get(f, 2 * bytes);
		assert_int_equal(both, lowest);
		assert_split(f, 1, (int64_t)(2 * bytes));
		case_put(f, both);
		case_settle(f);
	}
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 1);
}

fixture_case(large_neighbours_merge_in_any_order)
{
	free_neighbours_in_any_order(*state, 5 * MIB);
}

fixture_case(small_neighbours_merge_once_nothing_fits)
{
	free_neighbours_in_any_order(*state, 512 * KIB);
}

/* The blocks of an idle segment need not have merged. */
fixture_case(small_blocks_return_without_merging)
{
	struct fixture *f = *state;
	uint64_t first = case_get(f, 512), last = case_get(f, 512), before;
	const struct cm_block *block =
		&f->cache->block[cm_page_map_find(&f->cache->pages, 0, first)];

	case_put(f, first);
	case_settle(f);
	before = block->tick;
	f->driver.ticks += 1000;
	case_put(f, last);
	case_settle(f);
	assert_true(block->tick >= before + 1000);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_current(f, ALL, CM_STAT_RESERVED_BYTES, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
}

/* A block that waits for the device is no neighbour to merge with. */
fixture_case(a_pending_block_does_not_merge)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 9 * MIB), b = case_get(f, 10 * MIB);

	case_put(f, a);
	case_settle(f);
	assert_split(f, 1, 9 * MIB);
	(void)fixture_launch(f, f->ctx, 1, b, MIB, 10 * MS);
	case_put(f, b);
	cm_cache_poll(f->cache);
	assert_split(f, 1, 9 * MIB);
	assert_current(f, ALL, CM_STAT_ACTIVE, 1);
	case_settle(f);
	assert_split(f, 0, 0);
}

static struct fixture *open_max_split(uint64_t rounding)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.max_split_size = 32 * MIB;
	policy.max_non_split_rounding = rounding;
	return case_open(&(struct fixture_params){.policy = &policy});
}

CM_TEST(oversize_blocks_serve_oversize_requests_only)
{
	struct fixture *f = open_max_split(20 * MIB);
	uint64_t addr;

	addr = case_get(f, 40 * MIB);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_ALLOCATIONS).current, 1);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_SEGMENTS).current, 1);
	case_put(f, addr);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_ALLOCATIONS).current, 0);
	case_settle(f);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_SEGMENTS).current, 1);

	assert_int_not_equal(case_get(f, 30 * MIB), addr);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 2);
	assert_int_equal(case_get(f, 32 * MIB), addr); /* and is not cut */
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT, 0);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_ALLOCATIONS).current, 1);
	assert_int_equal(fixture_stat1(f, CM_STAT1_OVERSIZE_ALLOCATIONS).allocated, 2);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	case_close(f);
}

CM_TEST(an_oversize_block_serves_what_is_not_much_smaller)
{
	struct fixture *f = open_max_split(20 * MIB);
	uint64_t addr;

	addr = case_get(f, 64 * MIB);
	case_put(f, addr);
	case_settle(f);
	assert_int_not_equal(case_get(f, 44 * MIB), addr);
	assert_int_equal(case_get(f, 44 * MIB + 512), addr);
	case_close(f);
}

static struct fixture *open_exact(void)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.placement = CM_PLACEMENT_EXACT;
	return case_open(&(struct fixture_params){.policy = &policy});
}

CM_TEST(exact_placement_gives_each_block_a_segment)
{
	static const uint64_t sizes[] = {1, 512, 5000, MIB, MIB + 1, 3 * MIB, 9 * MIB, 64 * MIB};
	struct fixture *f = open_exact();
	uint64_t addr, small;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		addr = case_get(f, sizes[i]);
		assert_int_equal(fake_memory_of(addr).addr, addr);
	}
	assert_current(f, SMALL, CM_STAT_SEGMENT, 4);
	assert_current(f, LARGE, CM_STAT_SEGMENT, 4);
	assert_current(f, ALL, CM_STAT_INACTIVE_SPLIT, 0);
	small = case_get(f, 9 * 512);
	case_put(f, small);
	case_settle(f);
	assert_int_not_equal(case_get(f, 7 * 512), small);
	assert_int_equal(case_get(f, 8 * 512), small);
	/* An eighth may be wasted when it serves again. */
	case_put(f, addr);
	case_settle(f);
	assert_int_not_equal(case_get(f, 48 * MIB), addr);
	assert_int_equal(case_get(f, 56 * MIB), addr);
	case_close(f);
}

fixture_case(what_is_no_block_is_refused_and_nothing_moves)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 100), other = case_get(f, 5000), big = case_get(f, 64 * MIB);
	uint64_t forward, free_part = other + 8192;
	const struct {
		uint64_t addr;
		int err;
	} cases[] = {
		{addr + 1, -EFAULT},
		{addr + 511, -EFAULT},
		{other + 512, -EFAULT},
		{free_part, -EFAULT},
		{addr + 2 * MIB - 1, -EFAULT},
		{big + 2 * MIB, -EFAULT},
		{0, -ENOENT},
		{1, -ENOENT},
		{UINT64_MAX, -ENOENT},
		{UINT64_C(1) << 57, -ENOENT},
		{addr - 1, -ENOENT},
		{UINT64_C(0x5555deadb000), -ENOENT},
	};
	uint64_t calls = f->driver.calls;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		forward = 0;
		if (cm_cache_free(f->cache, cases[i].addr, &forward) != cases[i].err)
			fail_msg("%#llx", (unsigned long long)cases[i].addr);
		if (cases[i].err == -EFAULT && fake_memory_of(forward).addr == forward)
			fail_msg("%#llx would free", (unsigned long long)forward);
		assert_sound(f);
	}
	assert_int_equal(f->driver.calls, calls);
	assert_current(f, ALL, CM_STAT_ALLOCATION, 3);
}

fixture_case(a_second_free_is_refused_at_every_stage)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), forward = 0;

	case_put(f, addr);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -EFAULT); /* it waits */
	assert_int_equal(forward, addr + 1);
	case_settle(f);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -EFAULT); /* it is ready */
	assert_int_equal(forward, addr + 1);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -ENOENT); /* the driver's */
	assert_current(f, ALL, CM_STAT_ALLOCATION, 0);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ALLOCATION).freed, 1);
}

fixture_case(sizes_that_are_none_of_ours_are_passed_on)
{
	static const uint64_t sizes[] = {0, CM_REQUEST_MAX + 1, UINT64_MAX / 2, UINT64_MAX};
	struct fixture *f = *state;
	uint64_t addr = 7;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(cm_cache_alloc(f->cache, f->heap, sizes[i], &addr), -EINVAL);
	assert_int_equal(f->driver.calls, 0);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, CM_REQUEST_MAX, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(addr, 7);
	assert_sound(f);
}

static enum cm_place place_of(struct fixture *f, uint64_t addr)
{
	struct cm_place_info place;

	cm_cache_lookup(f->cache, addr, &place);
	return place.place;
}

fixture_case(an_address_is_looked_up)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 1000), b = case_get(f, 1000);
	struct cm_place_info place;

	assert_int_equal(place_of(f, a), CM_PLACE_LIVE);
	assert_int_equal(place_of(f, a + 1023), CM_PLACE_INTERIOR);
	assert_int_equal(place_of(f, b), CM_PLACE_LIVE);
	assert_int_equal(place_of(f, b + 1024), CM_PLACE_IDLE);
	assert_int_equal(place_of(f, a - 1), CM_PLACE_FOREIGN);
	assert_int_equal(place_of(f, a + 2 * MIB), CM_PLACE_FOREIGN);
	assert_int_equal(place_of(f, 0), CM_PLACE_FOREIGN);
	cm_cache_lookup(f->cache, b + 7, &place);
	assert_int_equal(place.block_addr, b);
	assert_int_equal(place.block_size, 1024);
	assert_int_equal(place.requested, 1000);
	assert_int_equal(place.segment_addr, a);
	assert_int_equal(place.segment_size, 2 * MIB);
	assert_int_equal(place.ctx, f->ctx);
	assert_int_equal(place.segment_flags, CM_SEGMENT_USED | CM_SEGMENT_SMALL);
	case_put(f, a);
	assert_int_equal(place_of(f, a), CM_PLACE_IDLE);
}

CM_TEST(mode_stats_passes_every_request_on_and_counts_it)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t a, b;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	f = case_open(&(struct fixture_params){.policy = &policy});
	a = case_get(f, 100);
	b = case_get(f, 3 * MIB + 1);
	assert_int_equal(f->driver.used_bytes[0], 100 + 3 * MIB + 1);
	assert_current(f, SMALL, CM_STAT_ALLOCATED_BYTES, 100);
	assert_current(f, LARGE, CM_STAT_RESERVED_BYTES, 3 * MIB + 1);
	assert_current(f, ALL, CM_STAT_SEGMENT, 2);
	case_put(f, a);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_current(f, SMALL, CM_STAT_RESERVED_BYTES, 0);
	assert_current(f, ALL, CM_STAT_ACTIVE, 1);
	case_put(f, b);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 0);
	case_close(f);
}

fixture_case(memory_of_one_context_never_serves_another)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr, other;

	case_put(f, case_get(f, 64 * MIB));
	case_settle(f);
	assert_true(fixture_add_context(f, 0, &heap) != 0);
	/* It would return in exchange. */
	f->cache->policy.exchange = false;
	assert_int_equal(fixture_alloc(f, heap, 64 * MIB, &addr), 0);
	assert_current(f, ALL, CM_STAT_SEGMENT, 2);
	assert_int_equal(fixture_alloc(f, f->heap, 64 * MIB, &other), 0);
	assert_current(f, ALL, CM_STAT_SEGMENT, 2);
	assert_int_not_equal(addr, other);
}

/* Nobody has to look for the segment of a block that goes back with its free. */
CM_TEST(what_is_given_back_at_once_is_not_looked_for)
{
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	f = case_open(&(struct fixture_params){.policy = &policy});
	case_put(f, case_get(f, MIB));
	assert_false(atomic_load(&f->heap->device->unreclaimed));
	case_close(f);
}

#define LINE(type, field) (offsetof(struct type, field) / 64)

/* The device whose rows fill the line of is_free, which the test notes in `owner`. */
static void own_line(uint32_t *owner, uint32_t row, const struct cm_device *device)
{
	uint32_t *line = &owner[row / CM_SPARE_BATCH];

	assert_int_not_equal(row / CM_SPARE_BATCH, 0);
	assert_true(!*line || *line == device->index + 1);
	*line = device->index + 1;
}

static void own_lines(struct cm_cache *cache, uint32_t *owner)
{
	uint32_t row, i;

	for (row = 1; row < cache->blocks; row++)
		if (cache->block[row].state != CM_BLOCK_NONE)
			own_line(owner, row,
				 cache->device[cache->segment[cache->block[row].segment].device]);
	for (i = 0; i < atomic_load(&cache->devices); i++)
		for (row = cache->device[i]->spare_block; row; row = cache->block[row].link_next)
			own_line(owner, row, cache->device[i]);
}

/* Such a line is in the caches of the writer's processor, and every access of the other waits. */
fixture_case(threads_of_two_devices_read_no_line_that_requests_of_the_other_write)
{
	struct fixture *f = *state;
	uint32_t owner[8] = {0};
	struct cm_heap *other;
	uint64_t addr;
	int i;

	(void)fixture_add_context(f, 1, &other);
	for (i = 0; i < 200; i++)
		assert_int_equal(fixture_alloc(f, i % 2 ? f->heap : other, 512, &addr), 0);
	assert_in_range(f->cache->blocks, 4 * CM_SPARE_BATCH, 8 * CM_SPARE_BATCH);
	own_lines(f->cache, owner);
	assert_int_not_equal(LINE(cm_heap, state), LINE(cm_heap, live_bytes));
	assert_int_not_equal(LINE(cm_device, index), LINE(cm_device, lock));
	assert_int_not_equal(LINE(cm_device, index), LINE(cm_device, spare_block));
	assert_int_equal(LINE(cm_cache, event_lock), LINE(cm_cache, suspended));
	assert_int_not_equal(LINE(cm_cache, devices), LINE(cm_cache, suspended));
	assert_int_not_equal(LINE(cm_cache, devices), LINE(cm_cache, tables));
}
