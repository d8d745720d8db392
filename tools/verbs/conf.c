/* SPDX-License-Identifier: MIT */
/*
 * `conf`: the options in effect, in a process or here; and changes some in a process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/nearest.h"
#include "stats/text.h"
#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/processes/command.h"
#include "tools/processes/describe.h"
#include "tools/processes/targets.h"
#include "tools/verbs/verbs.h"

enum column {
	COLUMN_OPTION,
	COLUMN_VALUE,
	COLUMN_DEFAULT,
	COLUMN_FROM,
	COLUMN_MEANING,
	COLUMN_COUNT
};

static const struct cm_column columns[COLUMN_COUNT] = {
	[COLUMN_OPTION] = {"OPTION", "option", 1, CM_ALIGN_LEFT, 0,
			   "name of the option in CUDAMEM_CONF", NULL, NULL},
	[COLUMN_VALUE] = {"VALUE", "value", 1, CM_ALIGN_LEFT, 0, "value in effect", NULL, NULL},
	[COLUMN_DEFAULT] = {"DEFAULT", "default", 4, CM_ALIGN_LEFT, 0, "default value", NULL, NULL},
	[COLUMN_FROM] = {"FROM", "from", 3, CM_ALIGN_LEFT, 0, "where the value comes from", NULL,
			 NULL},
	[COLUMN_MEANING] = {"MEANING", "meaning", 2, CM_ALIGN_WRAP, 0, "what the option does", NULL,
			    NULL},
};

static const struct cm_column_set column_set = {"conf", "options", columns, COLUMN_COUNT, false};

static void emit_option(struct cm_emit *emit, const struct cm_option_row *option)
{
	char name[sizeof(option->name)], value[sizeof(option->value)];
	char fallback[sizeof(option->fallback)], origin[sizeof(option->origin)];
	char help[sizeof(option->help)];
	struct cm_value values[COLUMN_COUNT];

	cm_text_clean(name, sizeof(name), option->name);
	cm_text_clean(value, sizeof(value), option->value);
	cm_text_clean(fallback, sizeof(fallback), option->fallback);
	cm_text_clean(origin, sizeof(origin), option->origin);
	cm_text_clean(help, sizeof(help), option->help);
	values[COLUMN_OPTION] = cm_value_text(name);
	values[COLUMN_VALUE] = cm_value_text(value);
	values[COLUMN_DEFAULT] = cm_value_text(fallback);
	values[COLUMN_FROM] = cm_value_text(origin);
	values[COLUMN_MEANING] = cm_value_text(help);
	cm_emit_row(emit, values);
}

static void say(void *arg, const char *text)
{
	(void)arg;
	(void)fprintf(stderr, "%s\n", text);
}

/* What a program started from here would have. */
static int list_environment(struct cm_emit *emit)
{
	struct cm_config config;
	struct cm_option_row row;
	uint32_t i;

	cm_config_read(&config, getenv, environ, say, NULL);
	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(&config, i, &row);
		emit_option(emit, &row);
	}
	return config.errors ? CM_EXIT_NO : CM_EXIT_OK;
}

static int list_process(const struct cm_options *options, struct cm_process *process, void *data)
{
	const uint32_t rows = process->reader->header.table[CM_TABLE_OPTION].rows;
	struct cm_option_row row;
	uint32_t i;

	(void)options;
	for (i = 0; i < rows && !cm_reader_read_option(process->reader, i, &row); i++)
		emit_option(data, &row);
	return CM_EXIT_OK;
}

/* A user who names an option alone wants to see it, or does not know how to change it. */
static void advise_on_options(const struct cm_options *options)
{
	enum cm_option option;
	const char *name;
	int i;

	for (i = 0; i < options->arg_count; i++) {
		name = options->args[i];
		option = strpbrk(name, ":=") ? CM_OPTION_COUNT : cm_config_find(name);
		if (option == CM_OPTION_COUNT)
			continue;
		cm_advise("'%s' is an option, shown by: %s conf --where 'OPTION == %s'", name,
			  CM_PROGRAM, name);
		if (cm_config_is_live(option))
			cm_advise("and changed by: %s conf PID %s:VALUE", CM_PROGRAM, name);
	}
}

