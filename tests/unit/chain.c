/* SPDX-License-Identifier: MIT */
#include "tests/unit/chain.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define USE(object) __asm__ __volatile__("" : : "g"(object) : "memory")

static int go_on(unsigned depth, chain_fn *end);

NOINLINE static int plain(unsigned depth, chain_fn *end)
{
	int result;

	TRAIL_ADD();
	result = go_on(depth, end);
	USE(&result);
	return result + 1;
}

/* Its frame is of no fixed size: found through the frame pointer, whatever the flags. */
NOINLINE static int grows(unsigned depth, chain_fn *end)
{
	char *some = alloca(depth * 24 +
			    1); /* cppcheck-suppress allocaCalled ; that is the point */
	int result;

	TRAIL_ADD();
	memset(some, (int)depth, depth * 24 + 1);
	USE(some);
	result = go_on(depth, end);
	USE(some);
	return result + some[0];
}

/* Its stack pointer is rounded down by an amount that only a run knows. */
NOINLINE static int aligned(unsigned depth, chain_fn *end)
{
	char line[64] __attribute__((aligned(64)));
	int result;

	TRAIL_ADD();
	memset(line, (int)depth, sizeof(line));
	USE(line);
	result = go_on(depth, end);
	USE(line);
	return result + line[1];
}

NOINLINE static int large(unsigned depth, chain_fn *end)
{
	volatile char room[20000];
	int result;

	TRAIL_ADD();
	room[depth] = 1;
	result = go_on(depth, end);
	return result + room[depth];
}

/* Saves every register that it may, and pushes arguments. */
NOINLINE static int busy(unsigned depth, chain_fn *end, long a, long b, long c, long d, long e,
			 long f)
{
	long results[6];
	int result;

	TRAIL_ADD();
	results[0] = a * b;
	results[1] = c * d;
	results[2] = e * f;
	results[3] = a * c;
	results[4] = b * e;
	results[5] = d * f;
	USE(results);
	result = go_on(depth, end);
	return result + (int)(results[0] + results[1] + results[2] + results[3] + results[4] +
			      results[5] + a + b + c + d + e + f);
}

struct bridge {
	unsigned depth;
	chain_fn *end;
	int result;
};

static int compare(const void *x, const void *y)
{
	struct bridge *bridge = *(struct bridge *const *)x;

	(void)y;
	/* Once: some make sure of the function first by calling it. */
	if (!bridge->end)
		return 0;
	TRAIL_ADD();
	bridge->result = go_on(bridge->depth, bridge->end);
	bridge->end = NULL;
	return 0;
}

/* The C library's own frames lie between, which the trail does not know. */
NOINLINE static int through_libc(unsigned depth, chain_fn *end)
{
	struct bridge bridge = {depth, end, 0}, *two[2] = {&bridge, &bridge};

	TRAIL_ADD();
	qsort(two, 2, sizeof(two[0]), compare);
	return bridge.result;
}

NOINLINE static int go_on(unsigned depth, chain_fn *end)
{
	int result;

	TRAIL_ADD();
	if (!depth) {
		end();
		return 0;
	}
	switch (depth % 5) {
	case 0:
		result = plain(depth - 1, end);
		break;
	case 1:
		result = grows(depth - 1, end);
		break;
	case 2:
		result = aligned(depth - 1, end);
		break;
	case 3:
		result = busy(depth - 1, end, 1, 2, 3, depth, 5, 6);
		break;
	default:
		result = large(depth - 1, end);
		break;
	}
	USE(&result);
	return result;
}

int NAME(chain_, VARIANT)(unsigned depth, chain_fn *end)
{
	int result;

	TRAIL_ADD();
	result = through_libc(depth, end);
	USE(&result);
	return result;
}
