/* SPDX-License-Identifier: MIT */
/*
 * `ls`: one line per device of each process; --all adds the processes that NVML knows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/text.h"
#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/output/text.h"
#include "tools/processes/collect.h"
#include "tools/processes/describe.h"
#include "tools/processes/nvml.h"
#include "tools/processes/smi_index.h"
#include "tools/verbs/verbs.h"
#include "tools/watch/columns.h"
#include "tools/watch/replay.h"

#define CLEAR "\033[H\033[J"

static const struct cm_column columns[CM_WATCH_COLUMN_COUNT] = {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) \
	CM_WATCH_COLUMN_ROW(ID, name, key, usual, ALIGN, help, NULL, NULL)
#define CM_RENAMED(...) CM_WATCH_COLUMN_ROW(__VA_ARGS__)
#include "tools/output/columns.def"
};

static const struct cm_column_set column_set = {"ls", "rows", columns, CM_WATCH_COLUMN_COUNT,
						false};

/* Prints one row per device; a process without a device, or that cannot be read, has one row. */
static void emit_process(const struct cm_options *options, const struct cm_watched *watched,
			 struct cm_emit *emit)
{
	struct cm_value identity[CM_WATCH_COLUMN_COUNT] = {0}, values[CM_WATCH_COLUMN_COUNT];
	struct cm_watch_texts texts;
	size_t i;

	cm_watch_fill_process(watched, identity);
	for (i = 0; i < watched->devices; i++) {
		memcpy(values, identity, sizeof(values));
		cm_watch_fill_device(watched, &watched->device[i], &texts, values);
		cm_emit_row(emit, values);
	}
	if (!watched->devices && !options->device_count)
		cm_emit_row(emit, identity);
}

static bool is_managed(const struct cm_watch_sample *sample, pid_t pid)
{
	size_t i;

	for (i = 0; i < sample->count; i++)
		if (sample->process[i].process->pid == pid &&
		    !cm_process_is_dead(sample->process[i].process))
			return true;
	return false;
}

/* Where the processes that do not use the library go. */
struct unmanaged {
	const struct cm_options *options;
	const struct cm_watch_sample *sample;
	struct cm_emit *emit; /* NULL: into the document */
	struct cm_json json;
	size_t count; /* processes added */
};

static void emit_unmanaged(struct cm_emit *emit, const struct cm_process *process,
			   const struct cm_nvml_process *found)
{
	struct cm_value values[CM_WATCH_COLUMN_COUNT] = {0};

	values[CM_WATCH_COLUMN_PID] = cm_value_number(process->pid);
	values[CM_WATCH_COLUMN_USER] = cm_value_text(*process->user ? process->user : "-");
	values[CM_WATCH_COLUMN_COMMAND] = cm_value_text(process->command);
	values[CM_WATCH_COLUMN_STATE] = cm_value_text("unmanaged");
	values[CM_WATCH_COLUMN_GPU] = cm_value_number(found->device);
	if (found->bytes >= 0)
		values[CM_WATCH_COLUMN_UNCACHED] = cm_value_bytes(found->bytes);
	values[CM_WATCH_COLUMN_TOTAL] = cm_value_bytes(found->total_bytes);
	values[CM_WATCH_COLUMN_MODEL] = cm_value_text(found->model);
	values[CM_WATCH_COLUMN_UUID] = cm_value_text(found->uuid);
	if (process->age_ns)
		values[CM_WATCH_COLUMN_UP] = cm_value_real((double)process->age_ns / 1e9);
	cm_emit_row(emit, values);
}

static void put_unmanaged(struct cm_json *json, const struct cm_process *process,
			  const struct cm_nvml_process *found)
{
	cm_json_object(json, NULL);
	cm_json_number(json, "pid", process->pid);
	cm_json_text(json, "user", process->user);
	cm_json_text(json, "command", process->command);
	cm_json_number(json, "smi_index", found->device);
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

	if (is_managed(unmanaged->sample, found->pid))
		return;
	cm_process_describe(found->pid, &process);
	if (!cm_process_is_wanted(unmanaged->options, &process))
		return;
	unmanaged->count++;
	if (unmanaged->emit)
		emit_unmanaged(unmanaged->emit, &process, found);
	else
		put_unmanaged(&unmanaged->json, &process, found);
}

