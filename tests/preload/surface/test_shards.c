/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate and free as fast as they can, each in a shard of its own: the contents of
 * their blocks stay theirs, also of those that another thread frees, and the counters are exact.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/counters.h"
#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define THREADS         4
#define ROUNDS          3000
#define HELD            12 /* blocks of a thread */
#define PASSED          16 /* blocks on their way from one thread to another */
#define SECONDS_AT_MOST 60 /* a role that hangs ends so */

struct block {
	CUdeviceptr addr;
	uint64_t bytes;
	uint64_t mark; /* at both ends */
};

static CUcontext context;
static struct block passed[PASSED];
static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t requests;
static _Atomic bool stop;

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *state >> 33;
}

static uint64_t random_bytes(uint64_t *random)
{
	const uint64_t n = next_random(random);

	return (n % 8 ? 16 + n % 100000 : MIB + n % (4 * MIB)) & ~UINT64_C(7);
}

static void fill(const struct block *block)
{
	OK(cuMemcpyHtoD_v2(block->addr, &block->mark, sizeof(block->mark)));
	OK(cuMemcpyHtoD_v2(block->addr + block->bytes - sizeof(block->mark), &block->mark,
			   sizeof(block->mark)));
}

static void must_be_filled(const struct block *block)
{
	uint64_t first = 0, last = 0;

	OK(cuMemcpyDtoH_v2(&first, block->addr, sizeof(first)));
	OK(cuMemcpyDtoH_v2(&last, block->addr + block->bytes - sizeof(last), sizeof(last)));
	CM_MUST(first == block->mark && last == block->mark);
}

static void put(struct block *block)
{
	if (!block->addr)
		return;
	must_be_filled(block);
	OK(cuMemFree_v2(block->addr));
	block->addr = 0;
}

/* Leaves the block for another thread, and frees one that was left. */
static void pass(struct block *block, uint64_t at)
{
	struct block other;

	CM_MUST(!pthread_mutex_lock(&passing));
	other = passed[at];
	passed[at] = *block;
	CM_MUST(!pthread_mutex_unlock(&passing));
	block->addr = 0;
	put(&other);
}

static void get(struct block *block, uint64_t *random)
{
	block->bytes = random_bytes(random);
	block->mark = next_random(random) << 32 | next_random(random);
	block->addr = cm_get(block->bytes);
	atomic_fetch_add(&requests, 1);
	fill(block);
}

static void *churn(void *number)
{
	uint64_t random = (uintptr_t)number;
	struct block held[HELD] = {{0}}, *block;
	int i;

	OK(cuCtxSetCurrent(context));
	for (i = 0; i < ROUNDS; i++) {
		block = &held[next_random(&random) % HELD];
		if (!block->addr)
			get(block, &random);
		else if (next_random(&random) % 4)
			put(block);
		else
			pass(block, next_random(&random) % PASSED);
	}
	for (i = 0; i < HELD; i++)
		put(&held[i]);
	return NULL;
}

/* The library has started: until it has, requests of other threads go to the driver. */
static CUcontext open_and_count(void)
{
	const CUcontext ctx = cm_open(0);

	OK(cuMemFree_v2(cm_get(512)));
	atomic_fetch_add(&requests, 1);
	return ctx;
}

static void start(pthread_t *threads, void *(*run)(void *number))
{
	uintptr_t i;

	(void)alarm(SECONDS_AT_MOST);
	for (i = 0; i < THREADS; i++)
		CM_MUST(!pthread_create(&threads[i], NULL, run, (void *)(i + 1)));
}

static void join(const pthread_t *threads)
{
	int i;

	for (i = 0; i < THREADS; i++)
		CM_MUST(!pthread_join(threads[i], NULL));
}

static void must_be_exact(void)
{
	const struct cm_device_row row = cm_own_counters(0);
	struct cm_stat4 is;

	is = cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATION);
	CM_MUST(!is.current && is.allocated == is.freed);
	CM_MUST(is.allocated == (int64_t)atomic_load(&requests));
	CM_MUST(is.peak >= 1 && is.peak <= THREADS * (HELD + 1) + PASSED);
	is = cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES);
	CM_MUST(!is.current && is.allocated == is.freed && is.peak <= is.allocated);
	is = cm_stat_read(&row, CM_POOL_ALL, CM_STAT_RESERVED_BYTES);
	CM_MUST(is.current == is.allocated - is.freed && is.peak >= is.current);
	CM_MUST(is.current == (int64_t)cudasim_used_bytes(0));
	CM_MUST(row.scalar[CM_SCALAR_cache_hits] + row.scalar[CM_SCALAR_cache_misses] ==
		(int64_t)atomic_load(&requests));
	CM_MUST(row.scalar[CM_SCALAR_forwarded_allocs] == 0);
	CM_MUST(row.scalar[CM_SCALAR_forwarded_frees] == 0);
}

