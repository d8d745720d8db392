/* SPDX-License-Identifier: MIT */
/*
 * `check`: conditions for scripts and monitors, with the exit codes and the line of Nagios's
 * plug-ins.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/output/reserve.h"
#include "tools/output/where.h"
#include "tools/verbs/verbs.h"
#include "tools/watch/live.h"

#define INTERVAL_NS     CM_NS_PER_S
#define INTERVAL_MIN_NS (CM_NS_PER_S / 10)
#define SAMPLES_MIN     10 /* of a shorter time */
#define CONDITIONS_MAX  8

enum column {
#define CM_COLUMN(ID, name, ALIGN, help) COLUMN_##ID,
#include "tools/verbs/check_columns.def"
	COLUMN_COUNT
};

static const struct cm_column columns[COLUMN_COUNT] = {
#define CM_COLUMN(ID, name, ALIGN, help) \
	[COLUMN_##ID] = {name, "", 0, CM_ALIGN_##ALIGN, 0, help, NULL, NULL},
#include "tools/verbs/check_columns.def"
};

static const struct cm_column_set column_set = {"check", "", columns, COLUMN_COUNT, false};

/* The codes of plug-ins; the worst of all is the result. */
enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_CRITICAL, LEVEL_UNKNOWN };

static const char *const level_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

struct preset {
	const char *name;
	enum level level;
	const char *text;
	uint64_t seconds;
};

enum preset_id {
#define CM_PRESET(ID, name, LEVEL, text, seconds) PRESET_##ID,
#include "tools/verbs/check_presets.def"
	PRESET_COUNT
};

static const struct preset presets[PRESET_COUNT] = {
#define CM_PRESET(ID, name, LEVEL, text, seconds) {name, LEVEL_##LEVEL, text, seconds},
#include "tools/verbs/check_presets.def"
};

struct condition {
	const char *name; /* of the preset, or the condition as it was typed */
	enum level level;
	struct cm_where *where;
	bool of_growth; /* judged once, at the end */
	bool of_ended;  /* names STATE: also judges processes that have ended */
};

/* One device of a process, over all samples. */
struct target {
	pid_t pid;
	uint64_t start;
	uint32_t device; /* row of the region */
	char comm[64];
	struct cm_device_row row;   /* of the last sample */
	uint64_t samples;           /* that had it */
	int64_t most_before;        /* allocated, in the first half of the samples */
	int64_t least_after;        /* in the second half */
	bool has_before, has_after; /* the half had a sample */
	bool wanted;                /* by --where, in the last sample */
	bool alive;
	bool fails[CONDITIONS_MAX]; /* in each sample so far */
};

struct check {
	const struct cm_options *options;
	struct condition condition[CONDITIONS_MAX];
	size_t conditions;
	struct cm_where *filter;
	uint64_t watch_ns; /* 0: one sample */
	uint64_t samples;  /* to take */
	struct target *target;
	size_t targets, room;
	size_t unreadable;
	size_t processes; /* in the last sample */
};

static int add_condition(struct check *check, const char *option, const char *name,
			 enum level level, const char *text)
{
	struct condition *condition = &check->condition[check->conditions];
	int exit;

	exit = cm_where_parse(&column_set, option, text, &condition->where);
	if (exit)
		return exit;
	condition->name = name;
	condition->level = level;
	condition->of_growth = cm_where_wants(condition->where, COLUMN_GROWN) ||
			       cm_where_wants(condition->where, COLUMN_GROWN_SHARE);
	condition->of_ended = cm_where_wants(condition->where, COLUMN_STATE);
	check->conditions++;
	return CM_EXIT_OK;
}

static int add_preset(struct check *check, const char *name)
{
	const char *names[PRESET_COUNT];
	size_t i;

	for (i = 0; i < PRESET_COUNT; i++) {
		names[i] = presets[i].name;
		if (strcmp(name, presets[i].name) != 0)
			continue;
		if (!check->options->given[CM_OPT_FOR] &&
		    check->watch_ns < presets[i].seconds * CM_NS_PER_S)
			check->watch_ns = presets[i].seconds * CM_NS_PER_S;
		return add_condition(check, "fail-on", presets[i].name, presets[i].level,
				     presets[i].text);
	}
	return cm_fail_unknown("value", "--fail-on ", name, names, PRESET_COUNT,
			       ", want oom, fragmented or leak; others are written as --warning or "
			       "--critical 'EXPRESSION'");
}