/*
 * The cards of the processes that are listed, below them: one line a card, by its UUID, which all
 * processes have in common.
 */
enum card_column {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) CARD_##ID,
#include "tools/verbs/card_columns.def"
	CARD_COLUMNS
};

static const struct cm_column card_columns[CARD_COLUMNS] = {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) \
	[CARD_##ID] = {name, key, usual, CM_ALIGN_##ALIGN, 0, help, NULL, NULL},
#include "tools/verbs/card_columns.def"
};

static const struct cm_column_set card_set = {"cards", "cards", card_columns, CARD_COLUMNS, false};

struct card {
	struct cm_device_row row; /* of the process that asked last what is free */
	int64_t reserved, uncached;
	size_t processes;
};

struct cards {
	struct card item[CM_DEVICES_MAX];
	size_t count;
};

static void add_card(struct cards *cards, const struct cm_device_row *row)
{
	struct card *card = cards->item;

	while (card < cards->item + cards->count &&
	       memcmp(card->row.uuid, row->uuid, sizeof(row->uuid)) != 0)
		card++;
	if (card == cards->item + CM_DEVICES_MAX)
		return;
	if (card == cards->item + cards->count) {
		*card = (struct card){.row = *row};
		cards->count++;
	} else if (row->free_seen_ns > card->row.free_seen_ns) {
		card->row = *row;
	}
	card->reserved = cm_wrap_add(card->reserved, cm_stat_current(row, CM_STAT_RESERVED_BYTES));
	card->uncached = cm_wrap_add(card->uncached, cm_summary_other(row));
	card->processes++;
}

#define UUID_SHORT 12 /* "GPU-" and 8 digits */

/* How much of its UUID tells each card from the others. */
static size_t distinct_uuid(const struct cards *cards)
{
	char one[CM_UUID_TEXT], other[CM_UUID_TEXT];
	size_t i, k, length = UUID_SHORT;

	for (i = 0; i < cards->count; i++) {
		(void)cm_uuid_format(cards->item[i].row.uuid, cards->item[i].row.name, one);
		for (k = 0; k < i; k++) {
			(void)cm_uuid_format(cards->item[k].row.uuid, cards->item[k].row.name,
					     other);
			while (length < CM_UUID_TEXT - 1 && !strncmp(one, other, length))
				length++;
		}
	}
	return length;
}

static void emit_card(const struct card *card, size_t uuid_length, struct cm_emit *emit)
{
	const struct cm_device_row *row = &card->row;
	struct cm_value values[CARD_COLUMNS] = {
		[CARD_PROCESSES] = cm_value_number((int64_t)card->processes),
		[CARD_RESERVED] = cm_value_bytes(card->reserved),
		[CARD_UNCACHED] = cm_value_bytes(card->uncached),
		[CARD_TOTAL] = cm_value_bytes((int64_t)row->total_bytes),
	};
	char model[sizeof(row->name)], pci[sizeof(row->pci)], uuid[CM_UUID_TEXT];

	cm_text_clean(model, sizeof(model), row->name);
	cm_text_clean(pci, sizeof(pci), row->pci);
	values[CARD_MODEL] = cm_value_text(model);
	(void)cm_uuid_format(row->uuid, model, uuid);
	uuid[uuid_length] = '\0';
	values[CARD_UUID] = cm_value_text(uuid);
	if (*pci)
		values[CARD_PCI] = cm_value_text(pci);
	if (cm_smi_index(pci) >= 0)
		values[CARD_SMI] = cm_value_number(cm_smi_index(pci));
	if (row->free_seen_ns && row->free_bytes <= row->total_bytes)
		values[CARD_FREE] = cm_value_bytes((int64_t)row->free_bytes);
	cm_emit_row(emit, values);
}

/* Only in the default table: other lists are for programs, or of what was asked for. Processes that
 * have ended hold nothing. */
