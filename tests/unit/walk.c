/* SPDX-License-Identifier: MIT */
/* The walk over chains of known calls, without a framework: for other machines (aarch64.py). */
#include <stdio.h>

#include "interpose/stacks/unwind.h"
#include "tests/unit/chain.h"

#define FRAMES_MAX 512

uint64_t trail[TRAIL_MAX];
size_t trail_count;

static size_t missing;

/* Every call of the trail must be among the frames, in its order. */
__attribute__((noinline)) static void look(void)
{
	static const struct cm_unwind_skip skip_nothing;
	uint64_t frames[FRAMES_MAX];
	size_t at = 0, count, i;
	bool cut;

	TRAIL_ADD();
	count = cm_unwind(&skip_nothing, 1, frames, FRAMES_MAX, &cut);
	for (i = trail_count; i-- > 0; at++) {
		while (at < count && frames[at] != trail[i])
			at++;
		if (at == count) {
			printf("call %zu of %zu is not among %zu frames\n", i, trail_count, count);
			missing++;
			return;
		}
	}
}

int main(void)
{
	unsigned depth;

	for (depth = 0; depth < 100; depth += 9) {
		trail_count = 0;
		(void)chain_O0(depth, look);
		trail_count = 0;
		(void)chain_O2(depth, look);
	}
	return missing != 0;
}
