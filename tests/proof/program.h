/* SPDX-License-Identifier: MIT */
/*
 * Random CUDA programs: a list of operations, each done by one of a few threads. operations.def
 * names the operations. Any list is a program, also one from which lines were taken out: what makes
 * no sense at its place (a free of nothing, the end of no capture) does nothing. So a failing
 * program can be shortened line by line.
 *
 * A program is a text with an operation a line, "THREAD NAME NUMBER...", and remarks behind #.
 */
#ifndef CM_TESTS_PROOF_PROGRAM_H
#define CM_TESTS_PROOF_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROOF_THREADS  3u
#define PROOF_SLOTS    48u /* blocks that a program can hold */
#define PROOF_CONTEXTS 5u  /* the primary ones of four devices; number 2 comes and goes */
#define PROOF_DEVICES  4   /* that these are on; the first three are on two of them */
#define PROOF_STREAMS  4u  /* of each context; 0 is its default stream */
#define PROOF_GRAPHS   4u
#define PROOF_KINDS    64u /* numbers that mean a kind of memory */
#define PROOF_ARGS     3u

enum proof_op_kind {
#define OP(name, weight, args) PROOF_OP_##name,
#include "tests/proof/operations.def"
#undef OP
	PROOF_OP_COUNT
};

struct proof_op {
	uint8_t thread;
	uint8_t kind; /* enum proof_op_kind */
	uint64_t arg[PROOF_ARGS];
};

struct proof_run;

/*
 * Fills `ops`, of run->count operations, which follow from the seed and the flags alone. With
 * commands or host reads some of them are others, and the rest are what they are without.
 */
void proof_generate(uint64_t seed, struct proof_op *ops, const struct proof_run *run);

void proof_print(FILE *file, const struct proof_op *op);

/* Reads a line into *ret_op. 1; 0 where it says nothing; -1 where it is not understood. */
int proof_parse(const char *line, struct proof_op *ret_op);

struct proof_run {
	const struct proof_op *ops;
	size_t count;
	unsigned contexts; /* that are used; a barrier is only laid where there is one */
	bool free_running; /* the threads run side by side; else each operation follows the last */
	bool imports;      /* another process opens what is exported */
	bool pages;        /* the library may put blocks on pages: ranges are those of the pages */
	bool lends;        /* work of other devices names blocks that are freed behind it */
	bool no_peers;     /* no device has access to another's memory */
	bool apart;        /* each thread drives a device of its own */
	bool endless;      /* behind the last operation comes the first again */
	bool commands;     /* the library's own thread is at work beside the program's */
	bool host_reads;   /* the host reads and writes behind frees, as they wait natively */
	bool mapped;       /* also memory that kernels reach without a copy */
	FILE *transcript;  /* each answer that must not depend on the library; may be NULL */
};

/*
 * Does all of it against the driver that the process is linked with, and ends the process with 99
 * and a line on stderr where an answer, a block's contents or the counters are wrong.
 */
void proof_play(const struct proof_run *run);

#endif
