/* SPDX-License-Identifier: MIT */
/* Which shard a thread has, and how requests of one shard are served from memory of another. */
#include "allocator/entry/shard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "stats/region.h"
#include "tests/unit/shard_case.h"

#define MOVES 4000

/* How many rows of devices may still be committed; negative: any number. */
static int rows_left = -1;

int __real_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows);
int __wrap_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows);

int __wrap_cm_region_commit(struct cm_region *region, enum cm_table table, uint32_t rows)
{
	if (table == CM_TABLE_DEVICE && !rows_left)
		return -ENOSPC;
	if (table == CM_TABLE_DEVICE && rows_left > 0)
		rows_left--;
	return __real_cm_region_commit(region, table, rows);
}

/* ---- which shard a thread has ---- */

static uint32_t chosen(struct fixture *f)
{
	be_new(f);
	(void)case_get(f, BLOCK);
	return cm_shards_number_of(cm_cache_heap_of_thread(f->cache, f->ctx)->device);
}

shard_case(threads_take_shards_by_turns)
{
	struct fixture *f = *state;

	assert_int_equal(chosen(f), 1);
	assert_int_equal(chosen(f), 2);
	assert_int_equal(chosen(f), 0);
	assert_int_equal(chosen(f), 1);
	assert_int_equal(atomic_load(&f->cache->devices), SHARDS);
	/* The device is one, as is its context. */
	assert_int_equal(cm_cache_device_row(f->cache, 0), 0);
	assert_false(cm_cache_has_devices(f->cache));
	assert_ptr_equal(cm_cache_find_heap(f->cache, f->ctx)->device->first,
			 cm_cache_find_heap(f->cache, f->ctx)->device);
	assert_int_equal(cm_heap_device(cm_thread.heap), 0);
}

/* As many pauses as make a thread contend, within the time or not. */
CM_TEST(only_a_thread_that_waits_often_leaves_the_first_shard)
{
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	f = open_with(&policy, 0);
	case_close(f);
	policy.shards = CM_SHARDS_AUTO;
	f = case_open(&(struct fixture_params){.policy = &policy});
	assert_int_equal(chosen(f), 0);
	cm_thread.pauses = UINT32_MAX;
	cm_thread.pauses_since_ns = f->driver.now_ns;
	fake_advance(MS);
	(void)case_get(f, BLOCK);
	assert_int_equal(cm_thread.shard, 0);
	assert_int_equal(cm_thread.pauses, 0);
	cm_thread.pauses = UINT32_MAX;
	fake_advance(MS - MS / 10);
	(void)case_get(f, BLOCK);
	assert_int_equal(cm_thread.shard, 2);
	assert_int_equal(cm_shards_number_of(cm_thread.heap->device), 1);
	close_shards(f);
}

/* The thread has freed so many blocks of others since it last contended. */
static void contend(struct fixture *f, uint32_t remote_frees)
{
	cm_thread.remote_frees = remote_frees;
	cm_thread.pauses = UINT32_MAX;
	(void)case_get(f, BLOCK);
}

shard_case(a_thread_that_frees_memory_of_others_returns_to_the_first_shard)
{
	struct fixture *f = *state;
	uint64_t addr;
	int i;

	be_of(f, 0);
	addr = case_get(f, 512);
	(void)get_of(f, 2, 512);
	case_put(f, addr);
	assert_int_equal(cm_thread.remote_frees, 1);
	/* What it had before it changed shards comes to an end. */
	for (i = 0; i < 7; i++) {
		contend(f, 128);
		assert_int_equal(cm_thread.shard, 3);
		/* They are counted anew. */
		assert_int_equal(cm_thread.remote_frees, 0);
	}
	contend(f, 127);
	assert_int_equal(cm_thread.shard, 3);
	contend(f, 128);
	assert_int_equal(cm_thread.shard, 1);
	assert_int_equal(cm_shards_number_of(cm_thread.heap->device), 0);
}

/* What a later shard takes from the driver is free no more on the device. */
CM_TEST(free_memory_is_that_of_the_device)
{
	struct fixture *f = open_limit(4 * BLOCK);
	const struct cm_device_row *row = f->heap->device->row;
	uint64_t addr;

	fake_advance(MS);
	case_settle(f); /* asks the driver */
	assert_int_equal(row->free_bytes, 4 * BLOCK);
	addr = get_of(f, 1, BLOCK);
	assert_int_equal(row->free_bytes, 3 * BLOCK);
	(void)get_of(f, 0, 2 * BLOCK);
	assert_int_equal(row->free_bytes, BLOCK);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_int_equal(row->free_bytes, 2 * BLOCK);
	close_shards(f);
}

