/* SPDX-License-Identifier: MIT */
/*
 * `stat`: a line per device and interval, as vmstat prints.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/tick.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"
#include "tools/output/where.h"
#include "tools/processes/collect.h"
#include "tools/verbs/verbs.h"

#define INTERVAL_MIN_NS (CM_NS_PER_S / 10)
#define COUNT_MAX       UINT32_MAX

enum column {
#define CM_COLUMN(ID, name, key, usual, ALIGN, width, help, old_name, old_key) COLUMN_##ID,
#include "tools/verbs/stat_columns.def"
	COLUMN_COUNT
};

static const struct cm_column columns[COLUMN_COUNT] = {
#define CM_COLUMN(ID, name, key, usual, ALIGN, width, help, old_name, old_key) \
	[COLUMN_##ID] = {name, key, usual, CM_ALIGN_##ALIGN, width, help, old_name, old_key},
#include "tools/verbs/stat_columns.def"
};

static const struct cm_column_set column_set = {"stat", "samples", columns, COLUMN_COUNT, true};

/* The counters of which a line shows the growth. */
struct sample {
	pid_t pid;
	uint64_t start;
	uint32_t device;
	uint64_t taken_ns;
	int64_t allocs, frees, hits, misses, driver_allocs, driver_frees, wait_ns, ooms;
};

struct samples {
	struct sample *item;
	size_t count;
	size_t room;
};

struct plan {
	uint64_t interval_ns; /* 0: one line */
	uint64_t count;       /* 0: for ever */
};

static struct sample take_sample(const struct cm_process *process,
				 const struct cm_device_view *view)
{
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	const int64_t *scalar = view->row.scalar;

	return (struct sample){
		.pid = process->pid,
		.start = process->reader->header.start_time,
		.device = view->index,
		.taken_ns = cm_monotonic_ns(),
		.allocs = sum.allocs,
		.frees = sum.frees,
		.hits = scalar[CM_SCALAR_cache_hits],
		.misses = scalar[CM_SCALAR_cache_misses],
		.driver_allocs = scalar[CM_SCALAR_num_device_alloc],
		.driver_frees = scalar[CM_SCALAR_num_device_free],
		.wait_ns = scalar[CM_SCALAR_wait_ns],
		.ooms = scalar[CM_SCALAR_num_ooms],
	};
}

static const struct sample *find_sample(const struct samples *samples, const struct sample *like)
{
	size_t i;

	for (i = 0; i < samples->count; i++)
		if (samples->item[i].pid == like->pid && samples->item[i].start == like->start &&
		    samples->item[i].device == like->device)
			return &samples->item[i];
	return NULL;
}

static bool add_sample(struct samples *samples, const struct sample *sample)
{
	if (!cm_reserve(&samples->item, &samples->room, samples->count + 1))
		return false;
	samples->item[samples->count++] = *sample;
	return true;
}

/* A counter that fell was reset meanwhile: its growth is not known. */
static void set_growth(struct cm_value *value, int64_t before, int64_t after, int64_t per)
{
	if (after >= before)
		*value = cm_value_number(cm_wrap_sub(after, before) / per);
}

static void set_rate(struct cm_value *value, int64_t before, int64_t after, uint64_t ns)
{
	const double rate = ((double)after - (double)before) * 1e9 / (double)ns;

	if (ns && rate >= 0 && rate < (double)INT64_MAX)
		*value = cm_value_number((int64_t)(rate + 0.5));
}

static void fill_growth(const struct sample *before, const struct sample *after, uint64_t ns,
			struct cm_value *values)
{
	const double hits = before->hits <= after->hits && before->misses <= after->misses
				    ? cm_hit_rate(cm_wrap_sub(after->hits, before->hits),
						  cm_wrap_sub(after->misses, before->misses))
				    : -1;

	set_rate(&values[COLUMN_ALLOC_RATE], before->allocs, after->allocs, ns);
	set_rate(&values[COLUMN_FREE_RATE], before->frees, after->frees, ns);
	if (hits >= 0)
		values[COLUMN_HIT] = cm_value_real(100 * hits);
	set_growth(&values[COLUMN_DRIVER_ALLOCS], before->driver_allocs, after->driver_allocs, 1);
	set_growth(&values[COLUMN_DRIVER_FREES], before->driver_frees, after->driver_frees, 1);
	set_growth(&values[COLUMN_WAIT_TIME], before->wait_ns, after->wait_ns, 1000);
	set_growth(&values[COLUMN_OOMS], before->ooms, after->ooms, 1);
	values[COLUMN_OOMS].alarming = values[COLUMN_OOMS].number > 0;
}

static void fill_present(const struct cm_options *options, const struct cm_process *process,
			 const struct cm_device_row *row, char *time, struct cm_value *values)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const time_t seconds = (time_t)(cm_time_now() / CM_NS_PER_S);
	struct tm tm = {0};

	if (options->form == CM_FORM_TABLE) {
		(void)localtime_r(&seconds, &tm);
		(void)strftime(time, CM_TIME_TEXT, "%H:%M:%S", &tm);
	} else {
		(void)snprintf(time, CM_TIME_TEXT, "%s", cm_time_format(cm_time_now()).text);
	}
	values[COLUMN_TIME] = cm_value_text(time);
	values[COLUMN_PID] = cm_value_number(process->pid);
	values[COLUMN_GPU] = cm_value_number(row->ordinal);
	values[COLUMN_ALLOC] = cm_value_bytes(sum.allocated);
	values[COLUMN_RESERVED] = cm_value_bytes(sum.reserved);
	values[COLUMN_CACHED] = cm_value_bytes(sum.cached);
	values[COLUMN_FRAGMENTED] = cm_value_bytes(sum.fragmented);
	values[COLUMN_PENDING] = cm_value_bytes(sum.pending);
}

