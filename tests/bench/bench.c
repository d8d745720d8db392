/* SPDX-License-Identifier: MIT */
/*
 * Measures one allocator on one workload in this process, and prints what it found as lines of a
 * name and a number. `run` calls it for all of them in turn.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "player.h"

#define SEED 20240607

enum mode { MODE_PAIRS, MODE_LATENCIES, MODE_FIRST, MODE_BUSY };

struct options {
	const char *allocator;
	const char *workload;
	unsigned threads;
	unsigned share; /* of the timed part that is played, in 1/1000 */
	bool remote;
	bool own_device;
	unsigned period_ns;
	enum mode mode;
};

static int usage(void)
{
	size_t i;

	fprintf(stderr,
		"usage: bench [-t THREADS] [-r] [-d] [-l [-p NS] | -f | -b] [-s SHARE] ENTRY "
		"WORKLOAD\n\n"
		"  -t  threads, each with a workload of its own\n"
		"  -r  what a thread takes its neighbour frees\n"
		"  -d  each thread has a device of its own\n"
		"  -l  latencies of single calls instead of the time of a pair\n"
		"  -p  NS from call to call at least, for -l\n"
		"  -f  the first request of the process alone\n"
		"  -b  a kernel behind every request; counts calls, takes no time\n"
		"  -s  thousandths of the timed part that are played\n\nentries:\n");
	for (i = 0; allocator_at(i); i++)
		fprintf(stderr, "  %-9s %s\n", allocator_at(i)->name, allocator_at(i)->help);
	fprintf(stderr,
		"workloads: same:SIZE, mixed, ramps, random:COUNT:SIZE, flat:COUNT, drain:COUNT\n");
	return 2;
}

static int parse(int argc, char **argv, struct options *options)
{
	int opt;

	*options = (struct options){.threads = 1, .share = 1000};
	while ((opt = getopt(argc, argv, "t:rdlp:fbs:")) != -1) {
		switch (opt) {
		case 't':
			options->threads = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'r':
			options->remote = true;
			break;
		case 'd':
			options->own_device = true;
			break;
		case 'l':
			options->mode = MODE_LATENCIES;
			break;
		case 'p':
			options->period_ns = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'f':
			options->mode = MODE_FIRST;
			break;
		case 'b':
			options->mode = MODE_BUSY;
			break;
		case 's':
			options->share = (unsigned)strtoul(optarg, NULL, 10);
			if (!options->share || options->share > 1000)
				return -1;
			break;
		default:
			return -1;
		}
	}
	if (argc - optind != 2 || !options->threads || options->threads > PLAYERS_MAX)
		return -1;
	options->allocator = argv[optind];
	options->workload = argv[optind + 1];
	return 0;
}

/* Shortens the timed part. A sequence of one round is cut where its slots are as at its start. */
static void shorten(struct sequence *sequence, unsigned share)
{
	size_t timed = sequence->ops - sequence->warm;

	if (sequence->rounds > 1)
		sequence->rounds = sequence->rounds * share / 1000 + 1;
	else
		sequence->ops = sequence->warm + timed * share / 1000 / 2 * 2;
}

/* What an allocator does at its first request, it does once. */
static int print_first(const struct allocator *allocator, const struct sequence *sequence)
{
	const uint64_t start = clock_ns(CLOCK_MONOTONIC);
	void *block;

	block = allocator->alloc(sequence->op[0].bytes, 0);
	printf("first_ns %" PRIu64 "\n", clock_ns(CLOCK_MONOTONIC) - start);
	if (!block)
		return -1;
	allocator->free(block);
	return 0;
}

static int print_pairs(const struct play *what)
{
	struct played played;

	if (play(what, &played))
		return -1;
	printf("pairs %llu\n", (unsigned long long)played.pairs);
	printf("ns %.3f\n", played.ns);
	printf("cpu_ns %.3f\n", played.cpu_ns);
	printf("driver_calls %llu\n", (unsigned long long)played.calls.all);
	printf("current_calls %llu\n", (unsigned long long)played.calls.current);
	printf("simulated_ns %.3f\n", (double)played.calls.ns / (double)played.pairs);
	printf("runtime_calls %llu\n", (unsigned long long)played.runtime_calls);
	printf("peak_reserved_bytes %llu\n", (unsigned long long)device_peak_bytes());
	return 0;
}

static int measure(const struct play *what, enum mode mode)
{
	switch (mode) {
	case MODE_PAIRS:
		return print_pairs(what);
	case MODE_LATENCIES:
		return play_latencies(what);
	case MODE_FIRST:
		return print_first(what->allocator, what->sequence);
	case MODE_BUSY:
		return play_busy(what);
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct sequence sequence[PLAYERS_MAX] = {0};
	struct options options;
	struct play what;
	int status = 0;
	unsigned i;

	if (parse(argc, argv, &options))
		return usage();
	what = (struct play){
		.allocator = allocator_find(options.allocator),
		.sequence = sequence,
		.threads = options.threads,
		.remote = options.remote,
		.period_ns = options.period_ns,
	};
	if (!what.allocator)
		return usage();
	for (i = 0; i < options.threads && !status; i++) {
		status = sequence_make(options.workload, SEED + i, &sequence[i]);
		if (!status)
			shorten(&sequence[i], options.share);
	}
	if (options.mode == MODE_LATENCIES)
		(void)setenv("CUDASIM", DEVICE_TICKS, 1);
	if (options.own_device)
		device_share_out();
	if (!status && what.allocator->open)
		status = what.allocator->open();
	if (!status)
		status = measure(&what, options.mode);
	for (i = 0; i < options.threads; i++)
		sequence_free(&sequence[i]);
	return status ? 1 : 0;
}
