/* SPDX-License-Identifier: MIT */
/*
 * Sequences of requests: the workloads. All are made before the allocator starts, from a seed, so
 * that every allocator is asked the same.
 */
#ifndef CM_BENCH_SEQUENCE_H
#define CM_BENCH_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>

/* bytes > 0: allocates into the empty slot; 0: frees what the slot holds. */
struct op {
	uint64_t bytes;
	uint32_t slot;
	uint16_t stream;
	uint16_t thread;
};

struct sequence {
	struct op *op;
	size_t ops;
	size_t warm;   /* of them, played before the clock starts */
	size_t slots;  /* slot numbers are below */
	size_t rounds; /* how often what follows the warm part is played; it leaves the slots as
			  it found them where that is more than once */
};

/* xoshiro256**, by David Blackman and Sebastiano Vigna (2018). */
struct random {
	uint64_t s[4];
};
void random_init(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
/* Evenly from [0, n). */
uint64_t random_below(struct random *random, uint64_t n);
/* Evenly over the logarithm, from [least, most]. */
uint64_t random_log_uniform(struct random *random, uint64_t least, uint64_t most);

/*
 * Makes the workload that `name` names, "same:1M", "mixed", "ramps", "random:1000:1M" or
 * "flat:100000". 0, or -1 after a message. The caller gives it back.
 */
int sequence_make(const char *name, uint64_t seed, struct sequence *ret_sequence);
void sequence_free(struct sequence *sequence);

#endif
