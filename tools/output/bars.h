/* SPDX-License-Identifier: MIT */
/*
 * A sum as lines of text: name, amount, share and a bar for each part, and the total below. The
 * shares are rounded such that they add up to 100 %.
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
	bool optional; /* not printed if it is 0 */
};

void cm_bars_print(const struct cm_bar *bars, size_t count, bool ascii);

#endif
