/* SPDX-License-Identifier: MIT */
/*
 * `export`: a snapshot in the format of another tool.
 */
#include "tools/export/export.h"

#include <errno.h>
#include <string.h>

#include "tools/cli/exits.h"
#include "tools/output/output.h"
#include "tools/verbs/verbs.h"

#define FORMATS_MAX 16

static const struct cm_format *find_format(const char *name)
{
	const char *names[FORMATS_MAX];
	size_t n;

	for (n = 0; cm_formats[n].name; n++) {
		if (name && !strcmp(cm_formats[n].name, name))
			return &cm_formats[n];
		names[n] = cm_formats[n].name;
	}
	if (name)
		cm_complain_unknown("format", "", name, names, n, "; the formats are:");
	else
		cm_complain("--to FORMAT is missing; the formats are:");
	for (n = 0; cm_formats[n].name; n++)
		cm_advise("%-10s %s", cm_formats[n].name, cm_formats[n].help);
	return NULL;
}

static int write_file(const struct cm_options *options, const struct cm_format *format,
		      const struct cm_source *source)
{
	const char *path = options->out ? options->out : "-";
	struct cm_output output;
	int exit, err;

	exit = cm_output_open(&output, path, CM_OUTPUT_PRIVATE, options->force);
	if (exit)
		return exit;
	err = format->write(source, output.file);
	if (!err)
		return cm_output_close(&output, true);
	(void)cm_output_close(&output, false);
	if (err == -ENOSYS)
		return cm_fail(CM_EXIT_TARGET, "this build has no %s, which --to %s needs",
			       format->needs, format->name);
	return cm_fail(CM_EXIT_TARGET, "%s", strerror(-err));
}

int cm_verb_export(const struct cm_options *options)
{
	const struct cm_format *format = find_format(options->to);
	struct cm_source source;
	int exit;

	if (!format)
		return CM_EXIT_USAGE;
	if (!format->text && cm_output_is_terminal(options->out))
		return cm_fail(CM_EXIT_USAGE,
			       "%s is not for a terminal: name a file with -O, such as -O memory%s",
			       format->name, format->suffix);
	if (options->uncached && !format->uncached)
		return cm_fail(CM_EXIT_USAGE,
			       "--uncached has an effect only with --to pickle and --to json");
	exit = cm_source_open(options, options->args[0], &source);
	if (exit)
		return exit;
	source.uncached = options->uncached;
	exit = cm_source_sum_up(options, &source);
	if (!exit)
		exit = write_file(options, format, &source);
	cm_source_close(&source);
	return exit;
}
