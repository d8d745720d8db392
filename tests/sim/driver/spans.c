/* SPDX-License-Identifier: MIT */
#include "spans.h"

#include <stdlib.h>

struct sim_span *sim_spans_first(const struct sim_spans *spans, uint64_t begin, uint64_t end)
{
	struct sim_span *span = spans->root;
	struct sim_span *found = NULL;

	while (span) {
		if (span->end > begin) {
			found = span;
			span = span->below;
		} else {
			span = span->above;
		}
	}
	return found && found->begin < end ? found : NULL;
}

/* Parts the tree in what begins before the address and the rest. */
static void part(struct sim_span *tree, uint64_t at, struct sim_span **below,
		 struct sim_span **above)
{
	while (tree) {
		if (tree->begin < at) {
			*below = tree;
			below = &tree->above;
			tree = tree->above;
		} else {
			*above = tree;
			above = &tree->below;
			tree = tree->below;
		}
	}
	*below = NULL;
	*above = NULL;
}

static struct sim_span *join(struct sim_span *below, struct sim_span *above)
{
	struct sim_span *root = NULL;
	struct sim_span **link = &root;

	while (below && above) {
		if (below->weight >= above->weight) {
			*link = below;
			link = &below->above;
			below = below->above;
		} else {
			*link = above;
			link = &above->below;
			above = above->below;
		}
	}
	*link = below ? below : above;
	return root;
}

static uint32_t draw(struct sim_spans *spans)
{
	spans->seed = spans->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(spans->seed >> 32);
}

void sim_spans_add(struct sim_spans *spans, uint64_t begin, uint64_t end, void *value)
{
	struct sim_span **link = &spans->root;
	struct sim_span *span = malloc(sizeof(*span));

	if (!span)
		abort();
	*span = (struct sim_span){
		.begin = begin, .end = end, .value = value, .weight = draw(spans)};
	while (*link && (*link)->weight >= span->weight)
		link = (*link)->begin < begin ? &(*link)->above : &(*link)->below;
	part(*link, begin, &span->below, &span->above);
	*link = span;
}

void sim_spans_remove(struct sim_spans *spans, struct sim_span *span)
{
	struct sim_span **link = &spans->root;

	while (*link != span)
		link = (*link)->begin < span->begin ? &(*link)->above : &(*link)->below;
	*link = join(span->below, span->above);
	free(span);
}
