/* SPDX-License-Identifier: MIT */
#include "tools/plot/recorded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/text.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"
#include "tools/plot/columns.h"
#include "tools/plot/plot.h"
#include "tools/plot/plot_files.h"

#define TIMES_MAX  2000 /* then two become one: more than a screen has columns */
#define SERIES_MAX 4096
#define CARDS_MAX  64
#define ABSENT     (-1)

/* A curve: at each time the largest values since the time before; ABSENT: it was not there. */
struct curve {
	int64_t allocated[TIMES_MAX];
	int64_t reserved[TIMES_MAX];
	uint32_t ooms[TIMES_MAX];
};

/* A card, by its UUID. */
struct card {
	uint8_t uuid[16];
	char model[64];
	int64_t total;
	int64_t allocated, reserved, ooms; /* sums in the sample at hand */
	struct curve curve;
};

/* A device of a process. */
struct series {
	pid_t pid;
	uint64_t start_time;
	uint32_t device;
	size_t card;
	char user[64];
	char command[512];
	int64_t peak;
	int64_t ooms; /* as last seen */
	bool crashed;
	struct curve curve;
};

struct plot {
	uint64_t time_ns[TIMES_MAX];
	size_t times;
	size_t samples_each; /* that a time stands for */
	size_t samples;
	struct series **series;
	size_t count, room;
	struct card *card[CARDS_MAX];
	size_t cards;
};

static void clear_curve(struct curve *curve)
{
	size_t i;

	memset(curve->ooms, 0, sizeof(curve->ooms));
	for (i = 0; i < TIMES_MAX; i++)
		curve->allocated[i] = curve->reserved[i] = ABSENT;
}

/* Puts two times together each. */
static void halve_curve(struct curve *curve)
{
	size_t i;

	for (i = 0; i < TIMES_MAX; i++) {
		const size_t a = 2 * i, b = a + 1;
		const bool there = i < TIMES_MAX / 2;

		curve->allocated[i] = !there ? ABSENT
				      : curve->allocated[a] > curve->allocated[b]
					      ? curve->allocated[a]
					      : curve->allocated[b];
		curve->reserved[i] = !there                                    ? ABSENT
				     : curve->reserved[a] > curve->reserved[b] ? curve->reserved[a]
									       : curve->reserved[b];
		curve->ooms[i] = there ? curve->ooms[a] + curve->ooms[b] : 0;
	}
}

static void halve(struct plot *plot)
{
	size_t i;

	for (i = 0; i < plot->count; i++)
		halve_curve(&plot->series[i]->curve);
	for (i = 0; i < plot->cards; i++)
		halve_curve(&plot->card[i]->curve);
	for (i = 0; i < TIMES_MAX / 2; i++)
		plot->time_ns[i] = plot->time_ns[2 * i];
	plot->times = TIMES_MAX / 2;
	plot->samples_each *= 2;
}

static void add_point(struct curve *curve, size_t time, int64_t allocated, int64_t reserved,
		      int64_t ooms)
{
	if (allocated > curve->allocated[time])
		curve->allocated[time] = allocated;
	if (reserved > curve->reserved[time])
		curve->reserved[time] = reserved;
	if (ooms > 0)
		curve->ooms[time] += ooms < UINT16_MAX ? (uint32_t)ooms : UINT16_MAX;
}

/* The number of a card; CARDS_MAX: there are too many, or -ENOMEM in *ret_err. */
static size_t find_card(struct plot *plot, const struct cm_device_row *row, int *ret_err)
{
	struct card *card;
	size_t i;

	for (i = 0; i < plot->cards; i++)
		if (!memcmp(plot->card[i]->uuid, row->uuid, sizeof(row->uuid)))
			return i;
	if (i == CARDS_MAX)
		return i;
	card = calloc(1, sizeof(*card));
	if (!card) {
		*ret_err = -ENOMEM;
		return CARDS_MAX;
	}
	memcpy(card->uuid, row->uuid, sizeof(card->uuid));
	(void)cm_text_clean(card->model, sizeof(card->model), row->name);
	card->total = row->total_bytes < INT64_MAX ? (int64_t)row->total_bytes : INT64_MAX;
	clear_curve(&card->curve);
	plot->card[plot->cards] = card;
	return plot->cards++;
}

