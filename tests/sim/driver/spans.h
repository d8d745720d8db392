/* SPDX-License-Identifier: MIT */
/*
 * An ordered map of addresses: spans that do not overlap, each with a value. Caller locks.
 */
#ifndef CM_SIM_SPANS_H
#define CM_SIM_SPANS_H

#include <stdint.h>

struct sim_span {
	uint64_t begin;
	uint64_t end;
	void *value;
	uint32_t weight; /* of a treap: random, no heavier than its parent's */
	struct sim_span *below;
	struct sim_span *above;
};

struct sim_spans {
	struct sim_span *root;
	uint64_t seed;
};

/* The first span that overlaps the addresses, or NULL. */
struct sim_span *sim_spans_first(const struct sim_spans *spans, uint64_t begin, uint64_t end);

/* The addresses must be free. Aborts when memory is out. */
void sim_spans_add(struct sim_spans *spans, uint64_t begin, uint64_t end, void *value);

/* Takes it out and frees it. */
void sim_spans_remove(struct sim_spans *spans, struct sim_span *span);

#endif
