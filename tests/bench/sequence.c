/* SPDX-License-Identifier: MIT */
#include "sequence.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* The state is filled by splitmix64, as the generator's authors advise. */
void random_init(struct random *random, uint64_t seed)
{
	size_t i;
	uint64_t z;

	for (i = 0; i < 4; i++) {
		z = seed += UINT64_C(0x9e3779b97f4a7c15);
		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		random->s[i] = z ^ z >> 31;
	}
}

uint64_t random_next(struct random *random)
{
	uint64_t *s = random->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

uint64_t random_below(struct random *random, uint64_t n)
{
	return (uint64_t)((unsigned __int128)random_next(random) * n >> 64);
}

static double random_unit(struct random *random)
{
	return (double)(random_next(random) >> 11) * 0x1p-53;
}

uint64_t random_log_uniform(struct random *random, uint64_t least, uint64_t most)
{
	return (uint64_t)((double)least * pow((double)most / (double)least, random_unit(random)));
}

static void add(struct sequence *sequence, uint32_t slot, uint64_t bytes)
{
	sequence->op[sequence->ops++] = (struct op){.bytes = bytes, .slot = slot};
}

static bool reserve(struct sequence *sequence, size_t ops)
{
	sequence->op = calloc(ops, sizeof(*sequence->op));
	return sequence->op != NULL;
}

/* One block, taken and given back. */
static int make_same(struct sequence *sequence, uint64_t bytes)
{
	if (!reserve(sequence, 2))
		return -1;
	sequence->slots = 1;
	sequence->rounds = 1000000;
	add(sequence, 0, bytes);
	add(sequence, 0, 0);
	return 0;
}

/* 1000 blocks live; each step frees one of them and takes another. */
static int make_mixed(struct sequence *sequence, struct random *random)
{
	const uint32_t live = 1000, warm = 60000, timed = 300000;
	uint32_t i, slot;

	if (!reserve(sequence, live + 2 * (size_t)(warm + timed)))
		return -1;
	sequence->slots = live;
	for (i = 0; i < live; i++)
		add(sequence, i, random_log_uniform(random, 512, 64 * MIB));
	for (i = 0; i < warm + timed; i++) {
		if (i == warm)
			sequence->warm = sequence->ops;
		slot = (uint32_t)random_below(random, live);
		add(sequence, slot, 0);
		add(sequence, slot, random_log_uniform(random, 512, 64 * MIB));
	}
	return 0;
}

/*
 * The shape of a training step: the forward part takes RAMP blocks, of which a quarter are
 * temporaries that live for one to four of the next; the backward part frees the rest, the last one
 * first, but every fifth out of turn by up to eight.
 */
#define RAMP 300

struct ramp {
	uint64_t bytes[RAMP];
	uint32_t life[RAMP];  /* of a temporary, in blocks; 0: lives until the backward part */
	uint32_t order[RAMP]; /* of the backward part */
	uint32_t kept;
};

static void shape_ramp(struct ramp *ramp, struct random *random)
{
	uint32_t i, j, swap;

	ramp->kept = 0;
	for (i = 0; i < RAMP; i++) {
		ramp->bytes[i] = random_log_uniform(random, 4 * KIB, 128 * MIB);
		ramp->life[i] = random_below(random, 4) ? 0 : 1 + (uint32_t)random_below(random, 4);
	}
	for (i = RAMP; i-- > 0;)
		if (!ramp->life[i])
			ramp->order[ramp->kept++] = i;
	for (i = 0; i < ramp->kept; i++) {
		if (random_below(random, 5))
			continue;
		j = i + (uint32_t)random_below(random, 9);
		if (j >= ramp->kept)
			continue;
		swap = ramp->order[i];
		ramp->order[i] = ramp->order[j];
		ramp->order[j] = swap;
	}
}

static void add_step(struct sequence *sequence, const struct ramp *ramp, struct random *random)
{
	uint32_t i, j;
	double jitter;

	for (i = 0; i < RAMP; i++) {
		jitter = 0.95 + 0.1 * random_unit(random);
		add(sequence, i, (uint64_t)((double)ramp->bytes[i] * jitter));
		for (j = i >= 4 ? i - 4 : 0; j < i; j++)
			if (ramp->life[j] && j + ramp->life[j] == i)
				add(sequence, j, 0);
	}
	for (j = RAMP - 4; j < RAMP; j++)
		if (ramp->life[j] && j + ramp->life[j] >= RAMP)
			add(sequence, j, 0);
	for (i = 0; i < ramp->kept; i++)
		add(sequence, ramp->order[i], 0);
}

static int make_ramps(struct sequence *sequence, struct random *random)
{
	const uint32_t warm = 20, timed = 1000;
	struct ramp ramp;
	uint32_t i;

	if (!reserve(sequence, 2 * RAMP * (size_t)(warm + timed)))
		return -1;
	sequence->slots = RAMP;
	shape_ramp(&ramp, random);
	for (i = 0; i < warm + timed; i++) {
		if (i == warm)
			sequence->warm = sequence->ops;
		add_step(sequence, &ramp, random);
	}
	return 0;
}

/*
 * The shape of RMM's benchmark random_allocations: 2n steps, of which 73 % allocate, sizes even up
 * to `most`, frees of a random block, at most 16 000 MiB in use; then all is freed. Played once
 * before the clock starts, so that the time is not the driver's.
 */
static void add_random_steps(struct sequence *sequence, struct random *random, uint32_t n,
			     uint64_t most, uint32_t *live, uint64_t *size, uint32_t *spare)
{
	uint32_t lives = 0, spares = 0, i, at, slot;
	uint64_t in_use = 0, bytes;

	for (i = 2 * n; i-- > 0;)
		spare[spares++] = i;
	for (i = 0; i < 2 * n || lives; i++) {
		bytes = 1 + random_below(random, most);
		if (i < 2 * n &&
		    (!lives || (random_unit(random) < 0.73 && in_use + bytes <= 16000 * MIB))) {
			slot = live[lives++] = spare[--spares];
			add(sequence, slot, bytes);
			in_use += size[slot] = bytes;
		} else {
			at = (uint32_t)random_below(random, lives);
			slot = spare[spares++] = live[at];
			live[at] = live[--lives];
			add(sequence, slot, 0);
			in_use -= size[slot];
		}
	}
}

static int make_random(struct sequence *sequence, struct random *random, uint32_t n, uint64_t most)
{
	uint32_t *live = calloc(4 * (size_t)n, sizeof(*live));
	uint64_t *size = calloc(2 * (size_t)n, sizeof(*size));
	struct random again = *random;
	bool ok = live && size && reserve(sequence, 8 * (size_t)n);

	if (ok) {
		sequence->slots = 2 * n;
		add_random_steps(sequence, random, n, most, live, size, live + 2 * n);
		sequence->warm = sequence->ops;
		add_random_steps(sequence, &again, n, most, live, size, live + 2 * n);
	}
	free(live);
	free(size);
	return ok ? 0 : -1;
}

/*
 * n free blocks of 512 bytes to 4 MiB, in as many sizes as there are, each between blocks in use,
 * so that it stays what it is; and 100 more in use that come and go, each time in one of the sizes.
 * What is in use between them is of their own size, and so goes to the same segment: small ones
 * would go to the rests of others, and the free blocks would be joined to a few large ones.
 */
static int make_flat(struct sequence *sequence, struct random *random, uint32_t n)
{
	const uint32_t warm = 10000, timed = 200000, moving = 100, sizes = n < 8192 ? n : 8192;
	const uint64_t step = 4 * MIB / sizes / 512 * 512;
	uint64_t bytes;
	uint32_t i, slot;

	if (!reserve(sequence, 3 * (size_t)n + moving + 2 * ((size_t)warm + timed)))
		return -1;
	sequence->slots = 2 * (size_t)n + moving;
	for (i = 0; i < n; i++) {
		bytes = (1 + i % sizes) * step;
		add(sequence, 2 * i, bytes);
		add(sequence, 2 * i + 1, bytes);
	}
	for (i = 0; i < moving; i++)
		add(sequence, 2 * n + i, (1 + random_below(random, sizes)) * step);
	for (i = 0; i < n; i++)
		add(sequence, 2 * i, 0);
	/* What was freed may wait for the device, and is free only once it has been asked for. */
	for (i = 0; i < warm + timed; i++) {
		if (i == warm)
			sequence->warm = sequence->ops;
		slot = 2 * n + (uint32_t)random_below(random, moving);
		add(sequence, slot, 0);
		add(sequence, slot, (1 + random_below(random, sizes)) * step);
	}
	return 0;
}

/* `live` small blocks are taken; what is timed frees them, in a random order. */
static int make_drain(struct sequence *sequence, struct random *random, uint32_t live)
{
	uint32_t i, at, slot;

	if (!reserve(sequence, 2 * (size_t)live))
		return -1;
	sequence->slots = live;
	for (i = 0; i < live; i++)
		add(sequence, i, 512);
	sequence->warm = sequence->ops;
	for (i = 0; i < live; i++)
		add(sequence, i, 0);
	for (i = live; i > 1; i--) {
		at = (uint32_t)random_below(random, i);
		slot = sequence->op[live + i - 1].slot;
		sequence->op[live + i - 1].slot = sequence->op[live + at].slot;
		sequence->op[live + at].slot = slot;
	}
	return 0;
}

/* A number, "K", "M" or "G" behind it; 0 where it is none. */
static uint64_t parse_number(const char *text, const char **ret_end)
{
	static const char units[] = "KMG";
	char *end;
	uint64_t number = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	*ret_end = unit ? end + 1 : end;
	return unit ? number << 10 * (unit - units + 1) : number;
}

static int make(const char *name, struct random *random, struct sequence *sequence)
{
	const char *colon = strchr(name, ':'), *end = name;
	uint64_t first = colon ? parse_number(colon + 1, &end) : 0, second;

	if (!strcmp(name, "mixed"))
		return make_mixed(sequence, random);
	if (!strcmp(name, "ramps"))
		return make_ramps(sequence, random);
	if (first && !strncmp(name, "same:", 5) && !*end)
		return make_same(sequence, first);
	if (first && first <= 131072 && !strncmp(name, "flat:", 5) && !*end)
		return make_flat(sequence, random, (uint32_t)first);
	if (first && first <= 1000000 && !strncmp(name, "drain:", 6) && !*end)
		return make_drain(sequence, random, (uint32_t)first);
	if (first && first <= 1000000 && !strncmp(name, "random:", 7) && *end == ':') {
		second = parse_number(end + 1, &end);
		if (second && !*end)
			return make_random(sequence, random, (uint32_t)first, second);
	}
	errno = EINVAL;
	return -1;
}

int sequence_make(const char *name, uint64_t seed, struct sequence *ret_sequence)
{
	struct sequence sequence = {.rounds = 1};
	struct random random;

	random_init(&random, seed);
	if (make(name, &random, &sequence)) {
		fprintf(stderr, "bench: workload %s: %s\n", name, strerror(errno));
		return -1;
	}
	*ret_sequence = sequence;
	return 0;
}

void sequence_free(struct sequence *sequence)
{
	free(sequence->op);
	sequence->op = NULL;
}
