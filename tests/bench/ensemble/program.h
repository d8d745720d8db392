/* SPDX-License-Identifier: MIT */
/*
 * Programs of the ensemble: sequences of requests that follow from a family and a seed, the same on
 * every machine. A program knows how it takes a refusal, and the card it is meant for where that is
 * part of it. One thread.
 */
#ifndef CM_BENCH_ENSEMBLE_PROGRAM_H
#define CM_BENCH_ENSEMBLE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/bench/sequence.h"

#define MIB UINT64_C(0x100000)
#define GIB (1024 * MIB)

#define PROGRAM_CONTEXTS_MAX 4
#define PROGRAM_STREAMS_MAX  16
/* No program has more than this live at once: somewhat more than the largest card that is
 * filled. */
#define PROGRAM_PEAK_MAX (100 * GIB)
#define PROGRAM_SYNC     UINT32_MAX /* in place of a slot: the host waits for the device */

/* How a program takes a refusal. */
enum program_kind {
	PROGRAM_FAILS,  /* it is the end of it */
	PROGRAM_FILLS,  /* it asks for more until it is refused: what counts is how much it got */
	PROGRAM_GOES_ON /* it does without */
};

/* As `struct op` of sequence.h, where `thread` is the number of a context. */
struct program {
	struct op *op;
	size_t ops;
	size_t slots;
	uint64_t card; /* bytes; 0: any, it is told as a multiple of the peak */
	uint64_t peak; /* most bytes requested and live at once, all requests served */
	uint32_t contexts;
	enum program_kind kind;
};

struct family {
	const char *name;
	const char *help;
	void (*make)(struct program *program, struct random *random);
};

/* The i-th family, NULL behind the last; that of a name, or NULL. */
const struct family *family_at(size_t i);
const struct family *family_find(const char *name, size_t bytes);

/* 0, or -1 where there is no memory. program_free gives it back. */
int program_make(const struct family *family, uint64_t seed, struct program *ret_program);
void program_free(struct program *program);

/* What is wrong with it: a free of what is not live, a slot that is taken twice, a peak that is
 * more than the bound or not as told; NULL: nothing. */
const char *program_check(const struct program *program);

/* As trace.h has it: contexts are threads there, and waits comments. */
void program_write(const struct program *program, FILE *file);

/*
 * For families. A request; the slot that its block is in until it is freed. Where it would not stay
 * below PROGRAM_PEAK_MAX it is left out, and so is its free: the slot is then PROGRAM_SYNC.
 */
uint32_t program_take(struct program *program, uint64_t bytes, uint32_t stream, uint32_t context);
void program_give(struct program *program, uint32_t slot);
void program_sync(struct program *program);
/* What is live at this point of the making. */
uint64_t program_live(const struct program *program);

/* "17", and with K, M, G or T behind it, times 1024 and so on. -1: not that, or too large. */
int parse_bytes(const char *text, uint64_t *ret_bytes);
/* "FROM:COUNT". -1: not that, or their sum overflows. */
int parse_range(const char *text, uint64_t *ret_from, uint64_t *ret_count);

#endif
