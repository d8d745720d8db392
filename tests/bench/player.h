/* SPDX-License-Identifier: MIT */
/*
 * Plays sequences on an allocator, by one thread or several at once, and measures. The threads
 * share the allocator and nothing else, unless blocks are freed by another thread than took them.
 */
#ifndef CM_BENCH_PLAYER_H
#define CM_BENCH_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators.h"
#include "device.h"
#include "sequence.h"

#define PLAYERS_MAX 64

struct play {
	const struct allocator *allocator;
	const struct sequence *sequence; /* one a thread */
	unsigned threads;
	bool remote;        /* each thread frees what its neighbour took */
	unsigned period_ns; /* from call to call, at least; of play_latencies alone */
};

struct played {
	uint64_t pairs; /* of all threads */
	/* A pair, of one thread: its processor time where there is one thread, else time on the
	 * wall, so that waiting for locks is in it. */
	double ns;
	double cpu_ns;             /* the same, always processor time */
	struct device_calls calls; /* in the timed part */
	uint64_t runtime_calls;    /* to the CUDA runtime, where the allocator counts them */
};

/* 0, or -1 after a message: the allocator refused. */
int play(const struct play *play, struct played *ret_played);

/* Plays the timed part of the first sequence and prints the percentiles of single calls. */
int play_latencies(const struct play *play);

/* Plays the first sequence on a device that is at work, and prints what reached the driver. */
int play_busy(const struct play *play);

#endif
