/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, free their own and each other's blocks, launch, poll and trim, with the
 * referee watching: in one context, where barriers are laid, and over two devices, while a third
 * context comes and goes and the two are released without going; with driver allocations, with
 * shards for the threads, and with pages. A plain program, since an assertion of the framework may
 * not fail on another thread. TSan is its best reader.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/base/thread.h"
#include "allocator/entry/uncached.h"
#include "allocator/state/limit.h"
#include "tests/unit/fixture.h"

#define THREADS 6
#define STEPS   3000
#define PLACES  256

/* Where threads leave blocks for each other. */
static uint64_t place[PLACES];
static struct fixture fixture;
static uint64_t ctx[2];
static uint32_t devices;
static bool bare; /* no work and no referee, whose lock would order the threads */
static int failures;

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 33;
}

static uint64_t random_size(uint64_t *random)
{
	return (UINT64_C(512) << next_random(random) % 15) + next_random(random) % 5000;
}

static void fail(const char *what, int err)
{
	(void)fprintf(stderr, "%s: %d\n", what, err);
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void free_block(uint64_t addr)
{
	int err = addr ? fixture_put(&fixture, addr) : 0;

	if (err)
		fail("a block could not be freed", err);
}

/* The heap on one of the devices, of the shard that the thread has chosen. */
static struct cm_heap *heap_on(uint32_t on)
{
	cm_thread.heap = cm_cache_heap_of_thread(fixture.cache, ctx[on]);
	return cm_thread.heap;
}

/* A request of the cache; if the driver has no memory for it, or a capture is active, one of what
 * was freed before. */
static int alloc_either(struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	int err = bare ? cm_cache_alloc(fixture.cache, heap, bytes, ret_addr)
		       : fixture_alloc(&fixture, heap, bytes, ret_addr);
	const uint64_t of = cm_heap_ctx(heap);

	if (err != CM_DRIVER_OUT_OF_MEMORY && err != -EBUSY)
		return err;
	if (cm_cache_alloc_freed(fixture.cache, heap, bytes, ret_addr))
		return err;
	if (!bare)
		fake_allocated(of, *ret_addr, bytes);
	return 0;
}

/* Allocates on one of the devices, works on it, and leaves it for whoever comes by. */
static void step(uint64_t *random)
{
	uint32_t on = (uint32_t)next_random(random) % devices;
	uint64_t bytes = random_size(random), addr = 0;
	int err = alloc_either(heap_on(on), bytes, &addr);

	if (err && err != CM_DRIVER_OUT_OF_MEMORY && err != -EBUSY)
		fail("a request failed", err);
	if (err)
		return;
	if (!bare)
		(void)fixture_launch(&fixture, ctx[on], next_random(random) % 4, addr, bytes,
				     next_random(random) % 50000);
	free_block(
		__atomic_exchange_n(&place[next_random(random) % PLACES], addr, __ATOMIC_ACQ_REL));
}

/* A block that others may reach goes back to the driver when it is freed. */
static void show_one(uint64_t *random)
{
	uint32_t on = (uint32_t)next_random(random) % devices;
	uint64_t bytes = random_size(random), addr = 0;

	if (cm_cache_alloc(fixture.cache, heap_on(on), bytes, &addr))
		return;
	if (cm_cache_mark_exported(fixture.cache, addr))
		fail("a block could not be shown", 0);
	if (!bare)
		(void)fixture_launch(&fixture, ctx[devices - 1 - on], next_random(random) % 4, addr,
				     bytes, next_random(random) % 50000);
	free_block(addr);
}

/* As a release of the primary context that is not the last: it stays. */
static void suspend_for_a_while(uint64_t of)
{
	struct cm_heap *suspended;

	cm_cache_lock_contexts(fixture.cache);
	suspended = cm_cache_suspend_heap(fixture.cache, of);
	cm_cache_unlock_contexts(fixture.cache);
	cm_heap_await_calls(suspended);
	fake_advance(20000);
	cm_cache_lock_contexts(fixture.cache);
	cm_cache_resume_heap(suspended);
	cm_cache_unlock_contexts(fixture.cache);
}

/* cuCtxSynchronize of the program, which a capture forbids. */
static void wait_for(uint64_t of)
{
	const struct cm_driver_ops *ops = fake_driver_ops();
	const struct cm_program_wait wait = cm_cache_begin_wait(fixture.cache, of);
	int err;

	if (!ops->gate_enter())
		return;
	err = ops->ctx_synchronize(of);
	ops->gate_leave();
	if (!err)
		cm_cache_end_wait(&wait);
}

static uint64_t random_place(uint64_t *random)
{
	return __atomic_load_n(&place[next_random(random) % PLACES], __ATOMIC_RELAXED);
}

static void look_up(uint64_t *random)
{
	const uint64_t addr = random_place(random);
	struct cm_place_info info;

	cm_cache_lookup(fixture.cache, addr + next_random(random) % 4096, &info);
}

/* To a network card. */
static void name_one(uint64_t *random)
{
	(void)cm_cache_mark_named(fixture.cache, random_place(random), 512);
}

static void reach_one(uint64_t *random)
{
	const uint64_t rows = cm_cache_rows_of(fixture.cache, random_place(random));

	cm_cache_end_reach(fixture.cache,
			   cm_cache_begin_reach(fixture.cache, ctx[devices - 1], rows));
	cm_cache_note_work(fixture.cache, ctx[0]);
	cm_cache_before_work(fixture.cache);
}

/* As tools do. */
static void take_snapshot(uint64_t *random)
{
	uint64_t on;

	cm_cache_hold(fixture.cache);
	cm_cache_note_snapshot(fixture.cache);
	cm_cache_resume(fixture.cache);
	(void)cm_cache_record_events(fixture.cache, CM_ALL_DEVICES, next_random(random) % 4, &on);
	cm_cache_clear_events(fixture.cache, CM_ALL_DEVICES);
}

static void set_limit(uint64_t *random)
{
	cm_cache_set_memory_limit(fixture.cache, next_random(random) % 2 ? UINT64_MAX : 400 * MIB);
}

static void read_counters(uint64_t *random)
{
	struct cm_device_row row;
	struct cm_host_row host;

	(void)cm_cache_read_device(fixture.cache, (uint32_t)next_random(random) % devices, &row);
	cm_cache_read_host(fixture.cache, &host);
}

/* Memory outside the cache comes, or is freed. */
static void count_other(uint64_t *random)
{
	const struct cm_uncached_memory memory = {
		.ctx = ctx[0], .kind = CM_UNCACHED_MANAGED, .bytes = 4096};
	const uint64_t addr = (1 + next_random(random) % 64) << 12;

	if (next_random(random) % 2)
		cm_uncached_add(fixture.cache, CM_NAME_ADDRESS, addr, &memory);
	else
		cm_uncached_drop(fixture.cache,
				 cm_uncached_take(fixture.cache, CM_NAME_ADDRESS, addr));
}

/* What tools and other hooks do now and then. */
static void (*const others[])(uint64_t *random) = {
	look_up, name_one, reach_one, take_snapshot, set_limit, read_counters, count_other,
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

static void *work(void *arg)
{
	const bool decays = (uintptr_t)arg == 2; /* one thread does */
	uint64_t random = (uintptr_t)arg, bytes, total;
	int i;

	for (i = 0; i < STEPS; i++) {
		step(&random);
		switch (next_random(&random) % 64) {
		case 0:
			cm_cache_poll(fixture.cache);
			break;
		case 1:
			(void)cm_cache_trim(fixture.cache, i % 2, NULL);
			break;
		case 2:
			(void)cm_cache_returnable(fixture.cache, ctx[0]);
			break;
		case 3:
			cm_cache_reset_peak(fixture.cache, 0);
			break;
		case 4:
			fake_advance(1000000);
			break;
		case 5:
			(void)cm_cache_give_back(fixture.cache, i % 2, 8 * MIB, 1000000, &bytes);
			break;
		case 6:
			if (decays)
				(void)cm_cache_decay(fixture.cache);
			break;
		case 7:
			show_one(&random);
			break;
		case 8:
			(void)cm_cache_mem_info(fixture.cache, ctx[0], &bytes, &total);
			break;
		case 9:
			wait_for(ctx[i % (int)devices]);
			break;
		default:
			if (next_random(&random) % 8 == 0)
				others[next_random(&random) % OTHERS](&random);
			break;
		}
	}
	return NULL;
}

/* A third context comes and goes, and captures with it. */
static void *stir(void *arg)
{
	uint64_t random = (uintptr_t)arg, addr, other;
	struct cm_heap *third;
	int i;

	for (i = 0; i < STEPS / 30; i++) {
		addr = 0;
		other = fixture_add_context(&fixture, 0, &third);
		if (!other) {
			fail("a context has no heap", 0);
			break;
		}
		if (!fixture_alloc(&fixture, third, random_size(&random), &addr))
			(void)fixture_launch(&fixture, other, 0, addr, 512, 20000);
		if (i % 2)
			free_block(addr);
		suspend_for_a_while(ctx[i % 2]);
		cm_cache_before_capture(fixture.cache);
		fake_capture(true);
		step(&random);
		fake_capture(false);
		fixture_remove_context(&fixture, other);
	}
	return NULL;
}

/* Thread 0 stirs, where there is something to stir. */
static void run_threads(uintptr_t first)
{
	pthread_t thread[THREADS + 1];
	uintptr_t i;

	for (i = first; i <= THREADS; i++)
		if (pthread_create(&thread[i], NULL, i ? work : stir, (void *)(i + 1)))
			abort();
	for (i = first; i <= THREADS; i++)
		(void)pthread_join(thread[i], NULL);
}

static void complain(void)
{
	const char *complaint = fixture_complaint(&fixture);

	if (complaint)
		fail(complaint, 0);
}

static void run(uint32_t on_devices, bool on_pages, enum cm_shards shards)
{
	struct cm_heap *heap;
	struct cm_policy policy;
	size_t i;

	cm_policy_init(&policy);
	policy.expandable_segments = on_pages;
	policy.shards = shards;
	policy.shards_most = 3;
	policy.decay_ns = 20000000;
	if (!fixture_open(&fixture, &(struct fixture_params){.policy = &policy,
							     .limit_bytes = 512 * MIB,
							     .events = 1024}))
		abort();
	devices = on_devices;
	ctx[0] = fixture.ctx;
	if (devices > 1)
		ctx[1] = fixture_add_context(&fixture, 1, &heap);
	run_threads(devices > 1 ? 0 : 1);
	complain();
	for (i = 0; i < PLACES; i++) {
		free_block(place[i]);
		place[i] = 0;
	}
	fake_finish_all();
	if (cm_cache_trim(fixture.cache, UINT32_MAX, NULL))
		fail("a trim failed", 0);
	complain();
	if (fixture.driver.used_bytes[0] || fixture.driver.used_bytes[1])
		fail("memory is lost", 0);
	fixture_close(&fixture);
}

int main(void)
{
	run(1, false, CM_SHARDS_OFF);
	run(2, false, CM_SHARDS_OFF);
	run(1, false, CM_SHARDS_ALWAYS);
	run(2, false, CM_SHARDS_ALWAYS);
	run(2, false, CM_SHARDS_AUTO);
	run(1, true, CM_SHARDS_OFF);
	run(2, true, CM_SHARDS_OFF);
	bare = true;
	run(2, false, CM_SHARDS_OFF);
	run(1, false, CM_SHARDS_ALWAYS);
	run(2, false, CM_SHARDS_AUTO);
	run(2, true, CM_SHARDS_OFF);
	return failures != 0;
}