static struct series *find_series(const struct plot *plot, const struct cm_watched *watched,
				  const struct cm_device_view *view)
{
	struct series *series;
	size_t i;

	for (i = 0; i < plot->count; i++) {
		series = plot->series[i];
		if (series->pid == watched->process->pid && series->device == view->index &&
		    series->start_time == watched->start_time)
			return series;
	}
	return NULL;
}

/* NULL: there are too many; or -ENOMEM in *ret_err. */
static struct series *add_series(struct plot *plot, const struct cm_watched *watched,
				 const struct cm_device_view *view, int *ret_err)
{
	struct series *series;
	size_t card;

	card = find_card(plot, &view->row, ret_err);
	if (card == CARDS_MAX || plot->count == SERIES_MAX)
		return NULL;
	if (!cm_reserve(&plot->series, &plot->room, plot->count + 1) ||
	    !(series = calloc(1, sizeof(*series)))) {
		*ret_err = -ENOMEM;
		return NULL;
	}
	series->pid = watched->process->pid;
	series->start_time = watched->start_time;
	series->device = view->index;
	series->card = card;
	series->ooms = view->row.scalar[CM_SCALAR_num_ooms];
	(void)cm_text_clean(series->user, sizeof(series->user), watched->process->user);
	clear_curve(&series->curve);
	plot->series[plot->count++] = series;
	return series;
}

static int add_device(struct plot *plot, const struct cm_watched *watched,
		      const struct cm_device_view *view)
{
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	const int64_t ooms = view->row.scalar[CM_SCALAR_num_ooms];
	struct series *series = find_series(plot, watched, view);
	struct card *card;
	int err = 0;

	if (series)
		series->crashed = watched->process->life == CM_LIFE_CRASHED;
	/* What a process had when it crashed is no longer on the card. One that had crashed before
	 * the recording began has no curve. */
	if (view->torn || cm_process_is_dead(watched->process))
		return 0;
	if (!series)
		series = add_series(plot, watched, view, &err);
	if (!series)
		return err;
	(void)cm_text_clean(series->command, sizeof(series->command), watched->process->command);
	if (sum.allocated > series->peak)
		series->peak = sum.allocated;
	add_point(&series->curve, plot->times - 1, sum.allocated, sum.reserved,
		  cm_wrap_sub(ooms, series->ooms));
	card = plot->card[series->card];
	card->allocated = cm_wrap_add(card->allocated, sum.allocated);
	card->reserved = cm_wrap_add(card->reserved, sum.reserved);
	card->ooms = cm_wrap_add(card->ooms, cm_wrap_sub(ooms, series->ooms));
	series->ooms = ooms;
	return 0;
}

static int add_sample(struct plot *plot, const struct cm_watch_sample *sample)
{
	size_t i, d;
	int err = 0;

	if (plot->samples % plot->samples_each == 0) {
		if (plot->times == TIMES_MAX)
			halve(plot);
		if (plot->samples % plot->samples_each == 0)
			plot->time_ns[plot->times++] = sample->time_ns;
	}
	plot->samples++;
	for (i = 0; i < plot->cards; i++)
		plot->card[i]->allocated = plot->card[i]->reserved = plot->card[i]->ooms = 0;
	for (i = 0; !err && i < sample->count; i++)
		for (d = 0; !err && d < sample->process[i].devices; d++)
			err = add_device(plot, &sample->process[i], &sample->process[i].device[d]);
	for (i = 0; i < plot->cards; i++)
		add_point(&plot->card[i]->curve, plot->times - 1, plot->card[i]->allocated,
			  plot->card[i]->reserved, plot->card[i]->ooms);
	return err;
}

