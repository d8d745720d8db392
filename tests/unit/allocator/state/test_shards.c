/* SPDX-License-Identifier: MIT */
/* What acts on a device acts on all its shards, and their figures add up to those of a device. */
#include "allocator/state/shards.h"

#include <errno.h>
#include <string.h>

#include "allocator/state/suspended.h"
#include "tests/unit/shard_case.h"

/* ---- what acts on the device ---- */

static void leave_idle_in_all(struct fixture *f)
{
	uint64_t addr[SHARDS], small[SHARDS];
	uint32_t i;

	for (i = 0; i < SHARDS; i++) {
		addr[i] = get_of(f, i, (i + 1) * BLOCK);
		small[i] = get_of(f, i, 512);
	}
	for (i = 0; i < SHARDS; i++) {
		case_put(f, addr[i]);
		case_put(f, small[i]);
	}
	assert_int_equal(case_reserved(f), 6 * BLOCK + SHARDS * 2 * MIB);
}

shard_case(a_trim_returns_the_memory_of_all_shards)
{
	struct fixture *f = *state;
	uint64_t bytes = 0;

	leave_idle_in_all(f);
	assert_true(cm_cache_has_cached(f->cache, 0));
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 6 * BLOCK + SHARDS * 2 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, 6 * BLOCK + SHARDS * 2 * MIB);
	assert_no_memory(f);
	assert_false(cm_cache_has_cached(f->cache, 0));
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 0);
	assert_int_equal(f->driver.used_bytes[0], 0);
	leave_idle_in_all(f);
	assert_int_equal(cm_cache_make_room(f->cache, f->ctx), 6 * BLOCK + SHARDS * 2 * MIB);
	assert_no_memory(f);
	leave_idle_in_all(f);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_no_memory(f);
}

shard_case(another_process_gets_memory_of_all_shards)
{
	struct fixture *f = *state;
	uint64_t bytes = 0;

	leave_idle_in_all(f);
	case_settle(f);
	assert_int_equal(cm_cache_give_back(f->cache, 0, 6 * BLOCK, MS, &bytes), 0);
	assert_true(bytes >= 6 * BLOCK);
	assert_true(case_reserved(f) <= SHARDS * 2 * MIB);
	assert_sound(f);
}

CM_TEST(memory_of_all_shards_decays)
{
	struct cm_policy policy;
	struct fixture *f;
	int i;

	cm_policy_init(&policy);
	policy.decay_ns = 1000 * MS;
	f = open_with(&policy, 0);
	leave_idle_in_all(f);
	case_settle(f);
	for (i = 0; i < 200; i++) {
		fake_advance(20 * MS);
		(void)cm_cache_decay(f->cache);
		assert_sound(f);
	}
	assert_no_memory(f);
	close_shards(f);
}

CM_TEST(memory_of_all_shards_returns_rather_than_a_request_fails)
{
	struct fixture *f = open_limit(10 * BLOCK);
	uint64_t addr[SHARDS];
	uint32_t i;

	for (i = 0; i < SHARDS; i++)
		addr[i] = get_of(f, i, 3 * BLOCK);
	be_of(f, 0);
	assert_int_equal(case_try(f, 4 * BLOCK), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.ooms_told, 1);
	assert_int_equal(f->driver.last_oom.figures.live, 9 * BLOCK);
	assert_int_equal(f->driver.last_oom.blocks, SHARDS);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	for (i = 0; i < SHARDS; i++) {
		(void)case_launch(f, addr[i], MS);
		case_put(f, addr[i]);
	}
	assert_int_equal(fake_memory_of(case_get(f, 10 * BLOCK)).bytes, 10 * BLOCK);
	assert_int_equal(case_reserved(f), 10 * BLOCK);
	close_shards(f);
}

