/* SPDX-License-Identifier: MIT */
/*
 * `plot`: snapshots drawn as one page.
 */
#include "tools/plot/plot.h"

#include <errno.h>
#include <string.h>

#include "stats/nearest.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/output.h"
#include "tools/output/size.h"
#include "tools/plot/recorded.h"
#include "tools/plot/still.h"
#include "tools/processes/collect.h"
#include "tools/verbs/verbs.h"
#include "tools/watch/recording.h"
#include "tools/watch/replay.h"

#define FILES_MAX 16

/* What is drawn: a view, and the processes and files that the other arguments name. */
struct wanted {
	enum cm_plot plot;
	char **targets;
	size_t count;
};

static void say_written(const char *path, int64_t bytes, const struct cm_plot_report *report)
{
	cm_line(stdout, "  ", "%s: %s, opens offline; %s, %s", path, cm_size_format(bytes).text,
		cm_count_of((int64_t)report->events, "event").text,
		cm_count_of((int64_t)report->spans, "allocation").text);
}

/* The first word is a view if it is the name of one; a slip in such a name is a complaint. */
static int find_view(const struct cm_options *options, struct wanted *wanted)
{
	const char *word = options->arg_count ? options->args[0] : "", *names[CM_PLOT_PAGE];
	const bool more = options->region || options->arg_count > 1;
	uint64_t pid;
	int i;

	for (i = 0; i < CM_PLOT_PAGE; i++) {
		names[i] = cm_plot_name((enum cm_plot)i);
		if (strcmp(names[i], word))
			continue;
		wanted->plot = (enum cm_plot)i;
		wanted->targets++;
		wanted->count--;
		return 0;
	}
	if (more && *word && !cm_is_file_name(word) && cm_number_parse(word, INT32_MAX, &pid) &&
	    (options->region || cm_nearest_name(word, names, CM_PLOT_PAGE)))
		return cm_fail_unknown("plot", "", word, names, CM_PLOT_PAGE,
				       "; there are timeline, blocks, flame and sizes");
	return 0;
}

/* A picture has one view of one snapshot. */
static int check_picture(const struct cm_options *options, const struct wanted *wanted)
{
	if (options->svg && options->png)
		return cm_fail(CM_EXIT_USAGE, "choose one of --svg and --png");
	if ((options->svg || options->png) && wanted->count > 1)
		return cm_fail(CM_EXIT_USAGE, "a picture is of one snapshot, not of %zu",
			       wanted->count);
	if ((options->svg || options->png) && wanted->plot != CM_PLOT_TIMELINE &&
	    wanted->plot != CM_PLOT_PAGE)
		return cm_fail(CM_EXIT_USAGE, "a picture is of the timeline, not of %s",
			       cm_plot_name(wanted->plot));
	return 0;
}

static int find_wanted(const struct cm_options *options, struct wanted *ret_wanted)
{
	struct wanted wanted = {CM_PLOT_PAGE, options->args, (size_t)options->arg_count};
	int exit;

	exit = find_view(options, &wanted);
	if (exit)
		return exit;
	if (options->region)
		wanted.count = 1;
	if (!wanted.count)
		return cm_fail(CM_EXIT_USAGE, "missing argument: want '%s plot %s'", CM_PROGRAM,
			       "[timeline|blocks|flame|sizes] PID|FILE...");
	if (wanted.count > FILES_MAX)
		return cm_fail(CM_EXIT_USAGE, "%zu snapshots: one page compares at most %d",
			       wanted.count, FILES_MAX);
	*ret_wanted = wanted;
	return check_picture(options, &wanted);
}

/* Complains about what ends a picture. */
static void complain(int err)
{
	if (err == -ENODATA)
		cm_complain("there are no events to draw");
	else if (err == -ENOSYS)
		cm_complain("this build has no zlib, which a PNG needs; --svg works");
	else
		cm_complain("%s", strerror(-err));
}

