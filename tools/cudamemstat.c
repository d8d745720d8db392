/* SPDX-License-Identifier: MIT */
/*
 * cudamemstat: shows and controls the GPU memory of CUDA programs from outside. The table of verbs,
 * and main().
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/options.h"
#include "tools/cli/width.h"
#include "tools/output/output.h"
#include "tools/output/size.h"
#include "tools/processes/collect.h"
#include "tools/run/verb_run.h"
#include "tools/verbs/verbs.h"

#define OPTS(...)    ((const enum cm_opt[]){__VA_ARGS__, CM_OPT_COUNT})
#define NO_OPTS      ((const enum cm_opt[]){CM_OPT_COUNT})
#define WHERE_OPTS   CM_OPT_REGION, CM_OPT_DIR
#define SOURCE_OPTS  CM_OPT_DEBUG_PATH, WHERE_OPTS
#define CUT_OPTS     CM_OPT_LAST, CM_OPT_SINCE, CM_OPT_MIN_SIZE, CM_OPT_DEVICE, CM_OPT_TOP_STACKS
#define STACK_OPTS   CM_OPT_BY, CM_OPT_DEPTH, CM_OPT_FULL, CM_OPT_HIDE
#define MACHINE_OPTS CM_OPT_JSON, CM_OPT_NDJSON, CM_OPT_CSV, CM_OPT_PAIRS, CM_OPT_RAW
#define FROM_OPTS    CM_OPT_FROM, CM_OPT_AT, CM_OPT_SPEED
#define TABLE_OPTS   CM_OPT_OUTPUT, MACHINE_OPTS, CM_OPT_BYTES, CM_OPT_NOHEADINGS
#define SORT_OPTS    CM_OPT_SORT, CM_OPT_REVERSE, CM_OPT_TOP, CM_OPT_WHERE

static int verb_help(const struct cm_options *options);

/* The first verb is the default. Ends with a row without a name. */
static const struct cm_verb verbs[] = {
	{"ls", "", "List the processes that use libcudamem and their GPU memory (the default)", 0,
	 0, 0, false, cm_verb_ls,
	 OPTS(CM_OPT_PID, CM_OPT_DEVICE, CM_OPT_ALL, CM_OPT_WATCH, TABLE_OPTS, SORT_OPTS,
	      CM_OPT_COLOR, FROM_OPTS, WHERE_OPTS)},
	{"top", "", "Watch processes and cards on a full screen", 0, 0, 0, false, cm_verb_top,
	 OPTS(CM_OPT_PID, CM_OPT_DELAY, CM_OPT_BATCH, CM_OPT_FRAMES, CM_OPT_SIZE, CM_OPT_OUTPUT,
	      CM_OPT_SORT, CM_OPT_REVERSE, CM_OPT_WHERE, CM_OPT_GROUP_BY, CM_OPT_GRAPH,
	      CM_OPT_ASCII, CM_OPT_COLOR, CM_OPT_READONLY, CM_OPT_NO_MOUSE, FROM_OPTS, WHERE_OPTS)},
	{"show", "PID...", "Show where the GPU memory of a process is", 0, 1, -1, false,
	 cm_verb_show,
	 OPTS(CM_OPT_DEVICE, CM_OPT_MAP, CM_OPT_FRESH, CM_OPT_TIMEOUT, CM_OPT_BYTES, CM_OPT_JSON,
	      CM_OPT_ASCII, WHERE_OPTS)},
	{"stat", "[SEC [COUNT]]", "Print a line per interval, like vmstat", 2, 0, 2, false,
	 cm_verb_stat,
	 OPTS(CM_OPT_PID, CM_OPT_DEVICE, CM_OPT_SKIP_FIRST, CM_OPT_WHERE, CM_OPT_UNTIL, TABLE_OPTS,
	      CM_OPT_RECORD, FROM_OPTS, WHERE_OPTS)},
	{"memory-stats", "PID...", "Print PyTorch's memory statistics of each device", 0, 1, -1,
	 false, cm_verb_memory_stats, OPTS(CM_OPT_DEVICE, CM_OPT_HOST, CM_OPT_JSON, WHERE_OPTS)},
	{"trim", "PID...", "Release cached memory to the driver", 0, 1, -1, false, cm_verb_trim,
	 OPTS(CM_OPT_EVERY, CM_OPT_DEVICE, CM_OPT_TIMEOUT, CM_OPT_BYTES, CM_OPT_JSON, WHERE_OPTS)},
	{"reset", "PID...", "Reset peaks, or sums and event counters", 0, 1, -1, false,
	 cm_verb_reset,
	 OPTS(CM_OPT_PEAK, CM_OPT_ACCUMULATED, CM_OPT_EVERY, CM_OPT_DEVICE, CM_OPT_TIMEOUT,
	      CM_OPT_BYTES, CM_OPT_JSON, WHERE_OPTS)},
	{"history", "start|stop|clear|status PID...",
	 "Start, stop, clear or show (status) the recording of events and stacks", 1, 1, -1, false,
	 cm_verb_history,
	 OPTS(CM_OPT_DEVICE, CM_OPT_ENABLED, CM_OPT_STACKS, CM_OPT_CONTEXT, CM_OPT_STACK_FRAMES,
	      CM_OPT_MAX_ENTRIES, CM_OPT_CLEAR, CM_OPT_EVERY, CM_OPT_TIMEOUT, CM_OPT_BYTES,
	      CM_OPT_JSON, WHERE_OPTS)},
	{"snapshot", "PID|FILE", "Save the state of a process, with its events and stacks", 0, 1, 1,
	 false, cm_verb_snapshot,
	 OPTS(CM_OPT_OUT, CM_OPT_FORCE, CM_OPT_TIMEOUT, CM_OPT_BYTES, CM_OPT_JSON, SOURCE_OPTS)},
	{"report", "PID|FILE", "Print what a snapshot says: budget, peak, stacks, temporaries", 0,
	 1, 1, false, cm_verb_report,
	 OPTS(CM_OPT_TIMELINE, CM_OPT_ASCII, STACK_OPTS, CUT_OPTS, CM_OPT_TIMEOUT, CM_OPT_BYTES,
	      CM_OPT_JSON, SOURCE_OPTS)},
	{"diff", "FIRST SECOND", "Compare two snapshots", 2, 2, 2, false, cm_verb_diff,
	 OPTS(STACK_OPTS, CM_OPT_TOP, CM_OPT_TIMEOUT, CM_OPT_BYTES, CM_OPT_JSON, CM_OPT_DEBUG_PATH,
	      CM_OPT_DIR)},
	{"plot", "[timeline|blocks|flame|sizes] PID|FILE...",
	 "Draw snapshots as one page, with all views or with one", 1, 0, -1, false, cm_verb_plot,
	 OPTS(CM_OPT_SVG, CM_OPT_PNG, CM_OPT_HIDE, CUT_OPTS, CM_OPT_OUT, CM_OPT_FORCE, CM_OPT_BYTES,
	      CM_OPT_TIMEOUT, SOURCE_OPTS)},
	{"export", "PID|FILE", "Write a snapshot in the format of another tool", 0, 1, 1, false,
	 cm_verb_export,
	 OPTS(CM_OPT_TO, CM_OPT_UNCACHED, CUT_OPTS, CM_OPT_OUT, CM_OPT_FORCE, CM_OPT_TIMEOUT,
	      SOURCE_OPTS)},
	{"conf", "[PID] [OPTION:VALUE...]",
	 "List the options in effect, here or in a process, or change some there", 0, 0, -1, false,
	 cm_verb_conf, OPTS(TABLE_OPTS, SORT_OPTS, CM_OPT_EVERY, CM_OPT_TIMEOUT, WHERE_OPTS)},
	{"run", "[--] COMMAND [ARGUMENT...]", "Start a program with the caching allocator", 0, 1,
	 -1, true, cm_verb_run,
	 OPTS(CM_OPT_CONF, CM_OPT_LIMIT, CM_OPT_REPORT, CM_OPT_LIVE, CM_OPT_LOG, CM_OPT_HISTORY,
	      CM_OPT_RUN_STACKS, CM_OPT_NVTX, CM_OPT_LEAKS, CM_OPT_LEAK_EXIT, CM_OPT_SUPPRESSIONS,
	      CM_OPT_RUN_DEPTH, CM_OPT_FULL, CM_OPT_HIDE, CM_OPT_OOM, CM_OPT_SAVE_PEAK,
	      CM_OPT_CHILDREN, CM_OPT_DEBUG_PATH, CM_OPT_LIBRARY, CM_OPT_BYTES, CM_OPT_DRY_RUN)},
	{"check", "", "Check conditions for a script or a monitor: ends with 0, 1, 2 or 3", 0, 0, 0,
	 false, cm_verb_check,
	 OPTS(CM_OPT_WARNING, CM_OPT_CRITICAL, CM_OPT_FAIL_ON, CM_OPT_FOR, CM_OPT_CHECK_WHERE,
	      CM_OPT_CHECK_OUTPUT, CM_OPT_PID, CM_OPT_DEVICE, WHERE_OPTS)},
	{"doctor", "[PID | [--] COMMAND...]", "Look for what keeps the library from working here",
	 0, 0, -1, true, cm_verb_doctor,
	 OPTS(CM_OPT_VERBOSE, CM_OPT_STRICT, CM_OPT_SHARE, CM_OPT_LIBRARY, CM_OPT_BYTES,
	      CM_OPT_JSON)},
	{"exporter", "", "Serve Prometheus with the figures of all processes", 0, 0, 0, false,
	 cm_verb_exporter,
	 OPTS(CM_OPT_LISTEN, CM_OPT_LISTEN_PUBLIC, CM_OPT_ONCE, CM_OPT_TEXTFILE, CM_OPT_INTERVAL,
	      CM_OPT_FORMAT, CM_OPT_GROUP_BY, CM_OPT_MAX_SERIES, CM_OPT_DIR)},
	{"demo", "", "Run a made-up busy machine to try the other commands on", 0, 0, 0, false,
	 cm_verb_demo, OPTS(CM_OPT_DEMO_DIR)},
	{"completion", "bash|zsh|fish", "Print a completion script for a shell", 1, 1, 1, false,
	 cm_verb_completion, NO_OPTS},
	{"help", "[COMMAND]", "Print this list, or the options of a command", 0, 0, 1, false,
	 verb_help, NO_OPTS},
	{0},
};

