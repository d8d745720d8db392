/* SPDX-License-Identifier: MIT */
/*
 * What a limit leaves is taken by one thread only, whatever the others ask for, and a limit may
 * change at any time.
 */
#include "allocator/state/limit.h"

#include <pthread.h>
#include <stdlib.h>

#include "allocator/cache.h"
#include "allocator/entry/uncached.h"
#include "tests/unit/fixture_case.h"

#define GIB     (UINT64_C(1) << 30)
#define THREADS 4
#define STEPS   20000

static struct fixture *open_limited(uint64_t limit)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.memory_limit = limit;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = GIB});
}

static uint64_t taken(const struct fixture *f)
{
	return atomic_load(&f->heap->device->taken_bytes);
}

CM_TEST(as_much_is_taken_as_the_limit_leaves)
{
	struct fixture *f = open_limited(100 * MIB);
	struct cm_device *device = f->heap->device;

	assert_true(cm_limit_take(device, 60 * MIB));
	assert_false(cm_limit_take(device, 40 * MIB + 1));
	assert_true(cm_limit_refuses(device, 40 * MIB + 1));
	assert_false(cm_limit_take(device, UINT64_MAX));
	assert_true(cm_limit_take(device, 40 * MIB));
	assert_false(cm_limit_take(device, 1));
	assert_int_equal(taken(f), 100 * MIB);
	cm_limit_give(device, 100 * MIB);
	/* An unknown row has none, and counts nothing. */
	assert_true(cm_cache_take_limit(f->cache, 7, GIB));
	cm_cache_give_limit(f->cache, 7, GIB);
	assert_int_equal(taken(f), 0);
	case_close(f);
}

CM_TEST(a_limit_below_what_is_taken_takes_nothing_away)
{
	struct cm_policy policy;
	struct cm_device *device;
	struct fixture *f;
	uint64_t addr, limit, used;

	cm_policy_init(&policy);
	policy.decay_ns = 0;
	f = case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = GIB});
	device = f->heap->device;
	addr = case_get(f, 60 * MIB);
	assert_false(cm_cache_has_limit(f->cache));
	cm_cache_set_memory_limit(f->cache, 40 * MIB);
	assert_true(cm_cache_has_limit(f->cache));
	cm_cache_read_limit(f->cache, 0, &limit, &used);
	assert_int_equal(limit, 40 * MIB);
	assert_int_equal(used, 60 * MIB);
	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 20 * MIB, &addr),
			 CM_DRIVER_OUT_OF_MEMORY);
	assert_true(f->driver.last_oom.figures.limited);
	/* What is idle goes back, whatever the decay time is. */
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(cm_limit_exceeded(device), 20 * MIB);
	assert_true(cm_cache_decay(f->cache) == UINT64_MAX);
	assert_int_equal(f->driver.used_bytes[0], 0);
	addr = case_get(f, 39 * MIB);
	assert_true(f->driver.used_bytes[0] <= 40 * MIB);
	cm_cache_set_memory_limit(f->cache, UINT64_MAX);
	assert_true(cm_limit_take(device, GIB));
	cm_limit_give(device, GIB);
	case_close(f);
}

/* Of each kind, and of memory that comes in pieces. */
CM_TEST(all_that_is_taken_goes_back)
{
	struct fixture *f = open_limited(UINT64_MAX);
	struct cm_uncached_memory memory = {.kind = CM_UNCACHED_PITCH, .bytes = 3 * MIB};
	uint64_t addr = case_get(f, 30 * MIB), small = case_get(f, 100);

	assert_true(cm_cache_take_limit(f->cache, 0, 2 * MIB));
	memory.taken = 2 * MIB; /* more came than was asked for */
	cm_uncached_add(f->cache, CM_NAME_ADDRESS, 64 * GIB, &memory);
	assert_int_equal(taken(f), f->driver.used_bytes[0] + 3 * MIB);
	assert_true(cm_cache_take_limit(f->cache, 0, 2 * MIB));
	memory.taken = 2 * MIB; /* less came, or it has no name */
	memory.bytes = MIB;
	cm_uncached_add(f->cache, CM_NAME_ADDRESS, 65 * GIB, &memory);
	assert_int_equal(taken(f), f->driver.used_bytes[0] + 4 * MIB);
	assert_true(cm_cache_take_limit(f->cache, 0, 2 * MIB));
	cm_uncached_add(f->cache, CM_NAME_ADDRESS, 0, &memory);
	assert_int_equal(taken(f), f->driver.used_bytes[0] + 4 * MIB);
	assert_sound(f);
	cm_uncached_drop(f->cache, cm_uncached_take(f->cache, CM_NAME_ADDRESS, 64 * GIB));
	cm_uncached_drop(f->cache, cm_uncached_take(f->cache, CM_NAME_ADDRESS, 65 * GIB));
	case_put(f, addr);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_int_equal(f->driver.used_bytes[0], 0);
	assert_int_equal(taken(f), 0);
	case_close(f);
}

