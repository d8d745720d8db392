/* SPDX-License-Identifier: MIT */
#include "tools/plot/curve.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/plot/outside.h"
#include "tools/snapshot/lines.h"

/* Lets the columns reach from the first event to the last, also of these. */
static void widen(const struct cm_history *history, struct cm_curve *curve)
{
	uint64_t start, end;

	if (!history->events)
		return;
	start = cm_history_time(history, 0);
	end = cm_history_end(history);
	if (curve->start_ns && curve->start_ns + curve->span_ns > end)
		end = curve->start_ns + curve->span_ns;
	if (curve->start_ns && curve->start_ns < start)
		start = curve->start_ns;
	curve->start_ns = start;
	curve->span_ns = end > start ? end - start : 0;
}

/* The time at which a column ends. */
static uint64_t end_of(const struct cm_curve *curve, size_t column)
{
	if (column + 1 == curve->columns)
		return curve->start_ns + curve->span_ns;
	return curve->start_ns +
	       (uint64_t)((double)curve->span_ns * (double)(column + 1) / (double)curve->columns);
}

/* A damaged event may have a time beyond the end. It counts where it stands in the order, so that
 * it does not hide those behind it. */
static bool is_by(const struct cm_curve *curve, uint64_t time_ns, size_t column)
{
	return time_ns <= end_of(curve, column) || time_ns > curve->start_ns + curve->span_ns;
}

/* Chooses the events of the columns. */
static void sample(const struct cm_history *history, struct cm_curve *curve)
{
	uint32_t last = CM_BEFORE, best;
	size_t c, e = 0;

	for (c = 0; c < curve->columns; c++) {
		best = last;
		for (; e < history->events && is_by(curve, cm_history_time(history, e), c); e++)
			if (best == last || history->level[e].allocated >
						    cm_history_level(history, best)->allocated)
				best = (uint32_t)e;
		curve->event[c] = best;
		curve->reserved[c] = cm_history_level(history, best)->reserved;
		if (curve->reserved[c] > curve->most_reserved)
			curve->most_reserved = curve->reserved[c];
		/* The next column begins with what this one ends with. */
		last = e ? (uint32_t)(e - 1) : CM_BEFORE;
	}
}

static void sample_outside(struct cm_outside *outside, struct cm_curve *curve)
{
	uint64_t total, most;
	size_t c;

	for (c = 0; c < curve->columns; c++) {
		most = cm_outside_level(outside);
		while (cm_outside_read(outside, end_of(curve, c)))
			if (cm_outside_level(outside) > most)
				most = cm_outside_level(outside);
		total = curve->reserved[c] + most;
		curve->outside[c] = most;
		curve->most_outside = most > curve->most_outside ? most : curve->most_outside;
		curve->most_total = total > curve->most_total ? total : curve->most_total;
	}
}

/* What the columns show of the cache and of memory outside. -ENOMEM. */
static int fill_columns(const struct cm_history *history, struct cm_curve *curve)
{
	struct cm_outside outside;
	int err;

	widen(history, curve);
	err = cm_outside_open(history->snapshot, history->device, &outside);
	if (err == -ENODATA) {
		sample(history, curve);
		return 0;
	}
	if (err)
		return err;
	curve->outside = calloc(curve->columns + 1, sizeof(*curve->outside));
	if (curve->outside) {
		widen(outside.history, curve);
		sample(history, curve);
		sample_outside(&outside, curve);
	}
	cm_outside_close(&outside);
	return curve->outside ? 0 : -ENOMEM;
}