static void print_cards(const struct cm_options *options, const struct cm_watch_sample *sample)
{
	struct cm_options plain = *options;
	struct cards *cards;
	struct cm_emit *emit;
	size_t i, d;
	int exit;

	if (options->form != CM_FORM_TABLE || options->columns || options->where ||
	    options->no_headings)
		return;
	cards = calloc(1, sizeof(*cards));
	for (i = 0; cards && i < sample->count; i++)
		for (d = 0; d < sample->process[i].devices &&
			    !cm_process_is_dead(sample->process[i].process);
		     d++)
			add_card(cards, &sample->process[i].device[d].row);
	plain.sort = NULL;
	plain.top = 0;
	if (cards && cards->count && !cm_emit_open(&card_set, &plain, &emit, &exit)) {
		(void)putchar('\n');
		for (i = 0; i < cards->count; i++)
			emit_card(&cards->item[i], distinct_uuid(cards), emit);
		(void)cm_emit_close(emit, CM_EXIT_OK);
	}
	free(cards);
}

/* --all. A machine without NVML is no reason to fail. */
static void add_all_unmanaged(struct unmanaged *unmanaged)
{
	const char *why;

	if (unmanaged->options->all && cm_nvml_processes(add_unmanaged, unmanaged, &why))
		cm_complain("--all: %s; only processes that use libcudamem are listed", why);
}

/* Prints the document. Returns the number of processes. */
static size_t put_document(const struct cm_options *options, const struct cm_watch_sample *sample,
			   int *ret_exit)
{
	struct unmanaged unmanaged = {.options = options, .sample = sample};
	struct cm_json *json = &unmanaged.json;
	size_t i, shown = 0;

	cm_json_open_document(json, "ls");
	cm_json_array(json, "processes");
	for (i = 0; i < sample->count; i++) {
		const struct cm_process *process = sample->process[i].process;

		cm_json_object(json, NULL);
		cm_json_identity(json, process);
		if (process->reader)
			cm_json_host(json, process);
		shown += cm_json_devices(json, options, process, sample->process[i].survey);
		cm_json_end(json);
	}
	cm_json_end(json);
	if (options->all) {
		cm_json_array(json, "not_managed");
		add_all_unmanaged(&unmanaged);
		cm_json_end(json);
	}
	cm_json_end(json);
	*ret_exit = options->device_count && sample->count && !shown && !unmanaged.count
			    ? cm_emit_complain_unmatched(options)
			    : CM_EXIT_OK;
	return sample->count + unmanaged.count;
}

/* Complains about damaged regions. A region that we may not read has a row without figures, and is
 * an error only for the process that was asked for. */
static int complain_unread(const struct cm_options *options, const struct cm_watch_sample *sample)
{
	int exit = -1;
	size_t i;

	for (i = 0; i < sample->count; i++) {
		const struct cm_process *process = sample->process[i].process;

		if (!process->error || (process->error == -EACCES && !options->pid))
			exit = cm_exit_join(exit, CM_EXIT_OK);
		else
			exit = cm_exit_join(exit, cm_process_complain(process));
	}
	return exit < 0 ? CM_EXIT_OK : exit;
}

/* Prints all rows; *ret_rows is their number. `emit` NULL: as a document. */
static int list(const struct cm_options *options, const struct cm_watch_sample *sample,
		struct cm_emit *emit, size_t *ret_rows)
{
	struct unmanaged unmanaged = {.options = options, .sample = sample, .emit = emit};
	int exit;
	size_t i;

	if (!emit) {
		*ret_rows = put_document(options, sample, &exit);
		return exit;
	}
	for (i = 0; i < sample->count; i++)
		if (!sample->process[i].process->error ||
		    sample->process[i].process->error == -EACCES)
			emit_process(options, &sample->process[i], emit);
	add_all_unmanaged(&unmanaged);
	*ret_rows = cm_emit_matched(emit);
	exit = cm_emit_close(emit, CM_EXIT_OK);
	if (!exit)
		print_cards(options, sample);
	return exit;
}

static bool wants_survey(const struct cm_emit *emit)
{
	return !emit || cm_emit_wants(emit, CM_WATCH_COLUMN_LARGEST) ||
	       cm_emit_wants(emit, CM_WATCH_COLUMN_FRAG);
}

static int complain_nothing(const struct cm_options *options, const struct cm_watch_sample *sample)
{
	if (!options->from)
		return cm_complain_nobody(options);
	return cm_fail(CM_EXIT_NO, "%s: the recording has no process%s%s at %s", options->from,
		       options->pid ? " " : "", options->pid ? options->pid : "",
		       cm_time_format(sample->time_ns).text);
}

