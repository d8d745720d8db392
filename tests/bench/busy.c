/* SPDX-License-Identifier: MIT */
/*
 * Plays a sequence on a device that is never idle when memory is freed: behind every request a
 * kernel is submitted, and the program goes on before it is over. What counts is what the allocator
 * asks of the driver, and how much of its memory waits for the device.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/cudamem.h"
#include "player.h"

#define SAMPLE_PAIRS 64 /* reading the statistics takes microseconds */

struct pending {
	__typeof__(cudamem_memory_stats) *stats; /* NULL: not under the library */
	int64_t allocated;
	int64_t active;
	double live; /* bytes, summed over the samples */
	double waiting;
	uint64_t calls; /* of the driver, made by the samples themselves */
};

static void see(void *data, const char *key, int64_t value)
{
	struct pending *pending = data;

	if (!strcmp(key, "allocated_bytes.all.current"))
		pending->allocated = value;
	else if (!strcmp(key, "active_bytes.all.current"))
		pending->active = value;
}

static void sample(struct pending *pending)
{
	const uint64_t before = device_count().all;

	if (!pending->stats || !pending->stats(CUDAMEM_CURRENT_DEVICE, see, pending))
		return;
	pending->live += (double)pending->allocated;
	pending->waiting += (double)(pending->active - pending->allocated);
	pending->calls += device_count().all - before;
}

static bool play_op(const struct allocator *allocator, const struct op *op, void **slot)
{
	if (!op->bytes) {
		allocator->free(slot[op->slot]);
		return true;
	}
	slot[op->slot] = allocator->alloc(op->bytes, 0);
	device_work();
	return slot[op->slot] != NULL;
}

int play_busy(const struct play *play)
{
	const struct sequence *sequence = play->sequence;
	struct pending pending = {0};
	struct device_calls before = {0}, after;
	void **slot = calloc(sequence->slots, sizeof(void *));
	uint64_t pairs = 0, runtime = 0;
	bool ok = slot && !device_work_open();
	size_t i;

	pending.stats = (__typeof__(pending.stats))dlsym(RTLD_DEFAULT, "cudamem_memory_stats");
	for (i = 0; i < sequence->ops && ok; i++) {
		if (i == sequence->warm) {
			before = device_count();
			runtime = play->allocator->calls ? play->allocator->calls() : 0;
		}
		ok = play_op(play->allocator, &sequence->op[i], slot);
		if (i < sequence->warm || !sequence->op[i].bytes)
			continue;
		if (pairs++ % SAMPLE_PAIRS == 0)
			sample(&pending);
	}
	free(slot);
	if (!ok) {
		fprintf(stderr, "bench: a request was refused, or the device does no work\n");
		return -1;
	}
	after = device_count();
	printf("pairs %llu\n", (unsigned long long)pairs);
	printf("driver_calls %llu\n", (unsigned long long)(after.all - before.all - pending.calls));
	printf("current_calls %llu\n", (unsigned long long)(after.current - before.current));
	printf("runtime_calls %llu\n",
	       (unsigned long long)(play->allocator->calls ? play->allocator->calls() - runtime
							   : 0));
	if (pending.live > 0)
		printf("pending_share %.5f\n", pending.waiting / pending.live);
	return 0;
}
