/* SPDX-License-Identifier: MIT */
#include "allocator/oom/oom_report.h"

#include <assert.h>
#include <string.h>

int64_t cm_oom_cached(const struct cm_oom_figures *figures)
{
	return figures->pending + figures->fragmented + figures->releasable;
}

int64_t cm_oom_outside(const struct cm_oom_figures *figures)
{
	return figures->total - figures->free - figures->live - cm_oom_cached(figures) -
	       figures->other - figures->peers;
}

int64_t cm_oom_others(const struct cm_oom_figures *figures)
{
	const int64_t strangers = cm_oom_outside(figures) - figures->context;

	return figures->peers + (strangers > 0 ? strangers : 0);
}

enum cm_oom_verdict cm_oom_judge(const struct cm_oom_figures *figures)
{
	const int64_t at_hand = figures->free + cm_oom_cached(figures);

	if (figures->asked > figures->total)
		return CM_OOM_TOO_BIG;
	if (figures->limited)
		return CM_OOM_LIMIT;
	if (figures->free >= figures->asked)
		return CM_OOM_DRIVER;
	if (at_hand >= figures->asked)
		return CM_OOM_FRAGMENTED;
	if (figures->free + cm_oom_others(figures) >= figures->asked)
		return CM_OOM_OTHER_PROCESSES;
	return CM_OOM_FULL;
}

/* The part of `bytes` that the limit leaves, if so much stays reserved. */
static int64_t allowed(const struct cm_oom_figures *figures, int64_t reserved, int64_t bytes)
{
	const int64_t left = figures->limit - figures->other - figures->managed - reserved;

	if (!figures->limit || bytes <= left)
		return bytes;
	return left > 0 ? left : 0;
}

bool cm_oom_would_fit(const struct cm_oom_figures *figures, enum cm_oom_remedy remedy,
		      int64_t *ret_bytes)
{
	const int64_t cached = cm_oom_cached(figures), live = figures->live;
	/* If the driver refuses although enough is free, more free memory is no remedy. */
	bool can = figures->limited || figures->free < figures->asked;

	*ret_bytes = figures->free;
	switch (remedy) {
	case CM_OOM_WITHOUT_LIMIT:
		can &= figures->limited;
		break;
	case CM_OOM_ONE_SEGMENT:
		*ret_bytes = allowed(figures, live, figures->free + cached);
		break;
	case CM_OOM_PAGED:
		*ret_bytes = allowed(figures, live + cached - figures->pages,
				     figures->free + figures->pages);
		break;
	case CM_OOM_ALONE:
		*ret_bytes += cm_oom_others(figures);
		if (figures->limited)
			*ret_bytes = allowed(figures, live + cached, *ret_bytes);
		can &= !figures->limited;
		break;
	case CM_OOM_REMEDY_COUNT:
		break;
	}
	return can && *ret_bytes >= figures->asked;
}

int64_t cm_oom_excess(const struct cm_oom_figures *figures)
{
	int64_t excess = figures->asked - figures->free - cm_oom_cached(figures), over;

	if (figures->limited) {
		over = figures->live + figures->other + figures->managed + figures->asked -
		       figures->limit;
		excess = over > excess ? over : excess;
	}
	return excess > 0 ? excess : 0;
}

/* Of `bytes` in hundredths of `unit`, rounded down; *ret_rest: what is left, in bytes * 100. */
static int64_t divide(int64_t bytes, int64_t unit, int64_t *ret_rest)
{
	/* In two steps, so that nothing overflows. */
	int64_t whole = bytes / unit, part = bytes % unit * 100;
	int64_t hundredths = whole * 100 + part / unit;

	*ret_rest = part % unit;
	if (*ret_rest < 0) {
		*ret_rest += unit;
		hundredths--;
	}
	return hundredths;
}

int64_t cm_oom_hundredths(int64_t bytes, int64_t unit)
{
	int64_t rest, hundredths = divide(bytes, unit, &rest);

	return hundredths + (rest >= unit - rest);
}

void cm_oom_share(const int64_t *part, size_t n, int64_t unit, int64_t sum, int64_t *ret_hundredths)
{
	int64_t rest[CM_OOM_PARTS];
	size_t i, best;

	assert(n <= CM_OOM_PARTS);
	for (i = 0; i < n; i++) {
		ret_hundredths[i] = divide(part[i], unit, &rest[i]);
		sum -= ret_hundredths[i];
	}
	for (; sum > 0; sum--) {
		for (best = 0, i = 1; i < n; i++)
			if (rest[i] > rest[best])
				best = i;
		ret_hundredths[best]++;
		rest[best] = -1;
	}
}

static struct cm_oom_holder *find_holder(struct cm_oom_tally *tally, uint64_t key)
{
	size_t i;

	for (i = 0; i < CM_OOM_TALLY; i++)
		if (tally->slot[i].key == key && tally->slot[i].bytes)
			return &tally->slot[i];
	return NULL;
}

/*
 * Metwally's space saving: if all slots are taken, a new holder replaces the smallest and inherits
 * its bytes. No holder of more than a slot's share can be missing at the end.
 */
void cm_oom_propose(struct cm_oom_tally *tally, uint64_t key, int64_t bytes)
{
	struct cm_oom_holder *slot = find_holder(tally, key);
	size_t i;

	if (!slot) {
		slot = &tally->slot[0];
		for (i = 1; i < CM_OOM_TALLY; i++)
			if (tally->slot[i].bytes < slot->bytes)
				slot = &tally->slot[i];
		slot->key = key;
	}
	slot->bytes += bytes;
}

void cm_oom_recount(struct cm_oom_tally *tally)
{
	size_t i;

	for (i = 0; i < CM_OOM_TALLY; i++)
		tally->slot[i].blocks = tally->slot[i].bytes ? 0 : -1;
	for (i = 0; i < CM_OOM_TALLY; i++)
		tally->slot[i].bytes = 0;
	tally->rest = (struct cm_oom_holder){0};
}

void cm_oom_count(struct cm_oom_tally *tally, uint64_t key, int64_t bytes)
{
	struct cm_oom_holder *slot = &tally->rest;
	size_t i;

	for (i = 0; i < CM_OOM_TALLY; i++) {
		if (tally->slot[i].key == key && tally->slot[i].blocks >= 0) {
			slot = &tally->slot[i];
			break;
		}
	}
	slot->bytes += bytes;
	slot->blocks++;
}

static void add_to(struct cm_oom_holder *sum, const struct cm_oom_holder *part)
{
	sum->bytes += part->bytes;
	sum->blocks += part->blocks;
}

void cm_oom_rank(const struct cm_oom_tally *tally, struct cm_oom_holders *ret_holders)
{
	struct cm_oom_holder all[CM_OOM_TALLY];
	size_t i, rank, best;

	memcpy(all, tally->slot, sizeof(all));
	memset(ret_holders, 0, sizeof(*ret_holders));
	ret_holders->rest = tally->rest;
	for (rank = 0; rank < CM_OOM_HOLDERS; rank++) {
		for (best = 0, i = 1; i < CM_OOM_TALLY; i++)
			if (all[i].bytes > all[best].bytes)
				best = i;
		if (!all[best].bytes)
			break;
		ret_holders->top[rank] = all[best];
		all[best].bytes = all[best].blocks = 0;
	}
	for (i = 0; i < CM_OOM_TALLY; i++)
		if (all[i].bytes)
			add_to(&ret_holders->rest, &all[i]);
}