static int list(const struct cm_options *options)
{
	struct cm_emit *emit;
	int exit;

	if (options->arg_count > 1) {
		cm_complain("more than one word: name one process, of which to list the options");
		advise_on_options(options);
		return CM_EXIT_USAGE;
	}
	if (cm_emit_open(&column_set, options, &emit, &exit))
		return exit;
	if (options->arg_count || options->region)
		exit = cm_for_processes(options, list_process, emit);
	else
		exit = list_environment(emit);
	if (exit == CM_EXIT_NO)
		advise_on_options(options);
	return cm_emit_close(emit, exit);
}

/* Fits into the arguments of the command, with a zero byte. */
#define VALUE_BYTES (3 * sizeof(uint64_t))

/* What the arguments that are no processes ask for. */
struct change {
	char **settings;
	int count;
	struct cm_json *json;
};

/* The value of "OPTION:VALUE". */
static const char *value_of(const char *setting)
{
	return strchr(setting, ':') + 1;
}

static int complain_not_live(enum cm_option option, const char *name)
{
	static const char live[] =
#define CM_OPTION_LIVE(name) " " #name
#include "stats/options.def"
		;

	cm_complain("%s can't be changed while a program runs", name);
	cm_advise("these can:%s", live);
	if (option == CM_OPTION_stacks)
		cm_advise("'%s history start PID --stacks all' records from then on", CM_PROGRAM);
	return CM_EXIT_USAGE;
}

/* Without the variable's name, as there is none, and without what is kept, as that is the process's
 * own. */
static void complain_mistake(void *arg, const char *text)
{
	const char *kept = strrchr(text, ';');

	(void)arg;
	text += strlen(": ");
	cm_complain("%.*s", (int)(kept ? (size_t)(kept - text) : strlen(text)), text);
}

/* One mistake, and no process is changed. */
static int check_setting(const char *setting)
{
	const enum cm_option option = cm_config_find(setting);
	struct cm_option_row row;
	struct cm_config config;

	cm_config_init(&config);
	cm_config_row(&config, option, &row);
	if (!cm_config_is_live(option))
		return complain_not_live(option, row.name);
	cm_config_parse(&config, "", setting, complain_mistake, NULL);
	if (config.errors)
		return CM_EXIT_USAGE;
	if (strchr(setting, ',') || strlen(value_of(setting)) >= VALUE_BYTES)
		return cm_fail(CM_EXIT_USAGE, "'%s' is no value for %s", value_of(setting),
			       row.name);
	return CM_EXIT_OK;
}

/* The process's row of the option; false: its library does not know it. */
static bool find_row(const struct cm_process *process, const char *name, uint32_t *ret_index,
		     struct cm_option_row *ret_row)
{
	const uint32_t rows = process->reader->header.table[CM_TABLE_OPTION].rows;

	for (*ret_index = 0;
	     *ret_index < rows && !cm_reader_read_option(process->reader, *ret_index, ret_row);
	     ++*ret_index) {
		ret_row->name[sizeof(ret_row->name) - 1] = '\0';
		if (!strcmp(ret_row->name, name))
			return true;
	}
	return false;
}

static void report_change(struct cm_json *json, const struct cm_process *process,
			  const struct cm_option_row *before, const struct cm_option_row *after)
{
	char name[sizeof(before->name)], was[sizeof(before->value)], is[sizeof(after->value)];

	cm_text_clean(name, sizeof(name), before->name);
	cm_text_clean(was, sizeof(was), before->value);
	cm_text_clean(is, sizeof(is), after->value);
	if (!json) {
		(void)printf("%d %s: %s -> %s\n", (int)process->pid, name, was, is);
		return;
	}
	cm_json_object(json, NULL);
	cm_json_text(json, "done", "conf");
	cm_json_number(json, "pid", process->pid);
	cm_json_text(json, "option", name);
	cm_json_text(json, "value_before", was);
	cm_json_text(json, "value", is);
	cm_json_end(json);
}

