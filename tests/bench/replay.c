/* SPDX-License-Identifier: MIT */
/*
 * Replays a recorded sequence of requests through an allocator, and prints what it found as lines
 * of a name and a number: what is asked for and live, what is taken from the driver, the time of an
 * operation, the driver calls.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "device.h"
#include "player.h"
#include "trace.h"

#define MIB           ((uint64_t)1 << 20)
#define PASSES        5 /* timed ones, the allocator warm; the median counts */
#define PASSES_MAX    64
#define SMALLEST_STEP (2 * MIB) /* what the simulated card allocates at a time */

struct options {
	const struct allocator *allocator;
	const char *path;
	uint64_t memory; /* bytes of the simulated device, 0: plenty */
	bool streams;    /* honour them */
	bool smallest;
	unsigned passes;
	unsigned threads; /* each with blocks of its own */
};

static int usage(void)
{
	size_t i;

	fprintf(stderr,
		"usage: replay [-s] [-m MIB | --smallest] [-n PASSES] [-t THREADS] ENTRY "
		"FILE.ops\n\n"
		"  -s           honour streams: a block is reused on its own only\n"
		"  -m MIB       memory of the simulated device\n"
		"  --smallest   find the smallest one on which no request is refused\n"
		"  -n PASSES    timed passes behind the first (%d)\n"
		"  -t THREADS   play it by several threads at once, and measure the time alone\n\n"
		"allocators:\n",
		PASSES);
	for (i = 0; allocator_at(i); i++)
		fprintf(stderr, "  %-9s %s\n", allocator_at(i)->name, allocator_at(i)->help);
	return 2;
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"streams", no_argument, NULL, 's'},       {"memory", required_argument, NULL, 'm'},
		{"smallest", no_argument, NULL, 'S'},      {"passes", required_argument, NULL, 'n'},
		{"threads", required_argument, NULL, 't'}, {NULL, 0, NULL, 0},
	};
	int opt;

	*options = (struct options){.passes = PASSES, .threads = 1};
	while ((opt = getopt_long(argc, argv, "sm:n:t:", names, NULL)) != -1) {
		switch (opt) {
		case 's':
			options->streams = true;
			break;
		case 'm':
			options->memory = strtoull(optarg, NULL, 10) * MIB;
			break;
		case 'S':
			options->smallest = true;
			break;
		case 'n':
			options->passes = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 't':
			options->threads = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return -1;
		}
	}
	if (argc - optind != 2 || !options->threads || options->threads > PLAYERS_MAX)
		return -1;
	options->allocator = allocator_find(argv[optind]);
	options->path = argv[optind + 1];
	return options->allocator ? 0 : -1;
}

/* True unless a request was refused. */
static bool pass(const struct allocator *allocator, const struct sequence *sequence, bool streams,
		 void **slot)
{
	const struct op *op = sequence->op, *end = op + sequence->ops;

	for (; op < end; op++) {
		if (op->bytes) {
			slot[op->slot] = allocator->alloc(op->bytes, streams ? op->stream : 0);
			if (!slot[op->slot])
				return false;
		} else {
			allocator->free(slot[op->slot]);
			slot[op->slot] = NULL;
		}
	}
	return true;
}

/*
 * The trace, and frees of what it leaves behind, twice: once to warm up, once to be timed as often
 * as asked. Its slots are empty at the end, as a sequence of several rounds must leave them.
 */
static int repeat(const struct sequence *trace, size_t rounds, struct sequence *ret_sequence)
{
	struct sequence twice = {.slots = trace->slots, .rounds = rounds};
	bool *live = calloc(trace->slots, sizeof(*live));
	size_t i;

	twice.op = calloc(2 * (trace->ops + trace->slots), sizeof(*twice.op));
	if (!live || !twice.op) {
		free(live);
		free(twice.op);
		return -1;
	}
	for (i = 0; i < trace->ops; i++) {
		twice.op[twice.ops++] = trace->op[i];
		live[trace->op[i].slot] = trace->op[i].bytes != 0;
	}
	for (i = 0; i < trace->slots; i++)
		if (live[i])
			twice.op[twice.ops++] = (struct op){.slot = (uint32_t)i};
	free(live);
	memcpy(&twice.op[twice.ops], twice.op, twice.ops * sizeof(*twice.op));
	twice.warm = twice.ops;
	twice.ops *= 2;
	*ret_sequence = twice;
	return 0;
}

/* 0, 1: a request was refused, 2: it did not come to that. */
static int replay_threads(const struct options *options, const struct sequence *trace)
{
	struct sequence sequence[PLAYERS_MAX], twice;
	const struct play what = {
		.allocator = options->allocator, .sequence = sequence, .threads = options->threads};
	struct played played;
	unsigned i;
	int status;

	if ((options->allocator->open && options->allocator->open()) ||
	    repeat(trace, options->passes ? options->passes : 1, &twice))
		return 2;
	for (i = 0; i < options->threads; i++)
		sequence[i] = twice;
	status = play(&what, &played) ? 1 : 0;
	sequence_free(&twice);
	if (status)
		return status;
	printf("operations %zu\n", trace->ops);
	printf("ns %.2f\n", played.ns / 2);
	printf("driver_calls %.1f\n", (double)played.calls.all);
	return 0;
}

