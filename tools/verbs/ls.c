/* SPDX-License-Identifier: MIT */
/*
 * `ls`: one line per device of each process; --all adds the processes that NVML knows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stats/summary.h"
#include "stats/text.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/output/text.h"
#include "tools/processes/collect.h"
#include "tools/processes/describe.h"
#include "tools/processes/nvml.h"
#include "tools/verbs/verbs.h"

#define NS_PER_S UINT64_C(1000000000)

enum column {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help)                     COLUMN_##ID,
#define CM_RENAMED(ID, name, key, usual, ALIGN, help, old_name, old_key) COLUMN_##ID,
#include "tools/output/columns.def"
	COLUMN_COUNT
};

static const struct cm_column columns[COLUMN_COUNT] = {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) \
	[COLUMN_##ID] = {name, key, usual, CM_ALIGN_##ALIGN, 0, help, NULL, NULL},
#define CM_RENAMED(ID, name, key, usual, ALIGN, help, old_name, old_key) \
	[COLUMN_##ID] = {name, key, usual, CM_ALIGN_##ALIGN, 0, help, old_name, old_key},
#include "tools/output/columns.def"
};

static const struct cm_column_set column_set = {"ls", "rows", columns, COLUMN_COUNT, false};

static void fill_identity(const struct cm_process *process, struct cm_value *values)
{
	values[COLUMN_PID] = cm_value_number(process->pid);
	values[COLUMN_USER] = cm_value_text(process->user);
	values[COLUMN_COMMAND] = cm_value_text(process->command);
	values[COLUMN_REGION] = cm_value_text(process->path);
	values[COLUMN_STATE] = cm_value_text(cm_life_name(process->life));
	values[COLUMN_STATE].alarming = process->life == CM_LIFE_CRASHED;
	if (!process->reader)
		return;
	values[COLUMN_COMM] = cm_value_text(process->comm);
	values[COLUMN_NSPID] = cm_value_number(process->reader->header.pid);
	values[COLUMN_VERSION] = cm_value_text(process->reader->header.version);
	if (process->age_ns)
		values[COLUMN_UP] = cm_value_real((double)process->age_ns / 1e9);
}

static void fill_counters(const struct cm_device_row *row, struct cm_value *values)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const double hits = cm_hit_rate(row->scalar[CM_SCALAR_cache_hits],
					row->scalar[CM_SCALAR_cache_misses]);

	values[COLUMN_ALLOC] = cm_value_bytes(sum.allocated);
	values[COLUMN_RESERVED] = cm_value_bytes(sum.reserved);
	values[COLUMN_CACHED] = cm_value_bytes(sum.cached);
	values[COLUMN_FRAGMENTED] = cm_value_bytes(sum.fragmented);
	values[COLUMN_UNCACHED] = cm_value_bytes(cm_summary_other(row));
	values[COLUMN_PEAK] = cm_value_bytes(sum.peak_allocated);
	values[COLUMN_PEAKRSV] = cm_value_bytes(sum.peak_reserved);
	values[COLUMN_REQ] = cm_value_bytes(sum.requested);
	values[COLUMN_PENDING] = cm_value_bytes(sum.pending);
	values[COLUMN_BLOCKS] = cm_value_number(sum.blocks);
	values[COLUMN_SEGS] = cm_value_number(sum.segments);
	values[COLUMN_ALLOCS] = cm_value_number(sum.allocs);
	values[COLUMN_FREES] = cm_value_number(sum.frees);
	if (hits >= 0)
		values[COLUMN_HIT] = cm_value_real(100 * hits);
	values[COLUMN_DRVALLOC] = cm_value_number(row->scalar[CM_SCALAR_num_device_alloc]);
	values[COLUMN_DRVFREE] = cm_value_number(row->scalar[CM_SCALAR_num_device_free]);
	values[COLUMN_RETRIES] = cm_value_number(row->scalar[CM_SCALAR_num_alloc_retries]);
	values[COLUMN_DECAYED] = cm_value_bytes(row->scalar[CM_SCALAR_decay_bytes]);
	values[COLUMN_GIVEN] = cm_value_bytes(row->scalar[CM_SCALAR_neighbour_bytes_given]);
	values[COLUMN_GOT] = cm_value_bytes(row->scalar[CM_SCALAR_neighbour_bytes_got]);
	values[COLUMN_OOM] = cm_value_number(row->scalar[CM_SCALAR_num_ooms]);
	values[COLUMN_OOM].alarming = row->scalar[CM_SCALAR_num_ooms] > 0;
}

static void fill_survey(const struct cm_survey_pool *found, struct cm_value *values)
{
	const double fragmentation = cm_fragmentation(found);

	values[COLUMN_LARGEST] = cm_value_bytes((int64_t)found->largest_free);
	if (fragmentation >= 0)
		values[COLUMN_FRAG] = cm_value_real(100 * fragmentation);
}

/* Prints one row per device; a process without a device, or that cannot be read, has one row. */
static void emit_process(const struct cm_options *options, const struct cm_process *process,
			 struct cm_emit *emit)
{
	const bool surveyed = cm_emit_wants(emit, COLUMN_LARGEST) ||
			      cm_emit_wants(emit, COLUMN_FRAG);
	struct cm_value identity[COLUMN_COUNT] = {0}, values[COLUMN_COUNT];
	struct cm_survey *survey = NULL;
	char uuid[CM_UUID_TEXT], model[64];
	struct cm_device_view view;
	struct cm_host_row host;
	uint32_t index = 0;
	bool torn, any = false;

