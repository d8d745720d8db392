/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, use and free pinned memory of two contexts while others trim, poll, submit
 * work and capture: the referee and the walker must have nothing to say, and a thread sanitizer
 * neither.
 */
#include <pthread.h>
#include <stdio.h>

#include "tests/unit/fixture.h"

#define THREADS 4
#define STEPS   4000
#define BLOCKS  16
#define US      UINT64_C(1000)

static struct fixture fixture;
static struct cm_heap *heaps[2];
static uint64_t contexts[2];

struct worker {
	pthread_t thread;
	uint64_t random;
	struct {
		uint64_t addr;
		uint64_t bytes;
	} block[BLOCKS];
	bool failed;
};

static uint64_t next_random(struct worker *worker)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return worker->random;
}

static void use_block(struct worker *worker, uint64_t random)
{
	uint32_t at = (random >> 8) % BLOCKS, which = (random >> 16) % 2;
	uint64_t forward, bytes = 1 + (random >> 20) % (64 * KIB), addr = 0;
	int err;

	if (worker->block[at].addr) {
		(void)fixture_launch(&fixture, contexts[which], random >> 62,
				     worker->block[at].addr, worker->block[at].bytes,
				     (random >> 40) % (200 * US));
		/* One that others may reach goes back to the driver. */
		if (random >> 58 == 0 &&
		    cm_cache_host_mark_exported(fixture.cache, worker->block[at].addr))
			worker->failed = true;
		err = cm_cache_host_free(fixture.cache, worker->block[at].addr, &forward);
		worker->block[at].addr = 0;
		if (err)
			worker->failed = true;
		return;
	}
	err = cm_cache_host_alloc(fixture.cache, heaps[which], (uint32_t)(random >> 50) % 2, bytes,
				  &addr);
	if (err > 0)
		worker->failed = true;
	if (err)
		return;
	fake_allocated(contexts[which], addr, bytes);
	worker->block[at].addr = addr;
	worker->block[at].bytes = bytes;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct cm_host_row row;
	uint64_t random;
	int i;

	for (i = 0; i < STEPS && !worker->failed; i++) {
		random = next_random(worker);
		if (random % 32)
			use_block(worker, random);
		else if (random >> 60 == 0)
			(void)cm_cache_trim(fixture.cache, UINT32_MAX, NULL);
		else if (random >> 63)
			cm_cache_poll(fixture.cache);
		else
			cm_cache_read_host(fixture.cache, &row);
		fake_advance(5 * US);
	}
	return NULL;
}

static void *capture(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < STEPS / 10; i++) {
		fake_capture(true);
		fake_capture(false);
		fake_advance(50 * US);
	}
	return NULL;
}

int main(void)
{
	struct worker worker[THREADS] = {0};
	const char *complaint;
	pthread_t capturer;
	bool failed = false;
	int i;

	if (!fixture_open(&fixture, &(struct fixture_params){.events = 64}))
		return 1;
	contexts[0] = fixture.ctx;
	heaps[0] = fixture.heap;
	contexts[1] = fixture_add_context(&fixture, 1, &heaps[1]);
	for (i = 0; i < THREADS; i++) {
		worker[i].random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			return 1;
	}
	if (pthread_create(&capturer, NULL, capture, NULL))
		return 1;
	(void)pthread_join(capturer, NULL);
	for (i = 0; i < THREADS; i++) {
		(void)pthread_join(worker[i].thread, NULL);
		failed |= worker[i].failed;
	}
	complaint = fixture_complaint(&fixture);
	if (complaint || failed)
		(void)fprintf(stderr, "stress_pinned: %s\n", complaint ? complaint : "an error");
	fixture_close(&fixture);
	return complaint || failed;
}