static void put_curve(struct cm_json *json, const struct plot *plot, const struct curve *curve)
{
	size_t i;

	cm_json_array(json, "allocated");
	for (i = 0; i < plot->times; i++)
		cm_json_number(json, NULL, curve->allocated[i]);
	cm_json_end(json);
	cm_json_array(json, "reserved");
	for (i = 0; i < plot->times; i++)
		cm_json_number(json, NULL, curve->reserved[i]);
	cm_json_end(json);
	cm_json_array(json, "ooms"); /* [time, how many] */
	for (i = 0; i < plot->times; i++) {
		if (!curve->ooms[i])
			continue;
		cm_json_array(json, NULL);
		cm_json_unsigned(json, NULL, i);
		cm_json_unsigned(json, NULL, curve->ooms[i]);
		cm_json_end(json);
	}
	cm_json_end(json);
}

static void put_card(struct cm_json *json, const struct plot *plot, size_t number)
{
	const struct card *card = plot->card[number];
	char uuid[CM_UUID_TEXT];
	size_t i;

	cm_json_object(json, NULL);
	cm_json_text(json, "uuid", cm_uuid_format(card->uuid, card->model, uuid));
	cm_json_text(json, "model", card->model);
	cm_json_number(json, "total", card->total);
	put_curve(json, plot, &card->curve);
	cm_json_array(json, "processes");
	for (i = 0; i < plot->count; i++) {
		const struct series *series = plot->series[i];

		if (series->card != number)
			continue;
		cm_json_object(json, NULL);
		cm_json_number(json, "pid", series->pid);
		cm_json_text(json, "user", series->user);
		cm_json_text(json, "command", series->command);
		cm_json_number(json, "peak", series->peak);
		cm_json_bool(json, "crashed", series->crashed);
		put_curve(json, plot, &series->curve);
		cm_json_end(json);
	}
	cm_json_end(json);
	cm_json_end(json);
}

static void put_plot(struct cm_json *json, const struct plot *plot, const char *host)
{
	size_t i;

	cm_json_object(json, NULL);
	cm_json_array(json, "files"); /* it has no snapshots */
	cm_json_end(json);
	cm_json_text(json, "host", host);
	cm_json_unsigned(json, "samples", plot->samples);
	cm_json_array(json, "time"); /* ms since 1970 */
	for (i = 0; i < plot->times; i++)
		cm_json_unsigned(json, NULL, plot->time_ns[i] / 1000000);
	cm_json_end(json);
	cm_json_array(json, "cards");
	for (i = 0; i < plot->cards; i++)
		put_card(json, plot, i);
	cm_json_end(json);
	cm_json_end(json);
}

static int write_page(const struct plot *plot, const char *host, FILE *file)
{
	static const char *const styles[] = {cm_plot_page_css, cm_plot_recording_css, NULL};
	static const char *const scripts[] = {cm_plot_format_js,    cm_plot_dom_js,
					      cm_plot_data_js,      cm_plot_colors_js,
					      cm_plot_recording_js, NULL};
	const struct cm_plot_page page = {"recording", styles, cm_plot_recording_html, scripts};
	struct cm_columns columns;
	int err;

	err = cm_columns_open(&columns);
	if (!err)
		put_plot(&columns.json, plot, host);
	return cm_plot_finish_page(&columns, err, &page, file);
}

int cm_plot_recorded(struct cm_watch_source *source, FILE *file,
		     struct cm_plot_recorded *ret_report)
{
	struct plot *plot = calloc(1, sizeof(*plot));
	struct cm_watch_sample sample;
	int err = plot ? 0 : -ENOMEM;
	size_t i;

	if (plot)
		plot->samples_each = 1;
	while (!err) {
		err = source->take(source, &sample);
		if (!err)
			err = add_sample(plot, &sample);
	}
	if (plot && err == -ENODATA)
		err = write_page(plot, source->host, file);
	for (i = 0; plot && i < plot->count; i++)
		free(plot->series[i]);
	for (i = 0; plot && i < plot->cards; i++)
		free(plot->card[i]);
	if (plot)
		*ret_report = (struct cm_plot_recorded){plot->samples, plot->count, plot->cards};
	if (plot)
		free(plot->series);
	free(plot);
	return err;
}