static int draw(const struct cm_options *options, const struct wanted *wanted,
		const struct cm_source *source, const char *path)
{
	struct cm_plot_report report = {0};
	struct cm_output output;
	int64_t bytes;
	int exit, err;

	exit = cm_output_open(&output, path, CM_OUTPUT_PRIVATE, options->force);
	if (exit)
		return exit;
	if (options->svg || options->png)
		err = cm_still_write(source, options->svg ? CM_PICTURE_SVG : CM_PICTURE_PNG,
				     output.file);
	else
		err = cm_plot_write(source, wanted->count, wanted->plot, output.file, &report);
	/* Without a path the output is an open descriptor or a device, without a size; stdout has
	 * the page itself. */
	bytes = output.path ? ftell(output.file) : -1;
	if (err)
		complain(err);
	exit = cm_output_close(&output, !err);
	if (err)
		return CM_EXIT_TARGET;
	if (!exit && bytes >= 0 && (options->svg || options->png))
		cm_line(stdout, "  ", "%s: %s", path, cm_size_format(bytes).text);
	else if (!exit && bytes >= 0)
		say_written(path, bytes, &report);
	return exit;
}

/* COMM-PID.html of the first one. */
static void choose_name(const struct cm_options *options, const struct cm_source *source,
			char *path, size_t bytes)
{
	(void)snprintf(path, bytes, "%.*s-%d.%s", (int)strcspn(source->comm, "/"), source->comm,
		       (int)source->pid,
		       options->svg   ? "svg"
		       : options->png ? "png"
				      : "html");
}

/* Draws a recording. `path`: of the page. */
static int draw_recording(const struct cm_options *options, const char *path)
{
	struct cm_plot_recorded report = {0};
	struct cm_watch_source *source;
	struct cm_output output;
	int64_t bytes;
	int exit, err;

	exit = cm_watch_replay_open(options, false, &source);
	if (exit)
		return exit;
	exit = cm_output_open(&output, path, CM_OUTPUT_PRIVATE, options->force);
	if (!exit) {
		err = cm_plot_recorded(source, output.file, &report);
		bytes = output.path ? ftell(output.file) : -1;
		exit = err ? cm_watch_fail(source, err) : CM_EXIT_OK;
		err = cm_output_close(&output, !err);
		if (!exit)
			exit = err;
		if (!exit && bytes >= 0)
			cm_line(stdout, "  ", "%s: %s, opens offline; %s, %s, %s", path,
				cm_size_format(bytes).text,
				cm_count_of((int64_t)report.samples, "sample").text,
				cm_count_of((int64_t)report.series, "curve").text,
				cm_count_of((int64_t)report.cards, "card").text);
	}
	cm_watch_close(source);
	return exit;
}

/* Whether a recording is to be drawn. It has a picture of its own, and is drawn alone. */
static bool is_recording(const struct cm_options *options, const struct wanted *wanted,
			 int *ret_exit)
{
	size_t i;

	*ret_exit = CM_EXIT_OK;
	for (i = 0; !options->region && i < wanted->count; i++) {
		if (!cm_recording_is(wanted->targets[i]))
			continue;
		if (wanted->count > 1 || wanted->plot != CM_PLOT_PAGE || options->svg ||
		    options->png)
			*ret_exit = cm_fail(CM_EXIT_USAGE,
					    "%s is a recording: it is drawn alone, as one page",
					    wanted->targets[i]);
		return true;
	}
	return false;
}

/* NAME.html for NAME.rec. */
static int plot_recording(const struct cm_options *options, const char *file)
{
	const char *base = basename(file);
	struct cm_options replayed = *options;
	const char *suffix = strrchr(base, '.');
	char chosen[512];

	replayed.from = file;
	(void)snprintf(chosen, sizeof(chosen), "%.*s.html",
		       (int)(suffix && suffix > base ? suffix - base : (long)strlen(base)), base);
	return draw_recording(&replayed, options->out ? options->out : chosen);
}

int cm_verb_plot(const struct cm_options *options)
{
	struct cm_source source[FILES_MAX];
	struct wanted wanted;
	char chosen[512];
	size_t opened = 0, i;
	int exit;

	exit = find_wanted(options, &wanted);
	if (!exit && is_recording(options, &wanted, &exit))
		return exit ? exit : plot_recording(options, wanted.targets[0]);
	for (; !exit && opened < wanted.count; opened += !exit)
		exit = cm_source_open(options, options->region ? NULL : wanted.targets[opened],
				      &source[opened]);
	for (i = 0; !exit && i < opened; i++)
		exit = cm_source_sum_up(options, &source[i]);
	if (!exit) {
		choose_name(options, &source[0], chosen, sizeof(chosen));
		exit = draw(options, &wanted, source, options->out ? options->out : chosen);
	}
	while (opened)
		cm_source_close(&source[--opened]);
	return exit;
}
