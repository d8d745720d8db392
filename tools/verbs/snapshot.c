/* SPDX-License-Identifier: MIT */
/*
 * `snapshot`: saves the state of a process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/json.h"
#include "tools/output/output.h"
#include "tools/output/quote.h"
#include "tools/output/size.h"
#include "tools/output/text.h"
#include "tools/processes/collect.h"
#include "tools/processes/source.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/saved.h"
#include "tools/verbs/verbs.h"

/* How consistent the copy is, in words. */
static const char *spell_moment(const struct cm_saved *saved, char *text, size_t bytes)
{
	if (saved->moment == CM_MOMENT_HELD)
		(void)snprintf(text, bytes, "the process held still for %.3f ms",
			       (double)saved->hold_ns / 1e6);
	else
		(void)snprintf(
			text, bytes, "%s",
			saved->moment == CM_MOMENT_STILL
				? "nothing changed while it was copied"
				: "not of one moment: the process did not answer, and ran on");
	return text;
}

static uint64_t count_lost(const struct cm_snapshot *snapshot)
{
	uint64_t lost = 0;
	size_t i;

	for (i = 0; i < snapshot->devices; i++)
		lost += snapshot->device[i].lost;
	return lost;
}

/* Allocated ones, as in `ls` and `report`. */
static uint64_t count_blocks(const struct cm_snapshot *snapshot)
{
	struct cm_figures figures;
	uint64_t blocks = 0;
	size_t i;

	for (i = 0; i < snapshot->devices; i++) {
		cm_figures_get(snapshot, &snapshot->device[i], &figures);
		blocks += figures.blocks;
	}
	return blocks;
}

/* Writes a path such that the shell passes it on and this program recognises it as a file. */
static void spell_file(FILE *out, const char *path)
{
	char *here = NULL;

	if (!cm_is_file_name(path) && asprintf(&here, "./%s", path) < 0)
		here = NULL;
	cm_quote_shell(out, here ? here : path);
	free(here);
}

/* A command to copy: never broken. */
static void advise(FILE *out, const char *verb, const char *path)
{
	(void)fprintf(out, "  %s %s ", CM_PROGRAM, verb);
	spell_file(out, path);
	(void)fputc('\n', out);
}

static void report(const struct cm_options *options, const struct cm_source *source,
		   const char *path, int64_t bytes, uint64_t ns)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	const struct cm_saved *saved = &source->image->saved;
	FILE *out = !strcmp(path, "-") ? stderr : stdout; /* stdout holds the data */
	char moment[64], lost[CM_UNITS_BYTES + 24] = "";
	struct cm_json json;

	if (options->form == CM_FORM_JSON) {
		cm_json_init(&json, out);
		cm_json_object(&json, NULL);
		cm_json_text(&json, "schema", "cudamemstat/snapshot/1");
		cm_json_text(&json, "file", path);
		cm_json_number(&json, "pid", source->pid);
		cm_json_unsigned(&json, "segments", snapshot->segments);
		cm_json_unsigned(&json, "blocks", count_blocks(snapshot));
		cm_json_unsigned(&json, "events", snapshot->events);
		cm_json_unsigned(&json, "events_lost", count_lost(snapshot));
		cm_json_unsigned(&json, "stacks", snapshot->stacks - 1);
		cm_json_number(&json, "file_bytes", bytes);
		cm_json_real(&json, "seconds", (double)ns / 1e9);
		cm_json_real(&json, "held_ms", (double)saved->hold_ns / 1e6);
		cm_json_bool(&json, "of_one_moment", saved->moment != CM_MOMENT_TORN);
		cm_json_end(&json);
		return;
	}
	if (count_lost(snapshot))
		(void)snprintf(lost, sizeof(lost), " (%s older ones lost)",
			       cm_count_format((int64_t)count_lost(snapshot)).text);
	cm_line(out, "  ", "saved %s: %s, %s, %s%s, %s (%s, %.2f s)", path,
		cm_count_of((int64_t)snapshot->segments, "segment").text,
		cm_count_of((int64_t)count_blocks(snapshot), "allocated block").text,
		cm_count_of((int64_t)snapshot->events, "event").text, lost,
		cm_count_of((int64_t)snapshot->stacks - 1, "stack").text,
		cm_size_format(bytes).text, (double)ns / 1e9);
	cm_line(out, "  ", "  %s", spell_moment(saved, moment, sizeof(moment)));
	if (!cm_output_is_file(path))
		return;
	advise(out, "report", path);
	advise(out, "plot", path);
}

/* COMM-PID.cudamem, then COMM-PID-2.cudamem and so on. */
static void choose_name(const struct cm_source *source, char *path, size_t bytes)
{
	const size_t stem = strcspn(source->comm, "/");
	struct stat st;
	int i;

	(void)snprintf(path, bytes, "%.*s-%d" CM_SAVED_SUFFIX, (int)stem, source->comm,
		       (int)source->pid);
	for (i = 2; i < 10000 && !lstat(path, &st); i++)
		(void)snprintf(path, bytes, "%.*s-%d-%d" CM_SAVED_SUFFIX, (int)stem, source->comm,
			       (int)source->pid, i);
}

int cm_verb_snapshot(const struct cm_options *options)
{
	const uint64_t start = cm_time_now();
	struct cm_source source;
	char chosen[512];
	const char *path = options->out;
	int64_t bytes = 0;
	int exit;

	if (path && cm_output_is_terminal(path))
		return cm_fail(CM_EXIT_USAGE,
			       "a snapshot is not for a terminal: name a file with -O, such as -O "
			       "memory" CM_SAVED_SUFFIX);
	exit = cm_source_open(options, options->args[0], &source);
	if (exit)
		return exit;
	if (!path) {
		choose_name(&source, chosen, sizeof(chosen));
		path = chosen;
	}
	exit = cm_save(source.image, path, options->force, &bytes);
	if (!exit)
		report(options, &source, path, bytes, cm_time_now() - start);
	cm_source_close(&source);
	return exit;
}
