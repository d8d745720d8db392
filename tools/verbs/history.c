/* SPDX-License-Identifier: MIT */
/*
 * `history`: switches recording on and off, with the words of
 * torch.cuda.memory._record_memory_history, and shows how much was recorded.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/processes/command.h"
#include "tools/processes/describe.h"
#include "tools/processes/targets.h"
#include "tools/verbs/verbs.h"

#define NEXT "                 " /* where a sentence goes on below itself */

enum action { ACTION_START, ACTION_STOP, ACTION_CLEAR, ACTION_STATUS, ACTION_COUNT };

static const char *const actions[ACTION_COUNT + 1] = {"start", "stop", "clear", "status", NULL};

struct job {
	enum action action;
	struct cm_json *json; /* NULL: sentences */
};

/* The events of one ring. */
struct tally {
	uint64_t recorded; /* since the start, or since they were cleared */
	uint64_t kept;
	uint64_t hidden; /* beyond --max-entries */
	uint64_t lost;   /* overwritten by younger ones */
};

/* A setting of --context as part of a sentence. */
static const char *context_means(uint32_t context)
{
	static const char *const words[] = {"stacks off", "stacks of allocated blocks",
					    "stacks of allocations",
					    "stacks of allocations and frees"};

	return context < CM_CONTEXT_COUNT ? words[context] : "stacks by an unknown setting";
}

static struct tally count_ring(const struct cm_header *header, enum cm_table table, uint64_t next,
			       uint64_t cleared)
{
	const struct cm_table_row *row = &header->table[table];
	/* A ring that was never written is not mapped. */
	const uint32_t ring = row->rows ? row->ring : 0;
	const uint64_t first = cm_event_first(next, cleared, ring, header->record.max_entries);
	struct tally tally = {0};

	if (cleared > next)
		return tally; /* damaged */
	tally.recorded = next - cleared;
	tally.kept = next + 1 - first;
	tally.hidden = first - cm_event_first(next, cleared, ring, UINT64_MAX);
	tally.lost = tally.recorded - tally.kept - tally.hidden;
	return tally;
}

/* Of all rings of a device, of which `max_entries` events are shown together. */
static struct tally count_device(struct cm_reader *reader, uint32_t device)
{
	const uint64_t most = reader->header.record.max_entries;
	struct tally sum = {0}, ring;
	struct cm_shard_map map;
	struct cm_device_row row;
	uint64_t more;
	uint32_t i;

	if (cm_reader_read_shards(reader, &map))
		return sum;
	for (i = 0; i < CM_DEVICES_MAX; i++) {
		if (cm_shard_map_device(&map, i) != device ||
		    cm_reader_read(reader, CM_TABLE_DEVICE, i, 1, &row, sizeof(row)))
			continue;
		ring = count_ring(&reader->header, CM_TABLE_EVENT, row.event_next,
				  row.event_cleared);
		sum.recorded += ring.recorded;
		sum.kept += ring.kept;
		sum.hidden += ring.hidden;
		sum.lost += ring.lost;
	}
	more = sum.kept > most ? sum.kept - most : 0;
	sum.kept -= more;
	sum.hidden += more;
	return sum;
}

static void print_tally(const char *what, const struct tally *tally, bool records)
{
	char hidden[CM_UNITS_BYTES + 16] = "";

	if (tally->hidden)
		(void)snprintf(hidden, sizeof(hidden), ", %s not shown",
			       cm_count_format((int64_t)tally->hidden).text);
	cm_line(stdout, NEXT, "  %-14s %s, %s lost%s%s", what,
		cm_count_of((int64_t)tally->kept, "event").text,
		cm_count_format((int64_t)tally->lost).text, hidden,
		records ? "" : ", not recorded now");
}

static void put_tally(struct cm_json *json, const struct tally *tally)
{
	cm_json_unsigned(json, "events_recorded", tally->recorded);
	cm_json_unsigned(json, "events_kept", tally->kept);
	cm_json_unsigned(json, "events_hidden", tally->hidden);
	cm_json_unsigned(json, "events_lost", tally->lost);
}