static int change_option(const struct cm_options *options, struct cm_process *process,
			 const char *setting, struct cm_json *json)
{
	struct cm_command command = {.code = CM_COMMAND_CONFIGURE};
	struct cm_option_row wanted, before, after;
	struct cm_config defaults;
	uint32_t index;
	int exit;

	cm_config_init(&defaults);
	cm_config_row(&defaults, cm_config_find(setting), &wanted);
	if (!find_row(process, wanted.name, &index, &before))
		return cm_fail(CM_EXIT_TARGET, "process %d: its library has no %s",
			       (int)process->pid, wanted.name);
	command.arg[0] = index;
	memcpy(&command.arg[1], value_of(setting), strlen(value_of(setting)));
	exit = cm_command_send(options, process, &command);
	if (!exit && find_row(process, wanted.name, &index, &after))
		report_change(json, process, &before, &after);
	return exit;
}

static int change_process(const struct cm_options *options, struct cm_process *process, void *data)
{
	const struct change *change = data;
	int exit = CM_EXIT_OK, i;

	for (i = 0; i < change->count && !exit; i++)
		exit = change_option(options, process, change->settings[i], change->json);
	return exit;
}

static int change_processes(const struct cm_options *options, struct change *change)
{
	struct cm_json json;
	int exit = CM_EXIT_OK, i;

	if (!options->arg_count && !options->region)
		return cm_fail(CM_EXIT_USAGE, "options change in a process: want '%s conf PID %s'",
			       CM_PROGRAM, change->settings[0]);
	for (i = 0; i < change->count && !exit; i++)
		exit = check_setting(change->settings[i]);
	if (!exit)
		exit = cm_check_targets(options);
	if (exit)
		return exit;
	change->json = cm_json_open_array(options, &json, "conf", "changes");
	exit = cm_change_processes(options, change_process, change);
	cm_json_close_array(change->json);
	return exit;
}

/* Moves the settings among the arguments to their end; how many. */
static int split_arguments(char **args, int count)
{
	int at = 0, end = count;
	char *setting;

	while (at < end) {
		if (!strpbrk(args[at], ":=") || cm_config_find(args[at]) == CM_OPTION_COUNT) {
			at++;
			continue;
		}
		setting = args[at];
		memmove(&args[at], &args[at + 1], (size_t)(count - at - 1) * sizeof(*args));
		args[count - 1] = setting;
		end--;
	}
	return count - end;
}

/* What names no process may be an option that was mistyped: it is, if another word names a process
 * already. */
static int check_names(const struct cm_options *processes)
{
	const char *names[CM_OPTION_COUNT];
	struct cm_option_row rows[CM_OPTION_COUNT];
	struct cm_config config;
	char name[sizeof(rows->name)];
	size_t length;
	int i;

	cm_config_init(&config);
	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(&config, i, &rows[i]);
		names[i] = rows[i].name;
	}
	for (i = 0; i < processes->arg_count; i++) {
		length = strcspn(processes->args[i], ":=");
		if (!processes->args[i][length] || length >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)length, processes->args[i]);
		if (processes->arg_count > 1 || cm_nearest_name(name, names, CM_OPTION_COUNT))
			return cm_fail_unknown("option", "", name, names, CM_OPTION_COUNT,
					       "; see '%s conf'", CM_PROGRAM);
	}
	return CM_EXIT_OK;
}

int cm_verb_conf(const struct cm_options *options)
{
	struct cm_options processes = *options;
	struct change change = {.count = split_arguments(options->args, options->arg_count)};
	int exit;

	processes.arg_count -= change.count;
	exit = check_names(&processes);
	if (exit)
		return exit;
	if (!change.count)
		return list(options);
	change.settings = options->args + processes.arg_count;
	return change_processes(&processes, &change);
}