CM_TEST(what_needs_one_lock_has_one_shard)
{
	struct cm_policy policy[6];
	struct fixture *f;
	size_t i;

	for (i = 0; i < 6; i++) {
		cm_policy_init(&policy[i]);
		policy[i].shards = CM_SHARDS_ALWAYS;
		policy[i].shards_most = SHARDS;
	}
	policy[0].shards = CM_SHARDS_OFF;
	policy[1].shards_most = 1;
	policy[2].placement = CM_PLACEMENT_EXACT;
	policy[3].expandable_segments = true;
	policy[4].mode = CM_MODE_STATS;
	for (i = 0; i < 6; i++) {
		f = case_open(&(struct fixture_params){.policy = &policy[i], .old_driver = i == 5});
		be_new(f);
		cm_thread.pauses = UINT32_MAX;
		(void)case_get(f, BLOCK);
		assert_int_equal(cm_thread.shard, 0);
		assert_int_equal(atomic_load(&f->cache->devices), 1);
		close_shards(f);
	}
}

shard_case(a_thread_without_room_for_a_shard_stays)
{
	struct fixture *f = *state;

	rows_left = 0;
	be_new(f);
	(void)case_get(f, BLOCK);
	assert_int_equal(atomic_load(&f->cache->devices), 1);
	assert_int_equal(segments_of(f, 0), 1);
	/* The second, and no third. */
	rows_left = 1;
	be_new(f);
	(void)case_get(f, BLOCK);
	be_new(f);
	cm_thread.shard = 2;
	cm_thread.pauses = UINT32_MAX;
	(void)case_get(f, BLOCK);
	rows_left = -1;
	assert_int_equal(atomic_load(&f->cache->devices), 2);
	assert_sound(f);
}

/* ---- memory of other shards ---- */

shard_case(an_idle_segment_moves_to_the_shard_that_needs_it)
{
	static const uint64_t bytes[] = {BLOCK, 4 * MIB, 512};
	struct fixture *f = *state;
	struct cm_device_row before, after;
	uint64_t addr, calls;
	size_t i;

	for (i = 0; i < 3; i++) {
		addr = leave_idle(f, 0, bytes[i]);
		calls = calls_for_memory(f);
		be_of(f, 1);
		(void)cm_cache_read_device(f->cache, 0, &before);
		assert_int_equal(case_get(f, bytes[i]), addr);
		(void)cm_cache_read_device(f->cache, 0, &after);
		assert_int_equal(calls_for_memory(f), calls);
		assert_int_equal(segments_of(f, 0), 0);
		assert_int_equal(segments_of(f, 1), i + 1);
		/* To the device nothing has happened but the request. */
		assert_int_equal(cm_stat_read(&after, CM_POOL_ALL, CM_STAT_SEGMENT).peak, i + 1);
		assert_int_equal(cm_stat_read(&after, CM_POOL_ALL, CM_STAT_SEGMENT).allocated,
				 i + 1);
		assert_int_equal(cm_stat_read(&after, CM_POOL_ALL, CM_STAT_SEGMENT).freed, 0);
		assert_int_equal(cm_stat_read(&after, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak,
				 cm_stat_read(&before, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak);
		assert_int_equal(cm_stat_read(&after, CM_POOL_ALL, CM_STAT_ALLOCATION).freed,
				 i + 1);
	}
}

shard_case(a_block_of_a_moved_segment_is_found_and_freed_by_anyone)
{
	struct fixture *f = *state;
	const uint64_t addr = leave_idle(f, 0, BLOCK);
	struct cm_place_info place;
	uint64_t forward = 0;

	assert_int_equal(get_of(f, 1, BLOCK), addr);
	cm_cache_lookup(f->cache, addr, &place);
	assert_int_equal(place.place, CM_PLACE_LIVE);
	assert_int_equal(place.ctx, f->ctx);
	cm_cache_lookup(f->cache, addr + 512, &place);
	assert_int_equal(place.place, CM_PLACE_INTERIOR);
	assert_int_equal(place.block_addr, addr);
	assert_int_equal(cm_cache_free(f->cache, addr + 512, &forward), -EFAULT);
	be_of(f, 2);
	case_put(f, addr);
	/* Stale, before and after it has moved on, and back. */
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -EFAULT);
	assert_int_not_equal(forward, addr);
	case_settle(f);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -EFAULT);
	assert_int_equal(get_of(f, 2, BLOCK), addr);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -EFAULT);
	assert_int_not_equal(forward, addr);
	cm_cache_lookup(f->cache, addr, &place);
	assert_int_equal(place.place, CM_PLACE_IDLE);
	assert_int_equal(get_of(f, 0, BLOCK), addr);
	case_put(f, addr);
	/* Once it has returned it is the driver's. */
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -ENOENT);
	assert_int_equal(fake_memory_of(addr).bytes, 0);
}

