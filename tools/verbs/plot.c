/* SPDX-License-Identifier: MIT */
/*
 * `plot`: a snapshot drawn as one page.
 */
#include "tools/plot/plot.h"

#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/output.h"
#include "tools/verbs/verbs.h"

static int find_plot(const char *word, enum cm_plot *ret_plot)
{
	const char *names[CM_PLOT_COUNT];
	int i;

	for (i = 0; i < CM_PLOT_COUNT; i++) {
		names[i] = cm_plot_name((enum cm_plot)i);
		if (strcmp(names[i], word))
			continue;
		*ret_plot = (enum cm_plot)i;
		return 0;
	}
	return cm_fail_unknown("plot", "", word, names, CM_PLOT_COUNT,
			       "; there are timeline, blocks, flame and sizes");
}

static void say(const char *path, int64_t bytes, const struct cm_plot_report *report)
{
	(void)printf("%s: %s, opens offline; %s events, %s allocations", path,
		     cm_bytes_format(bytes).text, cm_count_format((int64_t)report->events).text,
		     cm_count_format((int64_t)report->spans).text);
	if (report->spans_summed)
		(void)printf(", %s of them too small to be seen drawn as one",
			     cm_count_format((int64_t)report->spans_summed).text);
	(void)putchar('\n');
}

int cm_verb_plot(const struct cm_options *options)
{
	struct cm_plot_report report;
	struct cm_output output;
	struct cm_source source;
	enum cm_plot plot;
	int64_t bytes;
	int exit, err;

	exit = find_plot(options->args[0], &plot);
	if (exit)
		return exit;
	if (!options->out)
		return cm_fail(CM_EXIT_USAGE, "name the page with -O, such as -O %s.html",
			       cm_plot_name(plot));
	exit = cm_source_open(options, options->args[1], &source);
	if (exit)
		return exit;
	exit = cm_output_open(&output, options->out, CM_OUTPUT_PRIVATE, options->force);
	if (!exit) {
		err = cm_plot_write(&source, plot, output.file, &report);
		/* What has no path here may be no place for words, and has no size. */
		bytes = output.path ? ftell(output.file) : -1;
		if (err)
			cm_complain("%s", strerror(-err));
		exit = cm_output_close(&output, !err);
		if (err)
			exit = CM_EXIT_TARGET;
		else if (!exit && bytes >= 0)
			say(options->out, bytes, &report);
	}
	cm_source_close(&source);
	return exit;
}