static int list_sample(const struct cm_options *options, const struct cm_watch_sample *sample,
		       struct cm_emit *emit)
{
	size_t rows;
	int exit;

	exit = list(options, sample, emit, &rows);
	if (exit)
		return exit;
	return !rows && !sample->count ? complain_nothing(options, sample)
				       : complain_unread(options, sample);
}

static bool is_help(const struct cm_options *options)
{
	return options->columns && !strcmp(options->columns, "help");
}

/* Lists the next sample of the source; *ret_sample is zero before the first. */
static int list_next(const struct cm_options *options, struct cm_watch_source *source,
		     struct cm_watch_sample *ret_sample)
{
	struct cm_emit *emit = NULL;
	int exit, err;

	if (options->form != CM_FORM_JSON && cm_emit_open(&column_set, options, &emit, &exit))
		return exit;
	source->want_survey = wants_survey(emit);
	if (options->from && source->want_survey && !ret_sample->time_ns)
		cm_complain("a recording has no LARGEST and FRAG%%: they need the block tables of "
			    "a process that is there");
	err = source->take(source, ret_sample);
	if (err)
		return cm_emit_close(emit, cm_watch_fail(source, err));
	return list_sample(options, ret_sample, emit);
}

static int list_once(const struct cm_options *options)
{
	struct cm_watch_source *source;
	struct cm_watch_sample sample = {0};
	struct cm_emit *emit;
	int exit;

	if (is_help(options))
		return cm_emit_open(&column_set, options, &emit, &exit) ? exit : CM_EXIT_OK;
	exit = cm_watch_open(options, true, &source);
	if (exit)
		return exit;
	exit = list_next(options, source, &sample);
	cm_watch_close(source);
	return exit;
}

/* Prepares the output for the listing after this one. False: standard output has failed. */
static bool end_listing(struct cm_options *next, bool screen)
{
	if (fflush(stdout) || ferror(stdout))
		return false;
	if (next->form != CM_FORM_TABLE)
		next->no_headings = true;
	else if (!screen)
		(void)putchar('\n');
	return true;
}

static void pause_for(uint64_t ns)
{
	const struct timespec pause = {(time_t)(ns / CM_NS_PER_S), (long)(ns % CM_NS_PER_S)};

	(void)nanosleep(&pause, NULL);
}

/* --watch: redraws a terminal; else prints one listing after another, with headings only once. */
static int watch(const struct cm_options *options)
{
	struct cm_options next = *options;
	const bool screen = isatty(STDOUT_FILENO) && options->form == CM_FORM_TABLE;
	int exit;

	for (;;) {
		if (screen)
			(void)fputs(CLEAR, stdout);
		exit = list_once(&next);
		if (exit == CM_EXIT_USAGE || !end_listing(&next, screen))
			return exit;
		pause_for(options->watch_ns);
	}
}

/* The same for a recording, until it ends: each listing is --watch later in it. */
static int watch_recording(const struct cm_options *options)
{
	const double speed = options->speed > 0 ? options->speed : 1;
	const bool screen = isatty(STDOUT_FILENO) && options->form == CM_FORM_TABLE;
	struct cm_options next = *options;
	struct cm_watch_source *source;
	struct cm_watch_sample sample = {0};
	int exit;

	exit = cm_watch_open(options, false, &source);
	if (exit)
		return exit;
	for (;;) {
		if (screen)
			(void)fputs(CLEAR, stdout);
		exit = list_next(&next, source, &sample);
		if ((exit && exit != CM_EXIT_NO) || sample.time_ns >= source->last_ns ||
		    !end_listing(&next, screen))
			break;
		(void)source->seek(source, (int64_t)options->watch_ns, 0);
		pause_for((uint64_t)((double)options->watch_ns / speed));
	}
	cm_watch_close(source);
	return exit;
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
	if (options->form == CM_FORM_JSON && options->from)
		return cm_fail(CM_EXIT_USAGE, "--json prints all counters, and a recording has "
					      "those of the columns; use --ndjson");
	if (!options->watch_ns || is_help(options))
		return list_once(options);
	return options->from ? watch_recording(options) : watch(options);
}