/* 2 MiB at the front of a segment of 20. */
shard_case(a_large_request_takes_a_piece_where_it_is)
{
	struct fixture *f = *state;
	const uint64_t addr = get_of(f, 0, 2 * MIB);
	uint64_t piece;

	piece = get_of(f, 1, 4 * MIB);
	assert_true(piece > addr && piece < addr + 20 * MIB);
	assert_int_equal(segments_of(f, 1), 0);
	assert_int_equal(calls_for_memory(f), 1);
	/* A small one does not, also if a segment of its pool has room. */
	assert_int_equal(calls_for_memory(f), 1);
	(void)get_of(f, 0, 512);
	(void)get_of(f, 1, 512);
	assert_int_equal(calls_for_memory(f), 3);
	be_of(f, 2);
	case_put(f, piece);
	case_settle(f);
	assert_int_equal(get_of(f, 1, 18 * MIB), addr + 2 * MIB);
	assert_int_equal(segments_of(f, 1), 1);
}

/* A piece of a large segment does not serve, a whole one of another shard does. */
shard_case(the_device_does_not_grow_while_a_shard_has_what_fits)
{
	struct fixture *f = *state;
	uint64_t addr[SHARDS];
	uint32_t i;

	for (i = 0; i < SHARDS; i++)
		addr[i] = get_of(f, i, BLOCK);
	for (i = 0; i < SHARDS; i++)
		case_put(f, addr[i]);
	case_settle(f);
	for (i = 0; i < SHARDS; i++)
		(void)get_of(f, 1, BLOCK);
	assert_int_equal(segments_of(f, 1), SHARDS);
	assert_int_equal(case_reserved(f), SHARDS * BLOCK);
	(void)case_get(f, BLOCK);
	assert_int_equal(case_reserved(f), (SHARDS + 1) * BLOCK);
}

shard_case(pending_memory_of_another_shard_is_polled_before_the_device_grows)
{
	struct fixture *f = *state;
	const uint64_t addr = get_of(f, 0, BLOCK);
	uint64_t work;

	/* The work is over. */
	work = case_launch(f, addr, FAKE_FOREVER);
	case_put(f, addr);
	fake_finish(work);
	assert_int_equal(get_of(f, 1, BLOCK), addr);
	/* It runs on, and a barrier orders what is to come. */
	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	f->driver.limit_bytes = 2 * BLOCK;
	assert_int_equal(get_of(f, 2, BLOCK), addr);
	assert_int_equal(calls_for_memory(f), 1);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
}

/* A block that is behind a barrier of its shard, while earlier work still touches it, and whose
 * segment has moved to another shard and serves there. */
static uint64_t move_behind_barrier(struct fixture *f)
{
	const uint64_t addr = get_of(f, 0, BLOCK);

	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	f->driver.limit_bytes = 8 * BLOCK;
	(void)case_get(f, 512);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(get_of(f, 1, BLOCK), addr);
	assert_int_equal(segments_of(f, 1), 1);
	return addr;
}

CM_TEST(memory_that_others_will_reach_waits_for_the_barrier_of_its_last_shard)
{
	struct fixture *f;
	struct cm_heap *heap;
	uint64_t addr, ctx;
	size_t i;

	for (i = 0; i < 5; i++) {
		f = open_limit(0);
		addr = move_behind_barrier(f);
		if (i == 0) {
			assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
			fake_judge_reach(f->ctx);
		} else if (i == 1) {
			cm_cache_mark_shared(f->cache, f->ctx);
			fake_reach(f->ctx);
		} else if (i == 2) {
			assert_true(cm_cache_mark_named(f->cache, addr, BLOCK));
			fake_name(addr, BLOCK);
		} else if (i == 3) {
			assert_true(fixture_add_context(f, 0, &heap) != 0);
		} else {
			ctx = fixture_add_context(f, 1, &heap);
			(void)fixture_launch(f, ctx, 1, addr, 512, MS);
		}
		assert_sound(f);
		close_shards(f);
	}
}