/* The first column that shows the state after this event or a later one. */
static size_t column_of(const struct cm_curve *curve, uint32_t event)
{
	size_t low = 0, high = curve->columns, middle;

	if (event == CM_BEFORE)
		return 0;
	while (low < high) {
		middle = (low + high) / 2;
		if (curve->event[middle] != CM_BEFORE && curve->event[middle] >= event)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int by_peak(const void *a, const void *b, void *data)
{
	const struct cm_group *group = data;
	const struct cm_sum *x = &group[*(const size_t *)a].sum;
	const struct cm_sum *y = &group[*(const size_t *)b].sum;

	if (x->bytes[CM_MEASURE_PEAK] != y->bytes[CM_MEASURE_PEAK])
		return x->bytes[CM_MEASURE_PEAK] > y->bytes[CM_MEASURE_PEAK] ? -1 : 1;
	if (x->bytes[CM_MEASURE_ALLOCATED] != y->bytes[CM_MEASURE_ALLOCATED])
		return x->bytes[CM_MEASURE_ALLOCATED] > y->bytes[CM_MEASURE_ALLOCATED] ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Gives the groups with most memory a band each; ret_band_of has the band of each group. */
static int choose_bands(struct cm_curve *curve, size_t most, size_t **ret_band_of)
{
	const struct cm_groups *groups = &curve->groups;
	size_t *order = calloc(groups->count + 1, sizeof(*order));
	size_t *band_of = calloc(groups->count + 1, sizeof(*band_of));
	size_t i, own = groups->count < most ? groups->count : most;

	curve->band = calloc(own + 1, sizeof(*curve->band));
	if (!order || !band_of || !curve->band) {
		free(order);
		free(band_of);
		return -ENOMEM;
	}
	for (i = 0; i < groups->count; i++)
		order[i] = i;
	qsort_r(order, groups->count, sizeof(*order), by_peak, groups->group);
	curve->bands = own + 1;
	curve->others = groups->count - own;
	curve->band[own].name = "other callers";
	for (i = 0; i < groups->count; i++) {
		const struct cm_group *group = &groups->group[order[i]];
		struct cm_band *band = &curve->band[i < own ? i : own];

		band_of[order[i]] = i < own ? i : own;
		band->name = i < own ? group->name : band->name;
		band->peak_bytes += group->sum.bytes[CM_MEASURE_PEAK];
	}
	free(order);
	*ret_band_of = band_of;
	return 0;
}

static void add_span(const struct cm_curve *curve, uint64_t *bytes, const struct cm_span *span)
{
	size_t from = column_of(curve, span->begin), to = curve->columns;

	if (span->freed == CM_BEFORE)
		return;
	if (span->freed != CM_NEVER)
		to = column_of(curve, span->freed);
	/* Differences, which are summed up afterwards. */
	if (from >= to)
		return;
	bytes[from] += span->size;
	bytes[to] -= span->size;
}

static int fill(const struct cm_history *history, struct cm_curve *curve, const size_t *band_of)
{
	const struct cm_group *group;
	size_t i, b, c;
	uint64_t sum;

	for (b = 0; b < curve->bands; b++) {
		curve->band[b].bytes = calloc(curve->columns + 1, sizeof(uint64_t));
		if (!curve->band[b].bytes)
			return -ENOMEM;
	}
	for (i = 0; i < history->spans; i++) {
		group = cm_group_of(&curve->groups, history->snapshot, &history->span[i]);
		if (!group)
			return -ENOMEM;
		add_span(curve, curve->band[band_of[group - curve->groups.group]].bytes,
			 &history->span[i]);
	}
	for (b = 0; b < curve->bands; b++)
		for (c = 1; c < curve->columns; c++)
			curve->band[b].bytes[c] += curve->band[b].bytes[c - 1];
	for (c = 0; c < curve->columns; c++) {
		for (b = 0, sum = 0; b < curve->bands; b++)
			sum += curve->band[b].bytes[c];
		curve->most = sum > curve->most ? sum : curve->most;
	}
	return 0;
}

int cm_curve_create(const struct cm_history *history, size_t columns, size_t bands,
		    struct cm_curve **ret_curve)
{
	const struct cm_view view = {CM_BY_CALLER, CM_VIEW_DEPTH, false, CM_VIEW_ROWS};
	struct cm_curve *curve = calloc(1, sizeof(*curve));
	size_t *band_of = NULL;
	int err = -ENOMEM;

	if (!curve)
		return -ENOMEM;
	if (cm_groups_create(history, &view, &curve->groups)) {
		free(curve);
		return -ENOMEM;
	}
	curve->columns = columns;
	curve->event = calloc(columns + 1, sizeof(*curve->event));
	curve->reserved = calloc(columns + 1, sizeof(*curve->reserved));
	if (curve->event && curve->reserved)
		err = fill_columns(history, curve);
	if (!err)
		err = choose_bands(curve, bands, &band_of);
	if (!err)
		err = fill(history, curve, band_of);
	free(band_of);
	if (err)
		cm_curve_destroy(curve);
	else
		*ret_curve = curve;
	return err;
}

void cm_curve_destroy(struct cm_curve *curve)
{
	size_t b;

	if (!curve)
		return;
	for (b = 0; b < curve->bands; b++)
		free(curve->band[b].bytes);
	free(curve->band);
	free(curve->event);
	free(curve->reserved);
	free(curve->outside);
	cm_groups_fini(&curve->groups);
	free(curve);
}