static void clear(const struct allocator *allocator, const struct sequence *sequence, void **slot)
{
	size_t i;

	for (i = 0; i < sequence->slots; i++) {
		if (slot[i])
			allocator->free(slot[i]);
		slot[i] = NULL;
	}
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* A pass that counts the requests for which the driver was asked to map pages. */
static bool first_pass(const struct allocator *allocator, const struct sequence *sequence,
		       bool streams, void **slot)
{
	struct op *op = sequence->op;
	const struct op *end = op + sequence->ops;
	uint64_t requests = 0, mapping = 0, before;

	for (; op < end; op++) {
		const struct sequence one = {.op = op, .ops = 1};

		before = device_mappings();
		if (!pass(allocator, &one, streams, slot))
			return false;
		requests += op->bytes != 0;
		mapping += device_mappings() != before;
	}
	printf("mapping_share %.5f\n", requests ? (double)mapping / (double)requests : 0.0);
	return true;
}

/* The first pass shows the memory, the others, which find the allocator warm, the time. */
static bool run(const struct options *options, const struct sequence *sequence, void **slot)
{
	const struct allocator *allocator = options->allocator;
	struct device_calls before, after;
	double ns[PASSES_MAX] = {0};
	uint64_t start, live;
	unsigned i, n = options->passes < PASSES_MAX ? options->passes : PASSES_MAX;

	live = trace_peak_bytes(sequence);
	if (!first_pass(allocator, sequence, options->streams, slot))
		return false;
	printf("operations %zu\n", sequence->ops);
	printf("live_bytes %llu\n", (unsigned long long)live);
	printf("reserved_bytes %llu\n", (unsigned long long)device_peak_bytes());
	printf("ratio %.4f\n", (double)device_peak_bytes() / (double)live);
	before = device_count();
	printf("first_driver_calls %llu\n", (unsigned long long)before.all);
	for (i = 0; i < n; i++) {
		clear(allocator, sequence, slot);
		start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (!pass(allocator, sequence, options->streams, slot))
			return false;
		ns[i] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)sequence->ops;
	}
	after = device_count();
	if (!n)
		return true;
	qsort(ns, (size_t)n, sizeof(ns[0]), compare);
	printf("ns %.2f\n", ns[n / 2]);
	printf("driver_calls %.1f\n", (double)(after.all - before.all) / n);
	return true;
}

/* 0, 1: a request was refused, 2: it did not come to that. */
static int replay(const struct options *options, const struct sequence *sequence)
{
	void **slot = calloc(sequence->slots, sizeof(*slot));
	char plan[64];
	int status;

	if (!slot)
		return 2;
	if (options->memory) {
		snprintf(plan, sizeof(plan), "guard:off,memory:%llu",
			 (unsigned long long)options->memory);
		(void)setenv("CUDASIM", plan, 1);
	}
	if (options->allocator->open && options->allocator->open())
		status = 2;
	else
		status = run(options, sequence, slot) ? 0 : 1;
	free(slot);
	return status;
}

/* Whether a device of so many bytes will do. A process of its own, since a device is made once. */
static int try(const struct options *options, const struct sequence *sequence, uint64_t memory)
{
	struct options with = *options;
	int status = 0;
	pid_t child;

	with.memory = memory;
	with.passes = 0;
	(void)fflush(stdout);
	child = fork();
	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(2);
		_exit(replay(&with, sequence));
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 2;
	return WEXITSTATUS(status);
}

static int find_smallest(const struct options *options, const struct sequence *sequence)
{
	uint64_t live = trace_peak_bytes(sequence), low = live / SMALLEST_STEP, high = low + 1, at;
	int status;

	/* What fits in low chunks is not known to fit; what fits in high ones is, after this. */
	while ((status = try(options, sequence, high * SMALLEST_STEP)) == 1) {
		low = high;
		high += high / 4 + 1;
	}
	if (status)
		return status;
	while (high - low > 1) {
		at = low + (high - low) / 2;
		status = try(options, sequence, at * SMALLEST_STEP);
		if (status == 2)
			return 2;
		if (status)
			low = at;
		else
			high = at;
	}
	printf("live_bytes %llu\n", (unsigned long long)live);
	printf("smallest_bytes %llu\n", (unsigned long long)high * SMALLEST_STEP);
	printf("ratio %.4f\n", (double)(high * SMALLEST_STEP) / (double)live);
	return 0;
}

int main(int argc, char **argv)
{
	struct sequence sequence;
	struct options options;
	int status;

	if (parse(argc, argv, &options))
		return usage();
	if (trace_read(options.path, &sequence))
		return 1;
	if (options.smallest)
		status = find_smallest(&options, &sequence);
	else if (options.threads > 1)
		status = replay_threads(&options, &sequence);
	else
		status = replay(&options, &sequence);
	if (status == 1)
		fprintf(stderr, "replay: %s: the allocator refused a request\n", options.path);
	sequence_free(&sequence);
	return status ? 1 : 0;
}