	fill_identity(process, identity);
	if (process->reader && !cm_reader_read_host(process->reader, &host, &torn))
		identity[COLUMN_HOST] = cm_value_bytes(host.allocated_bytes.current);
	if (process->reader && surveyed)
		(void)cm_survey_create(process->reader, &survey);
	while (process->reader && cm_process_next_device(options, process, &index, &view)) {
		memcpy(values, identity, sizeof(values));
		fill_counters(&view.row, values);
		if (survey)
			fill_survey(&survey->pool[view.index][CM_POOL_ALL], values);
		cm_text_clean(model, sizeof(model), view.row.name);
		values[COLUMN_GPU] = cm_value_number(view.row.ordinal);
		values[COLUMN_MODEL] = cm_value_text(model);
		values[COLUMN_UUID] = cm_value_text(cm_uuid_format(view.row.uuid, uuid));
		values[COLUMN_TOTAL] = cm_value_bytes((int64_t)view.row.total_bytes);
		cm_emit_row(emit, values);
		any = true;
	}
	if (!any && !options->device_count)
		cm_emit_row(emit, identity);
	cm_survey_destroy(survey);
}

static bool is_managed(const struct cm_processes *processes, pid_t pid)
{
	size_t i;

	for (i = 0; i < processes->count; i++)
		if (processes->item[i].pid == pid && !cm_process_is_dead(&processes->item[i]))
			return true;
	return false;
}

/* Where the processes that do not use the library go. */
struct unmanaged {
	const struct cm_options *options;
	const struct cm_processes *processes;
	struct cm_emit *emit; /* NULL: into the document */
	struct cm_json json;
	size_t count; /* processes added */
};

static bool is_wanted(const struct unmanaged *unmanaged, const struct cm_process *process)
{
	const char *target = unmanaged->options->pid;
	uint64_t pid;

	if (!target)
		return true;
	if (!cm_number_parse(target, INT32_MAX, &pid))
		return process->pid == (pid_t)pid;
	return strstr(process->command, target) != NULL;
}

static void emit_unmanaged(struct cm_emit *emit, const struct cm_process *process,
			   const struct cm_nvml_process *found)
{
	struct cm_value values[COLUMN_COUNT] = {0};

	values[COLUMN_PID] = cm_value_number(process->pid);
	values[COLUMN_USER] = cm_value_text(*process->user ? process->user : "-");
	values[COLUMN_COMMAND] = cm_value_text(process->command);
	values[COLUMN_STATE] = cm_value_text("unmanaged");
	values[COLUMN_GPU] = cm_value_number(found->device);
	if (found->bytes >= 0)
		values[COLUMN_UNCACHED] = cm_value_bytes(found->bytes);
	values[COLUMN_TOTAL] = cm_value_bytes(found->total_bytes);
	values[COLUMN_MODEL] = cm_value_text(found->model);
	values[COLUMN_UUID] = cm_value_text(found->uuid);
	if (process->age_ns)
		values[COLUMN_UP] = cm_value_real((double)process->age_ns / 1e9);
	cm_emit_row(emit, values);
}

static void put_unmanaged(struct cm_json *json, const struct cm_process *process,
			  const struct cm_nvml_process *found)
{
	cm_json_object(json, NULL);
	cm_json_number(json, "pid", process->pid);
	cm_json_text(json, "user", process->user);
	cm_json_text(json, "command", process->command);
	cm_json_number(json, "index", found->device);
	cm_json_text(json, "uuid", found->uuid);
	if (found->bytes >= 0) {
		cm_json_number(json, "uncached_bytes", found->bytes);
		cm_json_number(json, "other_bytes", found->bytes);
	} else {
		cm_json_null(json, "uncached_bytes");
		cm_json_null(json, "other_bytes");
	}
	cm_json_end(json);
}

static void add_unmanaged(void *data, const struct cm_nvml_process *found)
{
	struct unmanaged *unmanaged = data;
	struct cm_process process;

	if (is_managed(unmanaged->processes, found->pid))
		return;
	cm_process_describe(found->pid, &process);
	if (!is_wanted(unmanaged, &process))
		return;
	unmanaged->count++;
	if (unmanaged->emit)
		emit_unmanaged(unmanaged->emit, &process, found);
	else
		put_unmanaged(&unmanaged->json, &process, found);
}