/* Each call of the driver fails in turn: what a request leaves behind is what the driver says. */
static void fail_each_call(bool pages)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr, n = 0;
	bool failed;

	cm_policy_init(&policy);
	policy.expandable_segments = pages;
	do {
		f = case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = GIB});
		case_fail_call(f, ++n, CM_DRIVER_OUT_OF_MEMORY);
		if (cm_cache_alloc(f->cache, f->heap, 9 * MIB, &addr))
			addr = 0;
		failed = f->driver.failed;
		f->driver.fail_call = 0;
		assert_int_equal(taken(f), f->driver.used_bytes[0]);
		if (addr)
			case_put(f, addr);
		case_settle(f);
		assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
		assert_int_equal(taken(f), f->driver.used_bytes[0]);
		case_close(f);
	} while (failed);
	assert_true(n > 1);
}

CM_TEST(what_fails_is_given_back)
{
	fail_each_call(false);
	fail_each_call(true);
}

struct taker {
	pthread_t thread;
	struct fixture *f;
	unsigned seed;
	uint64_t held;
};

/* None may fail for memory that is there: a quarter of the limit is each thread's. */
static void *take_own_share(void *arg)
{
	struct taker *taker = arg;
	struct cm_device *device = taker->f->heap->device;
	int i;

	for (i = 0; i < STEPS; i++) {
		/* What never fits is in nobody's way. */
		if (cm_limit_take(device, GIB) || !cm_limit_take(device, 25 * MIB))
			return arg;
		cm_limit_give(device, 25 * MIB);
	}
	return NULL;
}

static void *take_any(void *arg)
{
	struct taker *taker = arg;
	struct cm_device *device = taker->f->heap->device;
	uint64_t bytes;
	int i;

	for (i = 0; i < STEPS; i++) {
		bytes = (uint64_t)rand_r(&taker->seed) % (60 * MIB);
		if (!(i % 64)) {
			cm_cache_set_memory_limit(taker->f->cache, 20 * MIB + bytes);
		} else if (taker->held) {
			cm_limit_give(device, taker->held);
			taker->held = 0;
		} else if (cm_limit_take(device, bytes)) {
			/* The largest limit there ever is. */
			if (taken(taker->f) > 80 * MIB)
				return arg;
			taker->held = bytes;
		}
	}
	return NULL;
}

static void storm(struct fixture *f, void *(*run)(void *arg))
{
	struct taker taker[THREADS];
	uint64_t held = 0;
	void *bad;
	int i;

	for (i = 0; i < THREADS; i++) {
		taker[i] = (struct taker){.f = f, .seed = (unsigned)i + 1};
		assert_int_equal(pthread_create(&taker[i].thread, NULL, run, &taker[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(taker[i].thread, &bad), 0);
		assert_null(bad);
		held += taker[i].held;
	}
	assert_int_equal(taken(f), held);
	cm_limit_give(f->heap->device, held);
}

CM_TEST(threads_share_what_the_limit_leaves)
{
	struct fixture *f = open_limited(THREADS * 25 * MIB);

	storm(f, take_own_share);
	case_close(f);
}

CM_TEST(a_limit_that_changes_in_a_storm_is_kept)
{
	struct fixture *f = open_limited(20 * MIB);

	storm(f, take_any);
	case_close(f);
}