static int add_presets(struct check *check, const char *list)
{
	char words[128], *rest = NULL, *word;
	int exit = CM_EXIT_OK;

	if (snprintf(words, sizeof(words), "%s", list) >= (int)sizeof(words))
		return cm_fail(CM_EXIT_USAGE, "--fail-on '%s' is too long", list);
	for (word = strtok_r(words, ",", &rest); word && !exit; word = strtok_r(NULL, ",", &rest)) {
		if (check->conditions + 2 > CONDITIONS_MAX)
			return cm_fail(CM_EXIT_USAGE, "--fail-on names too many conditions");
		exit = add_preset(check, word);
	}
	return exit;
}

static int read_conditions(struct check *check)
{
	const struct cm_options *options = check->options;
	uint64_t interval = INTERVAL_NS;
	int exit = CM_EXIT_OK;

	check->watch_ns = options->for_ns;
	if (options->fail_on)
		exit = add_presets(check, options->fail_on);
	if (!exit && options->warning)
		exit = add_condition(check, "warning", options->warning, LEVEL_WARNING,
				     options->warning);
	if (!exit && options->critical)
		exit = add_condition(check, "critical", options->critical, LEVEL_CRITICAL,
				     options->critical);
	if (!exit && options->where)
		exit = cm_where_parse(&column_set, "where", options->where, &check->filter);
	if (!exit && !check->conditions)
		exit = cm_fail(CM_EXIT_USAGE,
			       "name a condition by --warning, --critical or --fail-on");
	if (check->watch_ns / SAMPLES_MIN < interval)
		interval = check->watch_ns / SAMPLES_MIN;
	if (interval < INTERVAL_MIN_NS)
		interval = INTERVAL_MIN_NS;
	check->samples = check->watch_ns / interval + 1;
	return exit;
}

static double percent_of(int64_t part, int64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void fill_device(const struct cm_device_row *row, struct cm_value *values)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);

	values[COLUMN_GPU] = cm_value_number(row->ordinal);
	values[COLUMN_ALLOC] = cm_value_bytes(sum.allocated);
	values[COLUMN_RESERVED] = cm_value_bytes(sum.reserved);
	values[COLUMN_RESERVED_SHARE] = cm_value_real(
		percent_of(sum.reserved, (int64_t)row->total_bytes));
	values[COLUMN_CACHED] = cm_value_bytes(sum.cached);
	values[COLUMN_FRAGMENTED] = cm_value_bytes(sum.fragmented);
	values[COLUMN_FRAGMENTED_SHARE] = cm_value_real(percent_of(sum.fragmented, sum.reserved));
	values[COLUMN_PENDING] = cm_value_bytes(sum.pending);
	values[COLUMN_UNCACHED] = cm_value_bytes(cm_summary_other(row));
	values[COLUMN_PEAK] = cm_value_bytes(sum.peak_allocated);
	values[COLUMN_OOM] = cm_value_number(row->scalar[CM_SCALAR_num_ooms]);
	values[COLUMN_RETRIES] = cm_value_number(row->scalar[CM_SCALAR_num_alloc_retries]);
}

static void fill_process(const struct cm_process *process, struct cm_value *values)
{
	values[COLUMN_PID] = cm_value_number(process->pid);
	values[COLUMN_USER] = cm_value_text(process->user);
	values[COLUMN_STATE] = cm_value_text(cm_life_name(process->life));
	values[COLUMN_COMM] = cm_value_text(process->comm);
	values[COLUMN_COMMAND] = cm_value_text(process->command);
	if (process->age_ns)
		values[COLUMN_UP] = cm_value_real((double)process->age_ns / 1e9);
}

/* A process that came later, or restarted, has not failed for all of the time. */
static struct target *find_target(struct check *check, const struct cm_watched *watched,
				  const struct cm_device_view *device)
{
	struct target *target;
	size_t i;

	for (i = 0; i < check->targets; i++) {
		target = &check->target[i];
		if (target->pid == watched->process->pid && target->device == device->index &&
		    target->start == watched->start_time)
			return target;
	}
	if (!cm_reserve(&check->target, &check->room, check->targets + 1))
		return NULL;
	target = &check->target[check->targets++];
	memset(target, 0, sizeof(*target));
	target->pid = watched->process->pid;
	target->start = watched->start_time;
	target->device = device->index;
	(void)snprintf(target->comm, sizeof(target->comm), "%s", watched->process->comm);
	memset(target->fails, true, sizeof(target->fails));
	return target;
}

