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
#include "tools/watch/recording.h"
#include "tools/watch/replay.h"

#define INTERVAL_MIN_NS (CM_NS_PER_S / 10)
#define RECORD_NS       CM_NS_PER_S
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

static struct sample take_sample(const struct cm_watched *watched,
				 const struct cm_device_view *view, uint64_t taken_ns)
{
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	const int64_t *scalar = view->row.scalar;

	return (struct sample){
		.pid = watched->process->pid,
		.start = watched->start_time,
		.device = view->index,
		.taken_ns = taken_ns,
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

static void fill_present(const struct cm_options *options, pid_t pid, uint64_t time_ns,
			 const struct cm_device_row *row, char *time, struct cm_value *values)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const time_t seconds = (time_t)(time_ns / CM_NS_PER_S);
	struct tm tm = {0};

	if (options->form == CM_FORM_TABLE) {
		(void)localtime_r(&seconds, &tm);
		(void)strftime(time, CM_TIME_TEXT, "%H:%M:%S", &tm);
	} else {
		(void)snprintf(time, CM_TIME_TEXT, "%s", cm_time_format(time_ns).text);
	}
	values[COLUMN_TIME] = cm_value_text(time);
	values[COLUMN_PID] = cm_value_number(pid);
	values[COLUMN_GPU] = cm_value_number(row->ordinal);
	values[COLUMN_ALLOC] = cm_value_bytes(sum.allocated);
	values[COLUMN_RESERVED] = cm_value_bytes(sum.reserved);
	values[COLUMN_CACHED] = cm_value_bytes(sum.cached);
	values[COLUMN_FRAGMENTED] = cm_value_bytes(sum.fragmented);
	values[COLUMN_PENDING] = cm_value_bytes(sum.pending);
}

/* The lines that are printed, and what the next ones are compared with. */
struct printer {
	const struct cm_options *options;
	struct cm_emit *emit;
	struct cm_where *until; /* NULL: none */
	struct samples last, next;
	bool until_growth; /* --until names a column of growth */
	bool begun;        /* there was a sample */
	bool reached;      /* --until held for a line */
};

/* Does the line end the listing? The growth in the first sample is of the time before it. */
static bool is_last(const struct printer *printer, const struct cm_value *values)
{
	return printer->until && (printer->begun || !printer->until_growth) &&
	       cm_where_holds(printer->until, values);
}

/* Prints a line a device of one process and keeps its samples for the next time. */
static void print_process(struct printer *printer, const struct cm_watched *watched,
			  const struct cm_watch_sample *from)
{
	static const struct sample nothing;
	char time[CM_TIME_TEXT];
	size_t i;

	for (i = 0; i < watched->devices; i++) {
		const struct cm_device_view *view = &watched->device[i];
		const struct sample sample = take_sample(watched, view, from->monotonic_ns);
		const struct sample *before = find_sample(&printer->last, &sample);
		struct cm_value values[COLUMN_COUNT] = {0};

		fill_present(printer->options, watched->process->pid, from->time_ns, &view->row,
			     time, values);
		if (before)
			fill_growth(before, &sample, sample.taken_ns - before->taken_ns, values);
		else
			fill_growth(&nothing, &sample, watched->process->age_ns, values);
		/* The means since the start are of a device's first line alone. */
		if (before || !printer->options->skip_first) {
			cm_emit_row(printer->emit, values);
			printer->reached |= is_last(printer, values);
		} else {
			cm_emit_left_out(printer->emit);
		}
		if (!add_sample(&printer->next, &sample))
			cm_complain("not enough memory on the host for the samples");
	}
}

/* Prints the lines of a sample. The number of processes that run. */
static size_t print_sample(struct printer *printer, const struct cm_watch_sample *sample)
{
	const bool named = printer->options->pid || printer->options->region;
	size_t alive = 0, i;

	printer->next = (struct samples){0};
	for (i = 0; i < sample->count; i++) {
		const struct cm_process *process = sample->process[i].process;

		if (process->error)
			continue;
		if (!cm_process_is_dead(process))
			alive++;
		else if (!named)
			continue; /* without a name only what lives is meant */
		print_process(printer, &sample->process[i], sample);
	}
	free(printer->last.item);
	printer->last = printer->next;
	printer->begun = true;
	return alive;
}

/* Complains if nothing in the first sample can be read. */
static int complain_unreadable(const struct cm_options *options,
			       const struct cm_watch_sample *sample)
{
	size_t i;

	for (i = 0; i < sample->count; i++)
		if (!sample->process[i].process->error)
			return CM_EXIT_OK;
	return sample->count ? cm_process_complain(sample->process[0].process)
			     : cm_complain_nobody(options);
}

/* Where the samples come from, and what is done with them. */
struct stat {
	const struct cm_options *options;
	struct plan plan;
	struct cm_watch_source *source;
	struct cm_recorder *recorder; /* NULL: none */
	struct printer printer;
};

/* Saves and prints a sample. `alive` is the number of processes that run in it. */
static int use_sample(struct stat *stat, const struct cm_watch_sample *sample, size_t *ret_alive)
{
	const int err = stat->recorder ? cm_recorder_add(stat->recorder, sample) : 0;

	*ret_alive = print_sample(&stat->printer, sample);
	(void)fflush(stdout);
	return err ? cm_fail(CM_EXIT_TARGET, "%s: %s; the recording ends here",
			     stat->options->record, strerror(-err))
		   : CM_EXIT_OK;
}

/* Follows what runs until the count is reached, or all that was named has ended. */
static int follow(struct stat *stat)
{
	const bool named = stat->options->pid || stat->options->region;
	uint64_t next_ns = cm_monotonic_ns(), lines;
	struct cm_watch_sample sample;
	bool first = true;
	size_t alive;
	int exit, err;

	/* What -y leaves out is no line. */
	for (lines = stat->options->skip_first ? -UINT64_C(1) : 0;;) {
		err = stat->source->take(stat->source, &sample);
		if (err)
			return cm_watch_fail(stat->source, err);
		exit = first ? complain_unreadable(stat->options, &sample) : CM_EXIT_OK;
		if (!exit)
			exit = use_sample(stat, &sample, &alive);
		first = false;
		lines++;
		if (exit || stat->printer.reached || !stat->plan.interval_ns ||
		    (stat->plan.count && lines == stat->plan.count) || ferror(stdout))
			return exit;
		if (named && !alive) {
			cm_complain("the process has ended");
			return exit;
		}
		next_ns += stat->plan.interval_ns;
		cm_watch_sleep_until(next_ns);
	}
}

/* Prints a recording: all samples, or one an interval, until the count is reached or it ends. */
static int play(struct stat *stat)
{
	struct cm_watch_source *source = stat->source;
	struct cm_watch_sample sample;
	uint64_t lines, printed_ns = 0;
	size_t found = 0;
	int err;

	for (lines = stat->options->skip_first ? -UINT64_C(1) : 0;;) {
		err = source->take(source, &sample);
		if (err)
			break;
		/* A tenth less will do: samples come a little early or late. */
		if (printed_ns && sample.time_ns - printed_ns < stat->plan.interval_ns / 10 * 9)
			continue;
		printed_ns = sample.time_ns;
		found += sample.count;
		(void)print_sample(&stat->printer, &sample);
		lines++;
		if (stat->printer.reached || (stat->plan.count && lines == stat->plan.count) ||
		    ferror(stdout))
			break;
		if (source->speed > 0 && !fflush(stdout))
			cm_watch_sleep_until(source->due_ns);
	}
	if (err && err != -ENODATA)
		return cm_watch_fail(stat->source, err);
	if (!found)
		return cm_fail(CM_EXIT_NO, "%s: the recording has no process '%s'",
			       stat->options->from, stat->options->pid ? stat->options->pid : "");
	return CM_EXIT_OK;
}

static int parse_interval(const char *text, uint64_t *ret_ns)
{
	if (cm_decimal_parse(text, 's', ret_ns))
		return cm_fail(CM_EXIT_USAGE, "interval '%s' is no number of seconds", text);
	if (*ret_ns < INTERVAL_MIN_NS)
		return cm_fail(CM_EXIT_USAGE, "interval '%s' is too short, want 0.1 s or more",
			       text);
	return CM_EXIT_OK;
}

static int parse_plan(const struct cm_options *options, struct plan *ret_plan)
{
	const bool many = options->arg_count > 0 || options->record || options->from;
	struct plan plan = {.count = many ? 0 : 1};
	int exit;

	if (options->record)
		plan.interval_ns = RECORD_NS;
	if (!many && options->skip_first)
		return cm_fail(
			CM_EXIT_USAGE,
			"--skip-first leaves out the only line there is without an interval");
	if (options->arg_count > 0) {
		exit = parse_interval(options->args[0], &plan.interval_ns);
		if (exit)
			return exit;
	}
	if (options->arg_count > 1 &&
	    (cm_number_parse(options->args[1], COUNT_MAX, &plan.count) || !plan.count))
		return cm_fail(CM_EXIT_USAGE, "count '%s' is no whole number of 1 or more",
			       options->args[1]);
	*ret_plan = plan;
	return CM_EXIT_OK;
}

/* The columns of growth are the last ones of stat_columns.def. */
static int parse_until(const char *text, struct printer *printer)
{
	int exit, column;

	exit = cm_where_parse(&column_set, "until", text, &printer->until);
	for (column = COLUMN_ALLOC_RATE; !exit && column < COLUMN_COUNT; column++)
		printer->until_growth |= cm_where_wants(printer->until, (size_t)column);
	return exit;
}

static int run_stat(struct stat *stat)
{
	const struct cm_options *options = stat->options;
	int exit = CM_EXIT_OK;

	if (options->until)
		exit = parse_until(options->until, &stat->printer);
	if (!exit)
		exit = cm_watch_open(options, false, &stat->source);
	if (!exit && options->record)
		exit = cm_recorder_open(options->record, &stat->recorder);
	if (!exit)
		exit = options->from ? play(stat) : follow(stat);
	cm_recorder_close(stat->recorder);
	cm_watch_close(stat->source);
	cm_where_free(stat->printer.until);
	free(stat->printer.last.item);
	return exit;
}

int cm_verb_stat(const struct cm_options *options)
{
	struct stat stat = {.options = options, .printer.options = options};
	int exit;

	exit = parse_plan(options, &stat.plan);
	if (exit)
		return exit;
	if (cm_emit_open(&column_set, options, &stat.printer.emit, &exit))
		return exit;
	return cm_emit_close(stat.printer.emit, run_stat(&stat));
}