shard_case(idle_segments_of_all_shards_go_for_a_larger_one)
{
	struct fixture *f = *state;
	uint64_t addr[2];

	addr[0] = get_of(f, 0, BLOCK);
	addr[1] = get_of(f, 1, BLOCK);
	case_put(f, addr[0]);
	case_put(f, addr[1]);
	case_settle(f);
	(void)get_of(f, 2, 2 * BLOCK);
	assert_int_equal(case_reserved(f), 2 * BLOCK);
	assert_int_equal(fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak, 2 * BLOCK);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 2 * BLOCK);
}

CM_TEST(the_limit_is_one_for_all_shards)
{
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	policy.memory_limit = 10 * BLOCK;
	f = open_with(&policy, 0);
	(void)get_of(f, 0, 5 * BLOCK);
	(void)get_of(f, 1, 4 * BLOCK);
	be_of(f, 2);
	assert_int_equal(case_try(f, 2 * BLOCK), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(calls_for_memory(f), 2);
	(void)case_get(f, BLOCK);
	assert_int_equal(case_reserved(f), 10 * BLOCK);
	assert_false(cm_cache_may_have(f->cache, 0, 11 * BLOCK));
	assert_true(cm_cache_may_have(f->cache, 0, 10 * BLOCK));
	close_shards(f);
}

/* ---- contexts ---- */

/* Live, pending and idle memory in all shards. */
static void fill_all(struct fixture *f)
{
	uint64_t addr;
	uint32_t i;

	for (i = 0; i < SHARDS; i++) {
		(void)get_of(f, i, 5 * MIB);
		(void)get_of(f, i, 700);
		addr = get_of(f, i, BLOCK + i * MIB);
		(void)case_launch(f, addr, 10 * MS);
		case_put(f, addr);
	}
}

shard_case(a_context_that_ends_takes_its_memory_in_all_shards)
{
	struct fixture *f = *state;
	const uint64_t ctx = f->ctx;
	struct cm_heap *heap;
	uint32_t i;

	fill_all(f);
	fixture_remove_context(f, ctx);
	assert_sound(f);
	assert_no_memory(f);
	assert_null(cm_cache_find_heap(f->cache, ctx));
	for (i = 0; i < atomic_load(&f->cache->heaps); i++)
		assert_int_equal(cm_heap_ctx(atomic_load(&f->cache->heap[i])), 0);
	/* The next one has the same shards, once its threads need them. */
	f->ctx = fixture_add_context(f, 0, &heap);
	assert_int_equal(cm_cache_device_row(f->cache, 0), 0);
	fill_all(f);
	assert_int_equal(atomic_load(&f->cache->devices), SHARDS);
	assert_int_equal(atomic_load(&f->cache->heaps), SHARDS);
}

shard_case(another_context_of_the_device_keeps_its_memory)
{
	struct fixture *f = *state;
	const uint64_t ctx = f->ctx;
	struct cm_heap *heap;
	uint64_t addr;

	fill_all(f);
	f->ctx = fixture_add_context(f, 0, &heap);
	addr = get_of(f, 1, 6 * BLOCK);
	fill_all(f);
	case_settle(f);
	fixture_remove_context(f, ctx);
	assert_current(f, CM_POOL_ALL, CM_STAT_ALLOCATION, 2 * SHARDS + 1);
	be_of(f, 2);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(get_of(f, 0, 6 * BLOCK), addr);
}

static struct cm_heap *suspend(struct fixture *f)
{
	struct cm_heap *heap;

	cm_cache_lock_contexts(f->cache);
	heap = cm_cache_suspend_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	cm_heap_await_calls(heap);
	return heap;
}

shard_case(no_memory_of_a_suspended_context_moves_or_returns)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr, bytes = 0, calls;

	addr = leave_idle(f, 1, BLOCK);
	(void)get_of(f, 0, 512);
	heap = suspend(f);
	assert_sound(f);
	calls = f->driver.calls;
	assert_int_equal(cm_cache_returnable(f->cache, f->ctx), 0);
	assert_int_equal(cm_cache_give_back(f->cache, 0, BLOCK, MS, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(f->driver.calls, calls);
	cm_cache_lock_contexts(f->cache);
	cm_cache_resume_heap(heap);
	cm_cache_unlock_contexts(f->cache);
	assert_int_equal(get_of(f, 0, BLOCK), addr);
}

shard_case(a_context_that_drains_returns_the_memory_of_all_shards)
{
	struct fixture *f = *state;
	uint32_t i;

	leave_idle_in_all(f);
	case_settle(f);
	cm_cache_drain_heap(f->cache, f->ctx);
	cm_cache_poll(f->cache);
	assert_no_memory(f);
	for (i = 0; i < SHARDS; i++) {
		be_new(f);
		cm_thread.shard = i + 1;
		cm_thread.pauses = UINT32_MAX;
		f->heap = cm_cache_heap_of_thread(f->cache, f->ctx);
		assert_int_equal(case_try(f, BLOCK), -EAGAIN);
	}
	assert_sound(f);
}

shard_case(a_context_that_broke_has_no_shard_that_serves)
{
	struct fixture *f = *state;
	uint32_t i;

	fill_all(f);
	fake_context_break(f->ctx, FAKE_STICKY_ERROR);
	cm_cache_poll(f->cache);
	for (i = 0; i < SHARDS; i++) {
		be_new(f);
		cm_thread.shard = i + 1;
		f->heap = cm_cache_heap_of_thread(f->cache, f->ctx);
		assert_int_not_equal(case_try(f, 7 * BLOCK), 0);
		assert_true(cm_heap_drains(f->heap));
	}
	assert_sound(f);
	fixture_remove_context(f, f->ctx);
	assert_no_memory(f);
}

/* ---- figures ---- */

shard_case(resets_are_of_all_shards)
{
	struct fixture *f = *state;
	struct cm_stat4 is;

	leave_idle_in_all(f);
	(void)get_of(f, 0, 512);
	cm_cache_reset_peak(f->cache, 0);
	assert_sound(f);
	is = fixture_stat(f, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES);
	assert_int_equal(is.peak, 512);
	is = fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES);
	assert_int_equal(is.peak, is.current);
	cm_cache_reset_accumulated(f->cache, 0);
	assert_sound(f);
	is = fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES);
	assert_int_equal(is.allocated, 0);
	assert_int_equal(is.freed, 0);
	/* Segments move, which is no allocation. */
	(void)get_of(f, 2, BLOCK);
	(void)get_of(f, 2, 2 * BLOCK);
	is = fixture_stat(f, CM_POOL_ALL, CM_STAT_SEGMENT);
	assert_int_equal(is.allocated, 0);
	assert_int_equal(is.freed, 0);
	is = fixture_stat(f, CM_POOL_ALL, CM_STAT_ALLOCATION);
	assert_int_equal(is.allocated, 2);
	assert_sound(f);
}

