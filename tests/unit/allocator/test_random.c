/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/ops.h"

#define PROGRAMS 40
#define BYTES    4000

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* CM_SEED runs the one program of that seed. */
CM_TEST(random_operations_keep_every_invariant)
{
	const char *text = getenv("CM_SEED");
	uint64_t first = text ? strtoull(text, NULL, 10) : 1, seed, random;
	uint8_t program[BYTES];
	char why[OPS_WHY_BYTES];
	size_t i;

	for (seed = first; seed < first + (text ? 1 : PROGRAMS); seed++) {
		random = seed * UINT64_C(0x9e3779b97f4a7c15);
		for (i = 0; i < BYTES; i++)
			program[i] = (uint8_t)(next_random(&random) >> 32);
		if (ops_run(program, BYTES, why))
			fail_msg("CM_SEED=%llu: %s", (unsigned long long)seed, why);
	}
}