/* What the program reads is what a tool reads. */
static void must_agree(const struct cm_api *api)
{
	const struct cm_device_row row = cm_own_counters(0);

	CM_MUST((int64_t)api->memory_reserved(0) ==
		cm_stat_read(&row, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).current);
	CM_MUST((int64_t)api->max_memory_reserved(0) ==
		cm_stat_read(&row, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak);
	CM_MUST((int64_t)api->max_memory_allocated(0) ==
		cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES).peak);
	CM_MUST(api->memory_allocated(0) == 0);
}

CM_ROLE(churn)
{
	pthread_t threads[THREADS];
	struct cm_api api;
	int i;

	cm_api_open(&api);
	context = open_and_count();
	start(threads, churn);
	join(threads);
	for (i = 0; i < PASSED; i++)
		put(&passed[i]);
	OK(cuCtxSynchronize());
	must_be_exact();
	must_agree(&api);
	api.empty_cache();
	CM_MUST(cm_reserved() == 0 && cudasim_used_bytes(0) == 0);
	must_be_exact();
}

/* Until the driver refuses something, or the role ends. */
static void *churn_on(void *number)
{
	uint64_t random = (uintptr_t)number;
	CUdeviceptr held[HELD] = {0}, *block;
	CUresult res = cuCtxSetCurrent(context);

	while (!res && !atomic_load(&stop)) {
		block = &held[next_random(&random) % HELD];
		if (*block) {
			res = cuMemFree_v2(*block);
			*block = 0;
		} else {
			res = cuMemAlloc_v2(block, random_bytes(&random));
			if (!res)
				res = cuMemsetD8Async(*block, 1, 16, NULL);
			atomic_fetch_add(&requests, 1);
		}
	}
	return NULL;
}

static void wait_for_requests(uint64_t n)
{
	const uint64_t end = atomic_load(&requests) + n;

	while (atomic_load(&requests) < end)
		(void)usleep(100);
}

/* Other threads hold whatever locks they hold. The child has no device, and is told so. */
static void fork_once(void)
{
	CUdeviceptr addr = 0;
	const pid_t child = fork();

	CM_MUST(child >= 0);
	if (!child) {
		(void)alarm(SECONDS_AT_MOST);
		_exit(cuMemAlloc_v2(&addr, 512) == CUDA_SUCCESS);
	}
	cm_wait_for_child(child);
}

CM_ROLE(fork)
{
	pthread_t threads[THREADS];
	int i;

	context = open_and_count();
	start(threads, churn_on);
	for (i = 0; i < 20; i++) {
		wait_for_requests(200);
		fork_once();
	}
	atomic_store(&stop, true);
	join(threads);
}

CM_ROLE(exit)
{
	pthread_t threads[THREADS];

	context = open_and_count();
	start(threads, churn_on);
	wait_for_requests(2000);
	exit(0);
}

CM_ROLE(end_of_context)
{
	pthread_t threads[THREADS];
	int64_t kept;
	int i;

	(void)open_and_count();
	kept = cm_reserved();
	for (i = 0; i < 15; i++) {
		OK(cuCtxCreate_v2(&context, 0, 0));
		start(threads, churn_on);
		wait_for_requests(500);
		OK(cuCtxDestroy_v2(context));
		join(threads);
		CM_MUST(cm_allocated() == 0 && cm_reserved() == kept);
		CM_MUST(cudasim_used_bytes(0) == (uint64_t)kept);
	}
}

/* Figures of one moment, while they move. */
CM_ROLE(look)
{
	pthread_t threads[THREADS];
	struct cm_device_row row;
	struct cm_stat4 is, peak;
	struct cm_api api;
	int i, stat;

	cm_api_open(&api);
	context = open_and_count();
	start(threads, churn_on);
	wait_for_requests(500);
	for (i = 0; i < 200; i++) {
		CM_MUST(api.memory_allocated(0) <= api.memory_reserved(0));
		row = cm_own_counters(0);
		for (stat = 0; stat < CM_STAT_COUNT; stat++) {
			is = cm_stat_read(&row, CM_POOL_ALL, (enum cm_stat)stat);
			CM_MUST(is.current >= 0 && is.current <= is.peak);
			CM_MUST(is.current == is.allocated - is.freed);
		}
		peak = cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATION);
		CM_MUST(peak.peak <= THREADS * HELD);
		if (i % 10 == 0)
			api.reset_peak_memory_stats(0);
	}
	atomic_store(&stop, true);
	join(threads);
}

#define IN_EACH(name)                                            \
	CM_PLAY(name##_always, #name, "shards:always", NULL)     \
	CM_PLAY(name##_if_they_wait, #name, "shards:auto", NULL) \
	CM_PLAY(name##_in_one, #name, "shards:off", NULL)

IN_EACH(churn)
IN_EACH(fork)
IN_EACH(exit)
IN_EACH(end_of_context)
IN_EACH(look)
