/* SPDX-License-Identifier: MIT */
/*
 * `conf`: the options in effect, in a process or here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/text.h"
#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/processes/collect.h"
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

int cm_verb_conf(const struct cm_options *options)
{
	struct cm_emit *emit;
	int exit;

	if (cm_emit_open(&column_set, options, &emit, &exit))
		return exit;
	if (options->arg_count || options->region)
		exit = cm_for_processes(options, list_process, emit);
	else
		exit = list_environment(emit);
	return cm_emit_close(emit, exit);
}