static void print_help(void)
{
	const struct cm_verb *verb;
	char left[64];

	(void)printf("usage: %s [COMMAND] [options]\n\n", CM_PROGRAM);
	cm_paragraph(stdout, "",
		     "Watches and controls the GPU memory of programs that run under "
		     "libcudamem.");
	(void)putchar('\n');
	for (verb = verbs; verb->name; verb++) {
		(void)snprintf(left, sizeof(left), "%s %s", verb->name, verb->args);
		cm_help_row(left, verb->summary);
	}
	(void)putchar('\n');
	cm_paragraph(stdout, "",
		     "'%s help COMMAND' lists the options of a command; --version tells "
		     "the version, and what this build lacks.",
		     CM_PROGRAM);
	cm_paragraph(stdout, "",
		     "Exit codes: 0 done, 1 nothing matched, 2 usage, 3 process or file out of "
		     "reach, 4 no answer in time, 64 partly done; run: the program's own, 125 to "
		     "127.");
}

/* The verb that somebody has left out; NULL: none is likely. */
static const char *find_meant(const char *word)
{
	uint64_t pid;

	if (!cm_number_parse(word, INT32_MAX, &pid))
		return "show";
	if (!cm_is_file_name(word) || access(word, F_OK))
		return NULL;
	return access(word, X_OK) ? "report" : "run";
}

