/* SPDX-License-Identifier: MIT */
/*
 * `doctor`: looks at the machine, and at a program or a process, and prints what keeps the library
 * from working, each with what to do about it.
 */
#include "tools/doctor/doctor.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/text.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/json.h"
#include "tools/processes/describe.h"
#include "tools/run/library.h"
#include "tools/verbs/verbs.h"

#define NAME_WIDTH 15 /* of the longest id of a check */

/* Names that --share hides, and what stands in their place. */
struct mask {
	char name[256];
	const char *instead;
};

#define MASKS 3

static void read_masks(struct mask masks[MASKS])
{
	const struct passwd *user = getpwuid(getuid());
	const char *home = getenv("HOME");

	memset(masks, 0, sizeof(*masks) * MASKS);
	masks[0].instead = "~";
	masks[1].instead = "USER";
	masks[2].instead = "HOST";
	(void)snprintf(masks[0].name, sizeof(masks[0].name), "%s",
		       home && strlen(home) > 1 ? home : "");
	(void)snprintf(masks[1].name, sizeof(masks[1].name), "%s", user ? user->pw_name : "");
	(void)gethostname(masks[2].name, sizeof(masks[2].name) - 1);
}

/* Replaces a name wherever it stands as a word. */
static void hide(const struct mask *mask, char *text, size_t bytes)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	const size_t length = strlen(mask->name);
	char before, after, rest[512], *at = text;

	while (length && (at = strstr(at, mask->name))) {
		before = at > text ? at[-1] : ' ';
		after = at[length] ? at[length] : ' ';
		if (strchr(word, before) || strchr(word, after)) {
			at += length;
			continue;
		}
		(void)snprintf(rest, sizeof(rest), "%s", at + length);
		(void)snprintf(at, bytes - (size_t)(at - text), "%s%s", mask->instead, rest);
		at += strlen(mask->instead);
	}
}

static void share(struct cm_finding *finding)
{
	struct mask masks[MASKS];
	size_t i;

	read_masks(masks);
	for (i = 0; i < MASKS; i++) {
		hide(&masks[i], finding->seen, sizeof(finding->seen));
		hide(&masks[i], finding->remedy, sizeof(finding->remedy));
	}
}

/* Paths and names are others' choice. */
static void clean(struct cm_finding *finding)
{
	char text[sizeof(finding->seen)];

	cm_text_clean(text, sizeof(text), finding->seen);
	memcpy(finding->seen, text, sizeof(text));
	cm_text_clean(text, sizeof(text), finding->remedy);
	memcpy(finding->remedy, text, sizeof(text));
}

static void print_table(const struct cm_options *options, const struct cm_doctor_result *results,
			const unsigned *counts)
{
	enum cm_check c;

	for (c = 0; c < CM_CHECK_COUNT; c++) {
		const struct cm_finding *finding = &results[c].finding;

		if (!results[c].looked || (finding->verdict == CM_VERDICT_OK && !options->verbose))
			continue;
		cm_line(stdout, "          ", "%-4s  %-*s  %s", cm_verdict_name(finding->verdict),
			NAME_WIDTH, cm_check_info(c)->name, finding->seen);
		if (*finding->remedy)
			cm_line(stdout, "          ", "      do: %s", finding->remedy);
	}
	cm_line(stdout, "", "%u in order, %u to note, %u warning%s, %u failure%s",
		counts[CM_VERDICT_OK], counts[CM_VERDICT_NOTE], counts[CM_VERDICT_WARN],
		counts[CM_VERDICT_WARN] == 1 ? "" : "s", counts[CM_VERDICT_FAIL],
		counts[CM_VERDICT_FAIL] == 1 ? "" : "s");
}

static void print_json(const struct cm_options *options, const struct cm_doctor_result *results)
{
	static const char *const scopes[] = {
		[CM_CHECK_SCOPE_HOST] = "host",
		[CM_CHECK_SCOPE_PROGRAM] = "program",
		[CM_CHECK_SCOPE_PROCESS] = "process",
	};
	struct cm_json json;
	enum cm_check c;

	if (options->share) {
		cm_json_init(&json, stdout);
		cm_json_object(&json, NULL);
		cm_json_text(&json, "schema", CM_PROGRAM "/doctor/1");
		cm_json_text(&json, "host", "HOST");
	} else {
		cm_json_open_document(&json, "doctor");
	}
	cm_json_text(&json, "version", CM_VERSION);
	cm_json_array(&json, "checks");
	for (c = 0; c < CM_CHECK_COUNT; c++) {
		if (!results[c].looked)
			continue;
		cm_json_object(&json, NULL);
		cm_json_text(&json, "id", cm_check_info(c)->name);
		cm_json_text(&json, "scope", scopes[cm_check_info(c)->scope]);
		cm_json_text(&json, "status", cm_verdict_name(results[c].finding.verdict));
		cm_json_text(&json, "detail", results[c].finding.seen);
		if (*results[c].finding.remedy)
			cm_json_text(&json, "fix", results[c].finding.remedy);
		else
			cm_json_null(&json, "fix");
		cm_json_end(&json);
	}
	cm_json_end(&json);
	cm_json_end(&json);
}

/* A single number is a pid; anything else a command. */
static int read_patient(const struct cm_options *options, struct cm_patient *patient)
{
	uint64_t pid;

	patient->options = options;
	if (cm_library_find(options->library, patient->library))
		*patient->library = '\0';
	if (!options->arg_count)
		return CM_EXIT_OK;
	if (!*options->args[0])
		return cm_fail(CM_EXIT_USAGE, "an empty word names no program and no process");
	if (cm_number_parse(options->args[0], INT32_MAX, &pid) || !pid)
		patient->command = options->args;
	else if (options->arg_count > 1)
		return cm_fail(CM_EXIT_USAGE,
			       "nothing may follow process %s; options come before it",
			       options->args[0]);
	else
		patient->pid = (pid_t)pid;
	return CM_EXIT_OK;
}

int cm_verb_doctor(const struct cm_options *options)
{
	static struct cm_doctor_result results[CM_CHECK_COUNT];
	struct cm_patient patient = {.command = NULL};
	unsigned counts[CM_VERDICT_COUNT] = {0};
	enum cm_check c;
	int exit;

	exit = read_patient(options, &patient);
	if (exit)
		return exit;
	if (cm_doctor_look(&patient, results))
		return cm_fail_memory();
	for (c = 0; c < CM_CHECK_COUNT; c++) {
		if (!results[c].looked)
			continue;
		counts[results[c].finding.verdict]++;
		clean(&results[c].finding);
		if (options->share)
			share(&results[c].finding);
	}
	if (options->form == CM_FORM_JSON)
		print_json(options, results);
	else
		print_table(options, results, counts);
	return counts[CM_VERDICT_FAIL] || (options->strict && counts[CM_VERDICT_WARN]) ? CM_EXIT_NO
										       : CM_EXIT_OK;
}
