/* SPDX-License-Identifier: MIT */
/*
 * The player keeps a model of what the program holds: which block, how large, in which stream its
 * work is ordered, what its first and last words must be. What the driver answers, what arrives
 * from the device and what the counters say is compared with it.
 *
 * In the ordinary way the threads pass a baton, so a program has one order of calls and the tables
 * need no lock. Free-running threads have slots, graphs and capture streams of their own.
 */
#ifndef CM_TESTS_PROOF_STATE_H
#define CM_TESTS_PROOF_STATE_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/proof/program.h"

#define PROOF_WORDS     8 /* at each end of a block */
#define PROOF_ENDS      (2 * PROOF_WORDS * sizeof(uint32_t))
#define PROOF_CHECKS    64
#define PROOF_PER_GRAPH 4
#define PROOF_TOLERATED 8
#define PROOF_OWED      64 /* blocks whose free has failed */
#define PROOF_FREED     32 /* that are remembered */

/* Of a context; the last are for free-running threads' captures. */
#define PROOF_ALL_STREAMS (PROOF_STREAMS + PROOF_THREADS)
#define PROOF_STREAM_GONE PROOF_ALL_STREAMS /* one that was destroyed with work under way */

enum proof_kind {
	PROOF_NONE,
	PROOF_DEVICE,
	PROOF_PINNED,
	PROOF_HOST,
	PROOF_REGISTERED,
	PROOF_MANAGED,
	PROOF_PITCH,
	PROOF_ASYNC,
	PROOF_ARRAY,
};

struct proof_slot {
	enum proof_kind kind;
	CUdeviceptr addr;
	uint64_t bytes;
	unsigned ctx, stream; /* where its work is ordered */
	bool fresh;           /* nothing was done with it: there is nothing to come after */
	bool known;           /* what its ends hold */
	bool lent;            /* work of another context has named it, see lending.h */
	unsigned lent_to;
	bool native; /* the driver's own: allocated while a stream was, or may have been, captured,
		      * or with mode:stats */
	uint32_t value;
	uint64_t serial; /* of the allocation */
	void *extra;     /* an array, registered pages */
};

struct proof_stream {
	CUstream handle;
	CUevent event; /* to order another behind it */
	bool capturing;
	unsigned mode;
	uint8_t thread; /* that captures */
	uint32_t graph; /* the one that grows */
};

struct proof_context {
	CUcontext handle;
	CUdevice device;
	CUfunction touch, copy;
	uint32_t *fetched; /* room for what each hand fetches */
	uint64_t generation;
	unsigned refs;             /* of a primary one: a reset leaves them */
	bool peer[PROOF_CONTEXTS]; /* whose memory it may reach */
	struct proof_stream stream[PROOF_ALL_STREAMS];
};

struct proof_graph {
	CUgraphExec exec;
	uint64_t generation; /* of its context */
	unsigned ctx;
	uint32_t value, count;
	struct {
		unsigned slot;
		uint64_t serial;
	} touched[PROOF_PER_GRAPH];
};

/* What has been fetched, and is to be compared once it has arrived. The words are pinned memory of
 * the block's context: a copy to other memory would wait. */
struct proof_fetched {
	const volatile uint32_t *words;
	uint32_t value, n;
	unsigned ctx, stream;
	size_t op;
};

struct proof_hand {
	uint8_t number;
	unsigned ctx;
	uint64_t generation;
	uint32_t checks;
	struct proof_fetched check[PROOF_CHECKS];
	uint64_t room_next; /* of the contexts' */
	CUdeviceptr gone;   /* the last block that was freed */
	uint64_t serial;
	size_t op;
	uint64_t done;
};

struct proof_state {
	struct proof_run run;
	size_t end; /* of the operations that are played */
	struct proof_context context[PROOF_CONTEXTS];
	struct proof_slot slot[PROOF_SLOTS];
	struct proof_slot owed[PROOF_OWED]; /* what a free that failed has left with the program */
	struct proof_slot freed[PROOF_FREED]; /* not where threads run freely */
	uint64_t frees;
	struct proof_graph graph[PROOF_GRAPHS + PROOF_THREADS];
	struct proof_hand hand[PROOF_THREADS];
	unsigned opened; /* contexts, of those that are used */
	_Atomic int captures;
	_Atomic unsigned begun,
		ended; /* captures: before the call that begins, behind that which ends */
	bool broken;   /* an error of the plan has been heard: what follows may fail with it */
	bool pooled;   /* memory that was freed in a stream may come back at any time */
	int tolerated[PROOF_TOLERATED];
	uint64_t lost; /* allocations of the driver that the errors may cost */
	bool simulated;
};

extern struct proof_state proof_state;

#endif