shard_case(a_snapshot_holds_all_shards)
{
	struct fixture *f = *state;

	fill_all(f);
	cm_cache_hold(f->cache);
	cm_cache_note_snapshot(f->cache);
	cm_cache_resume(f->cache);
	(void)get_of(f, 2, BLOCK);
	assert_int_equal(segments_of(f, 2) > 0, 1);
}

#define PLACES 64
#define STEPS  6000

/* Families that only a request raises, as the last that it does. */
static const enum cm_stat exact[] = {CM_STAT_ALLOCATION, CM_STAT_ALLOCATED_BYTES, CM_STAT_ACTIVE,
				     CM_STAT_ACTIVE_BYTES, CM_STAT_REQUESTED_BYTES};

static void note_peaks(struct fixture *f, int64_t peak[CM_POOL_COUNT][CM_STAT_COUNT])
{
	struct cm_device_row row;
	uint32_t pool, i;
	struct cm_stat4 is;

	(void)cm_cache_read_device(f->cache, 0, &row);
	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
			is = cm_stat_read(&row, (enum cm_pool)pool, exact[i]);
			if (peak[pool][exact[i]] < is.current)
				peak[pool][exact[i]] = is.current;
			if (is.peak != peak[pool][exact[i]])
				fail_msg("family %u of pool %u: peak %lld, not %lld", exact[i],
					 pool, (long long)is.peak, (long long)peak[pool][exact[i]]);
		}
}