/* The used bytes of a table, and its capacity. */
static uint64_t used_bytes(const struct cm_header *header, enum cm_table table, uint64_t rows)
{
	return rows * header->table[table].stride;
}

static uint64_t capacity_bytes(const struct cm_header *header, enum cm_table table)
{
	return (uint64_t)header->table[table].capacity * header->table[table].stride;
}

static void print_settings(const struct cm_process *process, const struct cm_header *header)
{
	const struct cm_record *record = &header->record;
	uint64_t ring = header->table[CM_TABLE_EVENT].ring;
	char frames[64] = "";

	if (record->max_entries < ring)
		ring = record->max_entries;
	(void)printf("%d %s (%s)\n", (int)process->pid, process->comm, cm_life_name(process->life));
	if (record->context != CM_CONTEXT_NONE)
		(void)snprintf(frames, sizeof(frames), ", %s, %" PRIu32 " deep",
			       record->stacks == CM_STACKS_PYTHON ? "Python frames only"
								  : "all frames",
			       record->depth);
	cm_line(stdout, NEXT, "  recording      events %s, the last %s of each device; %s%s",
		record->events ? "on" : "off", cm_count_format((int64_t)ring).text,
		context_means(record->context), frames);
}

static void print_table(const char *name, const struct cm_header *header, enum cm_table table,
			uint64_t rows, uint64_t lost)
{
	cm_line(stdout, NEXT, "  %-14s %s of %s, %s lost", name,
		cm_size_format((int64_t)used_bytes(header, table, rows)).text,
		cm_size_format((int64_t)capacity_bytes(header, table)).text,
		cm_count_format((int64_t)lost).text);
}

/* The word for --json, and what it means; NULL: there is no Python. */
static const char *python_means(uint32_t python, const char **ret_word)
{
	static const struct {
		const char *word, *sentence;
	} means[CM_PYTHON_COUNT] = {
		[CM_PYTHON_NONE] = {"none", NULL},
		[CM_PYTHON_UNCHECKED] = {"unchecked",
					 "frames of all threads; not yet compared with the C API"},
		[CM_PYTHON_CHECKED] = {"checked",
				       "frames of all threads; the C API confirmed them"},
		[CM_PYTHON_FREE_THREADED] =
			{"free-threaded", "frames of attached threads only: free-threaded build"},
		[CM_PYTHON_UNKNOWN] = {"unknown-version",
				       "frames of threads with the GIL only: unknown version"},
		[CM_PYTHON_DIFFERS] = {"differs",
				       "frames of threads with the GIL only: memory differs from "
				       "the C API"},
	};

	*ret_word = python < CM_PYTHON_COUNT ? means[python].word : "unknown";
	return python < CM_PYTHON_COUNT ? means[python].sentence : "an unknown setting";
}

static void print_python(const struct cm_record *record)
{
	const char *word, *sentence = python_means(record->python, &word);
	char version[24] = "";

	if (!sentence)
		return;
	if (record->python_minor)
		(void)snprintf(version, sizeof(version), " 3.%" PRIu32, record->python_minor);
	cm_line(stdout, NEXT, "  %-14s CPython%s: %s", "Python", version, sentence);
}

static void print_tables(const struct cm_header *header)
{
	const struct cm_record *record = &header->record;

	print_table("stacks", header, CM_TABLE_STACK, record->stack_words, record->stacks_lost);
	print_table("texts", header, CM_TABLE_TEXT, record->text_bytes, record->texts_lost);
	(void)printf("  %-14s %s\n", "modules",
		     cm_count_format((int64_t)header->table[CM_TABLE_MODULE].rows).text);
	print_python(record);
}

static void put_settings(struct cm_json *json, const struct cm_record *record)
{
	const char *python;

	cm_json_bool(json, "events", record->events);
	cm_json_text(json, "context", cm_context_name(record->context));
	cm_json_text(json, "stacks", cm_stacks_name(record->stacks));
	cm_json_unsigned(json, "stack_depth", record->depth);
	(void)python_means(record->python, &python);
	cm_json_text(json, "python", python);
	if (record->max_entries == UINT64_MAX)
		cm_json_null(json, "max_entries");
	else
		cm_json_unsigned(json, "max_entries", record->max_entries);
}

