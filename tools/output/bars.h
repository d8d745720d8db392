/* SPDX-License-Identifier: MIT */
/*
 * A sum in lines: name, amount, share and a bar each, and the total below. Amounts are rounded so
 * that what is printed adds up to the total that is printed.
 */
#ifndef CM_TOOLS_OUTPUT_BARS_H
#define CM_TOOLS_OUTPUT_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CM_BARS_MAX 16

struct cm_bar {
	const char *name;
	int64_t bytes;
	bool optional; /* left out where it is 0 */
};

void cm_bars_print(const struct cm_bar *bars, size_t count, bool ascii);

/*
 * Rounds each value * scale / unit to a whole number, by the method of the largest remainder: they
 * add up to the rounded total. `count` is at most CM_BARS_MAX.
 */
void cm_bars_round(const int64_t *values, size_t count, uint64_t scale, uint64_t unit,
		   int64_t *ret_rounded, int64_t *ret_total);

#endif