/* The only shard lifts these peaks when memory becomes ready; one of several must have them. */
shard_case(a_peak_outlasts_a_further_shard)
{
	static const enum cm_pool pools[] = {CM_POOL_ALL, CM_POOL_SMALL};
	struct fixture *f = *state;
	uint64_t addr = get_of(f, 0, 512);
	size_t i;

	/* More is active than at any request that was a peak of what is allocated. */
	(void)case_launch(f, addr, MS);
	case_put(f, addr);
	addr = get_of(f, 0, 512);
	be_of(f, 1);
	case_put(f, addr);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_no_memory(f);
	for (i = 0; i < 2; i++) {
		assert_int_equal(fixture_stat(f, pools[i], CM_STAT_ALLOCATION).peak, 1);
		assert_int_equal(fixture_stat(f, pools[i], CM_STAT_ACTIVE).peak, 2);
		assert_int_equal(fixture_stat(f, pools[i], CM_STAT_ACTIVE_BYTES).peak, 1024);
		assert_int_equal(fixture_stat(f, pools[i], CM_STAT_REQUESTED_BYTES).peak, 1024);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 33;
}

static uint64_t random_size(uint64_t *random)
{
	const uint64_t n = next_random(random);

	return n % 3 ? n % (MIB / 2) + 1 : n % (30 * MIB) + MIB;
}

/* Against a model of all that is in use, and of the most that ever was; at first with one shard. */
shard_case(peaks_are_exact_in_any_sequence)
{
	struct fixture *f = *state;
	int64_t peak[CM_POOL_COUNT][CM_STAT_COUNT] = {{0}}, blocks = 0;
	struct {
		uint64_t addr, bytes;
	} place[PLACES] = {{0}}, *at;
	uint64_t random = 1;
	int i;

	f->driver.limit_bytes = 1 * GIB;
	for (i = 0; i < STEPS; i++) {
		be_of(f, (uint32_t)next_random(&random) % (i < STEPS / 2 ? 1 : SHARDS));
		at = &place[next_random(&random) % (next_random(&random) % PLACES + 1)];
		if (at->addr) {
			assert_int_equal(fixture_put(f, at->addr), 0);
			blocks--;
			at->addr = 0;
		} else {
			at->bytes = random_size(&random);
			if (!fixture_alloc(f, f->heap, at->bytes, &at->addr)) {
				blocks++;
				(void)fixture_launch(f, f->ctx, 1, at->addr, 512, MS);
			}
		}
		/* Before a trim makes what is pending ready. */
		note_peaks(f, peak);
		if (next_random(&random) % 50 == 0)
			fake_advance(next_random(&random) % (5 * MS));
		if (next_random(&random) % 300 == 0)
			(void)cm_cache_trim(f->cache, 0, NULL);
		if (next_random(&random) % 500 == 0) {
			cm_cache_reset_peak(f->cache, 0);
			memset(peak, 0, sizeof(peak));
		}
		assert_sound(f);
		note_peaks(f, peak);
		assert_current(f, CM_POOL_ALL, CM_STAT_ALLOCATION, blocks);
	}
	for (at = place; at < place + PLACES; at++)
		if (at->addr)
			assert_int_equal(fixture_put(f, at->addr), 0);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	assert_no_memory(f);
	assert_int_equal(f->driver.used_bytes[0], 0);
	for (i = 0; i < SHARDS; i++)
		assert_int_equal(segments_of(f, (uint32_t)i), 0);
}