/* Where a segment has a mark, its blocks are used where they are. */
shard_case(named_and_exported_segments_do_not_move)
{
	struct fixture *f = *state;
	uint64_t addr = get_of(f, 0, BLOCK), small = get_of(f, 0, 512);

	assert_true(cm_cache_mark_named(f->cache, addr, BLOCK));
	assert_true(cm_cache_mark_named(f->cache, small, 512));
	case_put(f, addr);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(get_of(f, 1, BLOCK), addr);
	assert_int_not_equal(get_of(f, 1, 512), small);
	assert_int_equal(segments_of(f, 0), 2);
	assert_int_equal(segments_of(f, 1), 1);
	/* What others have may not be used again at all. */
	addr = get_of(f, 0, 2 * BLOCK);
	assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
	case_put(f, addr);
	assert_int_not_equal(get_of(f, 1, 2 * BLOCK), 0);
	assert_int_equal(segments_of(f, 1), 2);
}

static uint64_t pending_of(struct fixture *f, uint32_t number)
{
	be_of(f, number);
	return cm_heap_pending_bytes(f->heap);
}

/* What is freed in one shard meanwhile does not keep the others from being ready. */
shard_case(a_wait_of_the_program_makes_all_shards_ready)
{
	struct fixture *f = *state;
	struct cm_program_wait wait;
	uint64_t addr[SHARDS], late, calls;
	uint32_t i;

	late = get_of(f, 1, 512);
	for (i = 0; i < SHARDS; i++)
		addr[i] = get_of(f, i, BLOCK);
	for (i = 0; i < SHARDS; i++)
		(void)case_launch(f, addr[i], MS);
	for (i = 0; i < SHARDS; i++)
		case_put(f, addr[i]);
	calls = f->driver.calls;
	be_of(f, 0);
	wait = cm_cache_begin_wait(f->cache, f->ctx);
	fake_finish_all();
	case_put(f, late);
	cm_cache_end_wait(&wait);
	assert_int_equal(pending_of(f, 0), 0);
	assert_int_equal(pending_of(f, 1), BLOCK + 512);
	assert_int_equal(pending_of(f, 2), 0);
	assert_int_equal(get_of(f, 2, BLOCK), addr[2]);
	assert_int_equal(f->driver.calls, calls);
}

/* Work that names it does not keep other devices from anything. */
shard_case(memory_that_several_shards_have_had_is_of_one_device)
{
	struct fixture *f = *state;
	const uint64_t addr = leave_idle(f, 0, BLOCK);
	struct cm_heap *heap;

	(void)fixture_add_context(f, 1, &heap);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_int_equal(get_of(f, 1, BLOCK), addr);
	assert_int_equal(cm_cache_rows_of(f->cache, addr), 1);
}

shard_case(a_shard_that_is_made_later_is_as_shared_as_the_others)
{
	struct fixture *f = *state;
	uint64_t addr;

	(void)get_of(f, 0, 512);
	cm_cache_mark_shared(f->cache, f->ctx);
	fake_reach(f->ctx);
	f->driver.limit_bytes = 8 * BLOCK;
	addr = get_of(f, 1, BLOCK);
	assert_true(cm_heap_flags(f->heap) & CM_HEAP_SHARED);
	(void)case_launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, BLOCK), addr);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
}

shard_case(a_lost_block_is_retired_in_whichever_shard_it_is)
{
	const struct cm_driver_ops *ops = fake_driver_ops();
	struct fixture *f = *state;
	const uint64_t addr = get_of(f, 1, BLOCK);

	/* By a library that the hooks do not reach. */
	assert_true(ops->gate_enter());
	assert_int_equal(ops->mem_free(f->ctx, addr), 0);
	ops->gate_leave();
	assert_int_equal(get_of(f, 0, BLOCK), addr);
	assert_current(f, CM_POOL_ALL, CM_STAT_ALLOCATION, 1);
	assert_current(f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
}

struct reading {
	struct fixture *f;
	atomic_bool ended;
	uint64_t most;
};

static void *read_returnable(void *data)
{
	struct reading *reading = data;
	uint64_t bytes;

	while (!atomic_load(&reading->ended)) {
		bytes = cm_cache_returnable(reading->f->cache, reading->f->ctx);
		reading->most = bytes > reading->most ? bytes : reading->most;
	}
	return NULL;
}

shard_case(a_segment_that_moves_is_returnable_once)
{
	struct reading reading = {.f = *state};
	pthread_t reader;
	uint32_t i;

	for (i = 0; i < SHARDS; i++)
		be_of(*state, i);
	assert_int_equal(pthread_create(&reader, NULL, read_returnable, &reading), 0);
	for (i = 0; i < MOVES; i++)
		(void)leave_idle(*state, i % SHARDS, BLOCK);
	atomic_store(&reading.ended, true);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(calls_for_memory(*state), 1);
	assert_int_equal(reading.most, BLOCK);
}