static void put_tables(struct cm_json *json, const struct cm_header *header)
{
	const struct cm_record *record = &header->record;

	cm_json_unsigned(json, "stack_table_bytes",
			 used_bytes(header, CM_TABLE_STACK, record->stack_words));
	cm_json_unsigned(json, "stack_table_room_bytes", capacity_bytes(header, CM_TABLE_STACK));
	cm_json_unsigned(json, "stacks_lost", record->stacks_lost);
	cm_json_unsigned(json, "text_table_bytes",
			 used_bytes(header, CM_TABLE_TEXT, record->text_bytes));
	cm_json_unsigned(json, "text_table_room_bytes", capacity_bytes(header, CM_TABLE_TEXT));
	cm_json_unsigned(json, "texts_lost", record->texts_lost);
	cm_json_unsigned(json, "modules", header->table[CM_TABLE_MODULE].rows);
	cm_json_unsigned(json, "modules_lost", record->modules_lost);
}

/* Whether the events of a device row are recorded. */
static bool is_recorded(const struct cm_record *record, uint32_t row)
{
	return record->events && (!record->devices || record->devices >> row & 1);
}

static void tell_devices(const struct cm_options *options, const struct cm_process *process,
			 struct cm_json *json)
{
	const struct cm_header *header = &process->reader->header;
	struct cm_device_view view;
	struct tally tally;
	uint32_t index = 0;
	char what[32];
	bool records;

	while (cm_process_next_device(options, process, &index, &view)) {
		records = is_recorded(&header->record, view.index);
		tally = count_device(process->reader, view.index);
		if (json) {
			cm_json_object(json, NULL);
			cm_json_number(json, "gpu", view.row.ordinal);
			cm_json_bool(json, "recorded", records);
			put_tally(json, &tally);
			cm_json_end(json);
		} else {
			(void)snprintf(what, sizeof(what), "GPU %d", (int)view.row.ordinal);
			print_tally(what, &tally, records || !header->record.events);
		}
	}
}

static void tell_host(const struct cm_process *process, struct cm_json *json)
{
	struct cm_host_row host;
	struct tally tally;
	bool torn;

	if (cm_reader_read_host(process->reader, &host, &torn)) {
		if (json)
			cm_json_null(json, "host_memory");
		return;
	}
	tally = count_ring(&process->reader->header, CM_TABLE_HOST_EVENT, host.event_next,
			   host.event_cleared);
	if (json) {
		cm_json_object(json, "host_memory");
		put_tally(json, &tally);
		cm_json_end(json);
	} else if (tally.recorded) {
		print_tally("pinned memory", &tally, true);
	}
}

static void tell(const struct cm_options *options, const struct cm_process *process,
		 struct cm_json *json)
{
	const struct cm_header *header = &process->reader->header;

	if (!json) {
		print_settings(process, header);
		tell_devices(options, process, NULL);
		tell_host(process, NULL);
		if (header->record.stack_words)
			print_tables(header);
		return;
	}
	cm_json_object(json, NULL);
	cm_json_identity(json, process);
	put_settings(json, &header->record);
	cm_json_array(json, "devices");
	tell_devices(options, process, json);
	cm_json_end(json);
	tell_host(process, json);
	put_tables(json, header);
	cm_json_end(json);
}

/* The rows of the devices that -d names, a bit each. */
static uint64_t rows_of(const struct cm_options *options, const struct cm_process *process)
{
	struct cm_device_view view;
	uint32_t index = 0;
	uint64_t rows = 0;

	while (cm_process_next_device(options, process, &index, &view))
		rows |= UINT64_C(1) << view.index;
	return rows;
}

