/* SPDX-License-Identifier: MIT */
/*
 * The last samples of one curve: memory allocated and reserved, and where memory ran out.
 */
#ifndef CM_TOOLS_TOP_HISTORY_H
#define CM_TOOLS_TOP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CM_TOP_SAMPLES 600 /* ten minutes at 1 s */

struct cm_top_point {
	int64_t allocated; /* bytes */
	int64_t reserved;
	bool oom; /* a request ran out of memory since the sample before */
};

/* A ring. A struct that is all zero is empty. */
struct cm_top_history {
	struct cm_top_point point[CM_TOP_SAMPLES];
	uint64_t count; /* ever added */
};

static inline void cm_top_history_add(struct cm_top_history *history, struct cm_top_point point)
{
	history->point[history->count++ % CM_TOP_SAMPLES] = point;
}

/*
 * The point that is `age` samples old; 0 is the youngest one that is shown, as the `held` samples
 * after it are left out. NULL: there is no such point, or it was overwritten.
 */
static inline const struct cm_top_point *cm_top_history_at(const struct cm_top_history *history,
							   uint64_t held, uint64_t age)
{
	const uint64_t back = held + age;

	if (back >= history->count || back >= CM_TOP_SAMPLES)
		return NULL;
	return &history->point[(history->count - 1 - back) % CM_TOP_SAMPLES];
}

#endif