static void note_growth(struct target *target, int64_t allocated, bool second_half)
{
	if (!second_half && (!target->has_before || allocated > target->most_before)) {
		target->most_before = allocated;
		target->has_before = true;
	} else if (second_half && (!target->has_after || allocated < target->least_after)) {
		target->least_after = allocated;
		target->has_after = true;
	}
}

static void fill_growth(const struct target *target, struct cm_value *values)
{
	int64_t grown;

	if (!target->has_before || !target->has_after)
		return;
	grown = cm_wrap_sub(target->least_after, target->most_before);
	values[COLUMN_GROWN] = cm_value_bytes(grown);
	/* From nothing, it has grown by more than any share. */
	values[COLUMN_GROWN_SHARE] = cm_value_real(target->most_before > 0
							   ? percent_of(grown, target->most_before)
							   : (grown > 0 ? 1e9 : 0));
}

/* The memory of a process that has ended is free: it counts only if it was asked for. */
static bool is_judged(const struct check *check, const struct target *target,
		      const struct condition *condition)
{
	return target->alive || condition->of_ended || check->options->region ||
	       cm_where_wants(check->filter, COLUMN_STATE);
}

/* A torn sample is of no one moment: what the last one said stays. */
static bool judge(struct check *check, const struct cm_watched *watched,
		  const struct cm_device_view *device, uint64_t number)
{
	const bool last = number + 1 == check->samples;
	struct cm_value values[COLUMN_COUNT] = {0};
	struct target *target = find_target(check, watched, device);
	size_t c;

	if (!target)
		return false;
	target->samples++;
	target->alive = !cm_process_is_dead(watched->process);
	if (!device->torn || target->samples == 1)
		target->row = device->row;
	fill_process(watched->process, values);
	fill_device(&target->row, values);
	note_growth(target, values[COLUMN_ALLOC].number, number >= check->samples / 2);
	fill_growth(target, values);
	target->wanted = cm_where_holds(check->filter, values);
	for (c = 0; c < check->conditions; c++)
		if (!check->condition[c].of_growth || last)
			target->fails[c] &= is_judged(check, target, &check->condition[c]) &&
					    cm_where_holds(check->condition[c].where, values);
	return true;
}

static bool judge_sample(struct check *check, const struct cm_watch_sample *sample, uint64_t number)
{
	size_t p, d;

	check->processes = 0;
	check->unreadable = 0;
	for (p = 0; p < sample->count; p++) {
		const struct cm_watched *watched = &sample->process[p];

		check->unreadable += watched->process->error != 0;
		check->processes += !watched->process->error &&
				    !cm_process_is_dead(watched->process);
		for (d = 0; d < watched->devices; d++)
			if (!judge(check, watched, &watched->device[d], number))
				return false;
	}
	return true;
}

static int take_samples(struct check *check, struct cm_watch_source *source)
{
	const uint64_t from_ns = cm_monotonic_ns();
	struct cm_watch_sample sample;
	uint64_t i;
	int err;

	for (i = 0; i < check->samples; i++) {
		if (i)
			cm_watch_sleep_until(from_ns + check->watch_ns / (check->samples - 1) * i);
		err = source->take(source, &sample);
		if (err)
			return cm_fail(CM_EXIT_TARGET, "%s", strerror(-err));
		if (!judge_sample(check, &sample, i))
			return cm_fail_memory();
	}
	return CM_EXIT_OK;
}

/* The worst condition that failed in every sample; NULL: all is in order. */
static const struct condition *worst_of(const struct check *check, const struct target *target)
{
	const struct condition *worst = NULL;
	size_t c;

	if (!target->wanted || target->samples < check->samples)
		return NULL;
	for (c = 0; c < check->conditions; c++)
		if (target->fails[c] && (!worst || check->condition[c].level > worst->level))
			worst = &check->condition[c];
	return worst;
}

/* A bar would begin the figures. */
static void print_text(const char *text)
{
	for (; *text; text++)
		(void)putchar(*text == '|' ? '/' : *text);
}

static void print_target(const struct target *target, const struct condition *condition)
{
	(void)printf("pid %d (", (int)target->pid);
	print_text(target->comm);
	(void)printf(") gpu %d: ", (int)target->row.ordinal);
	print_text(condition->name);
}