/* `rows`: of devices, 0: all. */
static struct cm_command make_command(const struct cm_options *options, enum action action,
				      uint64_t rows)
{
	struct cm_command command = {.code = CM_COMMAND_RECORD, .arg[3] = rows};

	switch (action) {
	case ACTION_START:
		command.arg[0] = CM_RECORD_SET_EVENTS | CM_RECORD_SET_CONTEXT |
				 CM_RECORD_SET_STACKS | CM_RECORD_SET_MAX_ENTRIES;
		command.arg[1] = cm_record_pack(options->events, options->context, options->stacks);
		command.arg[2] = options->max_entries;
		if (options->clear)
			command.arg[0] |= CM_RECORD_CLEAR;
		break;
	case ACTION_STOP:
		/* Stacks are of the whole process. */
		command.arg[0] = CM_RECORD_SET_EVENTS | (rows ? 0 : CM_RECORD_SET_CONTEXT);
		command.arg[1] = cm_record_pack(0, CM_CONTEXT_NONE, 0);
		break;
	case ACTION_CLEAR:
		command.arg[0] = CM_RECORD_CLEAR;
		break;
	case ACTION_STATUS:
	case ACTION_COUNT:
		break;
	}
	return command;
}

static int work(const struct cm_options *options, struct cm_process *process, void *data)
{
	const struct job *job = data;
	struct cm_command command;
	uint64_t rows = 0;
	int exit;

	if (options->device_count) {
		rows = rows_of(options, process);
		if (!rows)
			return cm_complain_no_device(options, process);
	}
	if (job->action == ACTION_START && options->given[CM_OPT_MAX_ENTRIES]) {
		const uint32_t ring = process->reader->header.table[CM_TABLE_EVENT].ring;

		if (options->max_entries > ring)
			return cm_fail(CM_EXIT_USAGE,
				       "process %d has room for %" PRIu32
				       " events of a device; more need events:%" PRIu64
				       " at its start",
				       (int)process->pid, ring, options->max_entries);
	}
	if (job->action != ACTION_STATUS) {
		command = make_command(options, job->action, rows);
		exit = cm_command_send(options, process, &command);
		if (exit)
			return exit;
		if (cm_reader_refresh(process->reader))
			return cm_fail(CM_EXIT_TARGET, "process %d: its region is damaged",
				       (int)process->pid);
	}
	tell(options, process, job->json);
	return CM_EXIT_OK;
}

static int find_action(const char *typed, enum action *ret_action)
{
	uint32_t i;

	for (i = 0; i < ACTION_COUNT; i++) {
		if (!strcmp(actions[i], typed)) {
			*ret_action = (enum action)i;
			return 0;
		}
	}
	return cm_fail_unknown("action", "", typed, actions, ACTION_COUNT,
			       ", want start, stop, clear or status");
}

/* Refuses options that only `start` uses. */
static int check_options(const struct cm_options *options, enum action action)
{
	static const enum cm_opt of_start[] = {CM_OPT_ENABLED,     CM_OPT_CONTEXT,
					       CM_OPT_STACKS,      CM_OPT_STACK_FRAMES,
					       CM_OPT_MAX_ENTRIES, CM_OPT_CLEAR};
	size_t i;

	for (i = 0; i < sizeof(of_start) / sizeof(of_start[0]); i++) {
		if (action == ACTION_START || !options->given[of_start[i]])
			continue;
		return cm_fail(CM_EXIT_USAGE, "--%s is for 'history start', not for 'history %s'",
			       cm_opt_info(of_start[i])->name, actions[action]);
	}
	return 0;
}

int cm_verb_history(const struct cm_options *options)
{
	struct cm_options rest = *options;
	struct cm_json json;
	struct job job = {0};
	int exit;

	exit = find_action(options->args[0], &job.action);
	if (!exit)
		exit = check_options(options, job.action);
	if (exit)
		return exit;
	rest.args++;
	rest.arg_count--;
	if (!rest.arg_count && !rest.region)
		return cm_fail(CM_EXIT_USAGE,
			       "missing argument: whose history? want '%s history %s PID...'",
			       CM_PROGRAM, actions[job.action]);
	exit = job.action == ACTION_STATUS ? CM_EXIT_OK : cm_check_targets(&rest);
	if (exit)
		return exit;
	job.json = cm_json_open_array(options, &json, "history", "processes");
	exit = job.action == ACTION_STATUS ? cm_for_processes(&rest, work, &job)
					   : cm_change_processes(&rest, work, &job);
	cm_json_close_array(job.json);
	return exit;
}