/* Prints a line a device of one process and keeps its samples for the next time. True where --until
 * holds for one. */
static bool sample_process(const struct cm_options *options, const struct cm_process *process,
			   const struct samples *last, struct samples *next,
			   const struct cm_where *until, struct cm_emit *emit)
{
	static const struct sample nothing;
	struct cm_device_view view;
	char time[CM_TIME_TEXT];
	uint32_t index = 0;
	bool reached = false;

	while (cm_process_next_device(options, process, &index, &view)) {
		const struct sample sample = take_sample(process, &view);
		const struct sample *before = find_sample(last, &sample);
		struct cm_value values[COLUMN_COUNT] = {0};

		fill_present(options, process, &view.row, time, values);
		if (before)
			fill_growth(before, &sample, sample.taken_ns - before->taken_ns, values);
		else
			fill_growth(&nothing, &sample, process->age_ns, values);
		/* The means since the start are of a device's first line alone. */
		if (before || !options->skip_first) {
			cm_emit_row(emit, values);
			reached |= until && cm_where_holds(until, values);
		} else {
			cm_emit_left_out(emit);
		}
		if (!add_sample(next, &sample))
			cm_complain("not enough memory on the host for the samples");
	}
	return reached;
}

static size_t sample_all(const struct cm_options *options, struct cm_processes *processes,
			 struct samples *last, const struct cm_where *until, struct cm_emit *emit,
			 bool *ret_reached)
{
	struct samples next = {0};
	size_t alive = 0, i;

	for (i = 0; i < processes->count; i++) {
		struct cm_process *process = &processes->item[i];

		if (!process->reader)
			continue;
		(void)cm_reader_refresh(process->reader);
		process->life = cm_reader_life(process->reader);
		if (!cm_process_is_dead(process))
			alive++;
		else if (!options->pid && !options->region)
			continue; /* without a name only what lives is meant */
		*ret_reached |= sample_process(options, process, last, &next, until, emit);
	}
	free(last->item);
	*last = next;
	return alive;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec until = {(time_t)(ns / CM_NS_PER_S), (long)(ns % CM_NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		continue;
}

/* Prints until the count is reached, or all that was named has ended. */
static int sample_loop(const struct cm_options *options, const struct plan *plan,
		       struct cm_processes *processes, const struct cm_where *until,
		       struct cm_emit *emit)
{
	const bool named = options->pid || options->region;
	struct samples last = {0};
	uint64_t next_ns = cm_monotonic_ns(), lines;
	size_t alive;
	bool reached = false;
	int exit = CM_EXIT_OK;

	/* What -y leaves out is no line. */
	for (lines = options->skip_first ? -UINT64_C(1) : 0;;) {
		alive = sample_all(options, processes, &last, until, emit, &reached);
		lines++;
		if (reached || !plan->interval_ns || (plan->count && lines == plan->count) ||
		    ferror(stdout))
			break;
		if (named && !alive) {
			cm_complain("the process has ended");
			break;
		}
		next_ns += plan->interval_ns;
		sleep_until(next_ns);
		if (named)
			continue;
		cm_processes_free(processes);
		exit = cm_collect(options, NULL, processes);
		if (exit)
			break;
	}
	free(last.item);
	return exit;
}

static int parse_plan(const struct cm_options *options, struct plan *ret_plan)
{
	struct plan plan = {.count = 1};

	if (options->arg_count > 0) {
		if (cm_decimal_parse(options->args[0], 's', &plan.interval_ns))
			return cm_fail(CM_EXIT_USAGE, "interval '%s' is no number of seconds",
				       options->args[0]);
		if (plan.interval_ns < INTERVAL_MIN_NS)
			return cm_fail(CM_EXIT_USAGE,
				       "interval '%s' is too short, want 0.1 s or more",
				       options->args[0]);
		plan.count = 0;
	} else if (options->skip_first)
		return cm_fail(
			CM_EXIT_USAGE,
			"--skip-first leaves out the only line there is without an interval");
	if (options->arg_count > 1 &&
	    (cm_number_parse(options->args[1], COUNT_MAX, &plan.count) || !plan.count))
		return cm_fail(CM_EXIT_USAGE, "count '%s' is no whole number of 1 or more",
			       options->args[1]);
	*ret_plan = plan;
	return CM_EXIT_OK;
}

static int complain_unreadable(const struct cm_options *options,
			       const struct cm_processes *processes)
{
	size_t i;

	for (i = 0; i < processes->count; i++)
		if (processes->item[i].reader)
			return CM_EXIT_OK;
	return processes->count ? cm_process_complain(&processes->item[0])
				: cm_complain_nobody(options);
}

int cm_verb_stat(const struct cm_options *options)
{
	struct cm_processes processes = {0};
	struct cm_where *until = NULL;
	struct cm_emit *emit;
	struct plan plan;
	int exit;

	exit = parse_plan(options, &plan);
	if (exit)
		return exit;
	if (cm_emit_open(&column_set, options, &emit, &exit))
		return exit;
	if (options->until)
		exit = cm_where_parse(&column_set, "until", options->until, &until);
	if (!exit)
		exit = cm_collect(options, options->pid, &processes);
	if (!exit)
		exit = complain_unreadable(options, &processes);
	if (!exit)
		exit = sample_loop(options, &plan, &processes, until, emit);
	cm_where_free(until);
	cm_processes_free(&processes);
	return cm_emit_close(emit, exit);
}
