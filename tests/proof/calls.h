/* SPDX-License-Identifier: MIT */
/*
 * Programs of random calls, also senseless ones: wrong pointers, sizes and flags, handles that are
 * gone or of another kind, no context, captures that others began. Two threads pass a baton. What
 * each call answers is written down, as far as it must not depend on the library, and compared with
 * the same program without it (calls.py).
 *
 * Which argument a call gets follows from the seed alone; its value does not, as addresses differ.
 * Where a value that is gone may be somebody's again the call is left out, which is written down as
 * ?.
 */
#ifndef CM_TESTS_PROOF_CALLS_H
#define CM_TESTS_PROOF_CALLS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALLS_SLOTS   10                   /* of each kind */
#define CALLS_UNTOLD  UINT64_C(0xdeadbeef) /* what a call has not filled in */
#define CALLS_THREADS 2

/* Those before CALLS_STREAM are addresses. */
enum calls_kind {
	CALLS_DEVICE,
	CALLS_HOST,
	CALLS_REGISTERED,
	CALLS_MANAGED,
	CALLS_PITCH,
	CALLS_ASYNC,
	CALLS_STREAM,
	CALLS_ARRAY,
	CALLS_MIPMAP,
	CALLS_HANDLE,
	CALLS_CONTEXT,
	CALLS_KIND_COUNT
};

struct calls_slot {
	uint64_t value;
	uint64_t bytes;
	uint64_t id; /* of a context: its handle may be another's some day */
	int ctx;     /* the slot of the context that it goes with, or -1 */
	bool live;
	bool used;
};

extern struct calls_slot calls_slot[CALLS_KIND_COUNT][CALLS_SLOTS];
extern bool calls_are_odd;       /* whether this call may get what makes no sense */
extern bool calls_have_captured; /* what fails for memory may then be waited for */

uint64_t calls_random(uint64_t n); /* below n */
bool calls_one_in(uint64_t n);

/* Writes down. */
void calls_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int calls_hear(int res); /* an answer, which it returns */
#define HEAR(call) calls_hear((int)(call))

/* A value of the kind, mostly a good one. False: the call must be left out, as is written down. */
bool calls_pick(enum calls_kind kind, uint64_t *ret_value);
bool calls_pick_stream(CUstream *ret_stream);
/* False: there is no room, as is written down. */
bool calls_have_room(enum calls_kind kind);
size_t calls_bytes(void);
unsigned calls_flags(unsigned most);

/* What a call has answered for memory or a handle that it should have put at `value`. */
void calls_got(enum calls_kind kind, int res, const uint64_t *value, uint64_t bytes);
/* Its answer to one that should have taken it back. */
void calls_gave(enum calls_kind kind, int res, uint64_t value);

int calls_context(void); /* the slot of the current one, or -1 */

/* All that can be called, each so often in proportion. */
struct calls_op {
	const char *name;
	void (*run)(void);
	unsigned weight;
};
extern const struct calls_op calls_ops[];
extern const size_t calls_op_count;

#endif