/* The verb of this name, or NULL with a complaint made. */
static const struct cm_verb *find_verb(const char *name)
{
	const char *names[sizeof(verbs) / sizeof(verbs[0])], *meant;
	size_t n;

	for (n = 0; verbs[n].name; n++) {
		if (!strcmp(verbs[n].name, name))
			return &verbs[n];
		names[n] = verbs[n].name;
	}
	meant = find_meant(name);
	if (meant)
		cm_complain("'%s' is not a command (did you mean '%s %s'?); see '%s --help'", name,
			    meant, name, CM_PROGRAM);
	else
		cm_complain_unknown("command", "", name, names, n, "; see '%s --help'", CM_PROGRAM);
	return NULL;
}

static int verb_help(const struct cm_options *options)
{
	char program[] = CM_PROGRAM, help[] = "--help";
	char *words[] = {program, help, NULL};
	const struct cm_verb *verb;
	struct cm_options unused;
	int exit = CM_EXIT_OK;

	if (!options->arg_count) {
		print_help();
		return CM_EXIT_OK;
	}
	verb = find_verb(options->args[0]);
	if (!verb)
		return CM_EXIT_USAGE;
	(void)cm_options_parse(verb, 2, words, &unused, &exit);
	return exit;
}

/* Checks that all output was written. A closed pipe is no error. */
static int close_output(int exit)
{
	const int err = cm_output_flush(stdout);

	if (!err || err == EPIPE)
		return exit;
	return cm_fail(CM_EXIT_TARGET, "the output could not be written: %s", strerror(err));
}

/* SIGBUS: the file of a region that we have mapped was truncated by its owner. All that a signal
 * handler can do is say so. */
static void say_cut(int number)
{
	static const char words[] = CM_PROGRAM
		": the file of a region was cut short while it was in use\n";

	(void)number;
	(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
	_exit(CM_EXIT_TARGET);
}

static int run_verb(const struct cm_verb *verb, int argc, char **argv)
{
	struct cm_options options;
	int exit;

	cm_complain_as(verb->name);
	/* Not for `run`: the program inherits ignored signals. */
	if (!verb->command) {
		(void)signal(SIGPIPE, SIG_DFL);
		/* A file that exceeds the size limit is then an error of write(). */
		(void)signal(SIGXFSZ, SIG_IGN);
	}
	(void)signal(SIGBUS, say_cut);
	if (cm_options_parse(verb, argc, argv, &options, &exit))
		/* To a monitor 2 is critical; a mistake in its command is 3, unknown. */
		return exit && verb->run == cm_verb_check ? CM_EXIT_TARGET : exit;
	options.verbs = verbs;
	cm_sizes_exact(options.bytes);
	return verb->run(&options);
}

int main(int argc, char **argv)
{
	const struct cm_verb *verb = &verbs[0];

	(void)setlocale(LC_CTYPE, "");
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help();
		return close_output(CM_EXIT_OK);
	}
	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		cm_version_print();
		return close_output(CM_EXIT_OK);
	}
	if (argc > 1 && argv[1][0] != '-') {
		verb = find_verb(argv[1]);
		if (!verb)
			return CM_EXIT_USAGE;
		argc--;
		argv++;
	}
	return close_output(run_verb(verb, argc, argv));
}