static void print_figures(const struct check *check)
{
	int64_t allocated = 0, reserved = 0, fragmented = 0, ooms = 0;
	size_t i;

	for (i = 0; i < check->targets; i++) {
		const struct target *target = &check->target[i];
		const struct cm_summary sum = cm_summary_pool(&target->row, CM_POOL_ALL);

		if (!target->wanted || !target->alive)
			continue;
		allocated = cm_wrap_add(allocated, sum.allocated);
		reserved = cm_wrap_add(reserved, sum.reserved);
		fragmented = cm_wrap_add(fragmented, sum.fragmented);
		ooms = cm_wrap_add(ooms, target->row.scalar[CM_SCALAR_num_ooms]);
	}
	(void)printf(" | allocated=%lldB;;;0 reserved=%lldB;;;0 fragmented=%lldB;;;0 ooms=%lldc "
		     "processes=%zu;;;0\n",
		     (long long)allocated, (long long)reserved, (long long)fragmented,
		     (long long)ooms, check->processes);
}

/* The worst first; the others on lines of their own, which monitors show on demand. */
static enum level print_result(const struct check *check)
{
	const struct condition *found, *worst = NULL;
	const struct target *first = NULL;
	size_t i, failed = 0;

	for (i = 0; i < check->targets; i++) {
		found = worst_of(check, &check->target[i]);
		failed += found != NULL;
		if (!found || (worst && worst->level >= found->level))
			continue;
		worst = found;
		first = &check->target[i];
	}
	if (!worst && !check->processes && !cm_processes_can_be_seen()) {
		(void)printf("CUDAMEM UNKNOWN - /proc is not mounted, so no process can be seen");
		print_figures(check);
		return LEVEL_UNKNOWN;
	}
	if (!worst && check->unreadable) {
		(void)printf("CUDAMEM UNKNOWN - %zu of the processes may not be read, or their "
			     "regions are damaged",
			     check->unreadable);
		print_figures(check);
		return LEVEL_UNKNOWN;
	}
	(void)printf("CUDAMEM %s - ", level_names[worst ? worst->level : LEVEL_OK]);
	if (first)
		print_target(first, worst);
	if (failed > 1)
		(void)printf(", and %zu more", failed - 1);
	if (!failed && !check->processes)
		(void)printf("no process uses libcudamem");
	else if (!failed)
		(void)printf("%zu process%s in order", check->processes,
			     check->processes == 1 ? "" : "es");
	print_figures(check);
	for (i = 0; i < check->targets; i++) {
		found = worst_of(check, &check->target[i]);
		if (!found || &check->target[i] == first)
			continue;
		(void)printf("%s - ", level_names[found->level]);
		print_target(&check->target[i], found);
		(void)putchar('\n');
	}
	return worst ? worst->level : LEVEL_OK;
}

static int look(struct check *check, enum level *ret_level)
{
	struct cm_watch_source *source = NULL;
	int exit;

	if (check->options->columns)
		return cm_fail(CM_EXIT_USAGE,
			       "prints no columns; '%s check -o help' lists those "
			       "that conditions may name",
			       CM_PROGRAM);
	exit = read_conditions(check);
	if (!exit)
		exit = cm_watch_live_open(check->options, &source);
	if (!exit)
		exit = take_samples(check, source);
	if (!exit)
		*ret_level = print_result(check);
	cm_watch_close(source);
	return exit;
}

/* Monitors show what a plug-in prints on its standard output. */
static enum level print_unknown(char *complaint)
{
	complaint[strcspn(complaint, "\n")] = '\0';
	(void)printf("CUDAMEM UNKNOWN - %s\n", complaint);
	return LEVEL_UNKNOWN;
}

int cm_verb_check(const struct cm_options *options)
{
	struct check check = {.options = options};
	enum level level = LEVEL_UNKNOWN;
	char *complaint = NULL;
	size_t bytes = 0, c;
	FILE *kept;
	int exit;

	if (options->columns && !strcmp(options->columns, "help")) {
		cm_column_set_list(&column_set);
		return CM_EXIT_OK;
	}
	kept = open_memstream(&complaint, &bytes);
	if (kept)
		cm_complain_to(kept);
	exit = look(&check, &level);
	cm_complain_to(NULL);
	if (kept && !fclose(kept) && exit)
		level = print_unknown(complaint);
	free(complaint);
	for (c = 0; c < check.conditions; c++)
		cm_where_free(check.condition[c].where);
	cm_where_free(check.filter);
	free(check.target);
	return level;
}