/* --all. A machine without NVML is no reason to fail. */
static void add_all_unmanaged(struct unmanaged *unmanaged)
{
	const char *why;

	if (unmanaged->options->all && cm_nvml_processes(add_unmanaged, unmanaged, &why))
		cm_complain("--all: %s; only processes that use libcudamem are listed", why);
}

/* Prints the document. Returns the number of processes. */
static size_t put_document(const struct cm_options *options, const struct cm_processes *processes,
			   int *ret_exit)
{
	struct unmanaged unmanaged = {.options = options, .processes = processes};
	struct cm_json *json = &unmanaged.json;
	size_t i, shown = 0;

	cm_json_open_document(json, "ls");
	cm_json_array(json, "processes");
	for (i = 0; i < processes->count; i++) {
		const struct cm_process *process = &processes->item[i];
		struct cm_survey *survey = NULL;

		if (process->reader)
			(void)cm_survey_create(process->reader, &survey);
		cm_json_object(json, NULL);
		cm_json_identity(json, process);
		if (process->reader)
			cm_json_host(json, process);
		shown += cm_json_devices(json, options, process, survey);
		cm_json_end(json);
		cm_survey_destroy(survey);
	}
	cm_json_end(json);
	if (options->all) {
		cm_json_array(json, "not_managed");
		add_all_unmanaged(&unmanaged);
		cm_json_end(json);
	}
	cm_json_end(json);
	*ret_exit = options->device_count && processes->count && !shown && !unmanaged.count
			    ? cm_emit_complain_unmatched(options)
			    : CM_EXIT_OK;
	return processes->count + unmanaged.count;
}

/* Complains about damaged regions. A region that we may not read has a row without figures. */
static int complain_damaged(const struct cm_processes *processes)
{
	int exit = -1;
	size_t i;

	for (i = 0; i < processes->count; i++) {
		const struct cm_process *process = &processes->item[i];

		if (process->reader || process->error == -EACCES)
			exit = cm_exit_join(exit, CM_EXIT_OK);
		else
			exit = cm_exit_join(exit, cm_process_complain(process));
	}
	return exit < 0 ? CM_EXIT_OK : exit;
}

/* Prints all rows; *ret_rows is their number. */
static int list(const struct cm_options *options, const struct cm_processes *processes,
		size_t *ret_rows)
{
	struct unmanaged unmanaged = {.options = options, .processes = processes};
	int exit;
	size_t i;

	if (options->form == CM_FORM_JSON) {
		*ret_rows = put_document(options, processes, &exit);
		return exit;
	}
	*ret_rows = 0;
	if (cm_emit_open(&column_set, options, &unmanaged.emit, &exit))
		return exit;
	for (i = 0; i < processes->count; i++)
		if (processes->item[i].reader || processes->item[i].error == -EACCES)
			emit_process(options, &processes->item[i], unmanaged.emit);
	add_all_unmanaged(&unmanaged);
	*ret_rows = cm_emit_matched(unmanaged.emit);
	return cm_emit_close(unmanaged.emit, CM_EXIT_OK);
}

static bool is_help(const struct cm_options *options)
{
	return options->columns && !strcmp(options->columns, "help");
}

static int list_once(const struct cm_options *options)
{
	struct cm_processes processes = {0};
	size_t rows;
	int exit;

	exit = is_help(options) ? 0 : cm_collect(options, options->pid, &processes);
	if (exit)
		return exit;
	exit = list(options, &processes, &rows);
	if (!exit && !rows && !processes.count && !is_help(options))
		exit = cm_complain_nobody(options);
	else if (!exit)
		exit = complain_damaged(&processes);
	cm_processes_free(&processes);
	return exit;
}

/* --watch: redraws a terminal; else prints one listing after another, with headings only once. */
static int watch(const struct cm_options *options)
{
	const struct timespec pause = {
		.tv_sec = (time_t)(options->watch_ns / NS_PER_S),
		.tv_nsec = (long)(options->watch_ns % NS_PER_S),
	};
	struct cm_options next = *options;
	const bool screen = isatty(STDOUT_FILENO) && options->form == CM_FORM_TABLE;
	int exit;

	for (;;) {
		if (screen)
			(void)fputs("\033[H\033[J", stdout);
		exit = list_once(&next);
		if (exit == CM_EXIT_USAGE || fflush(stdout) || ferror(stdout))
			return exit;
		if (options->form != CM_FORM_TABLE)
			next.no_headings = true;
		else if (!screen)
			(void)putchar('\n');
		(void)nanosleep(&pause, NULL);
	}
}

int cm_verb_ls(const struct cm_options *options)
{
	if (options->form == CM_FORM_JSON &&
	    (options->columns || options->sort || options->where || options->top))
		return cm_fail(CM_EXIT_USAGE,
			       "--json prints everything; for columns, an order or a filter use "
			       "--ndjson");
	if (options->form == CM_FORM_JSON && options->watch_ns)
		return cm_fail(CM_EXIT_USAGE,
			       "--json prints one document; with --watch use --ndjson");
	return options->watch_ns && !is_help(options) ? watch(options) : list_once(options);
}
