/* SPDX-License-Identifier: MIT */
/*
 * The command lines of the verbs: one table of options (options.def), parsed into one struct. A
 * mistake is reported on stderr, with the nearest valid name.
 */
#ifndef CM_TOOLS_CLI_OPTIONS_H
#define CM_TOOLS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CM_DEVICE_NAMES_MAX 64
#define CM_PROGRAM          "cudamemstat"

enum cm_opt {
#define CM_OPT(ID, short_name, name, ARGUMENT, argument, take, field, help) CM_OPT_##ID,
#include "tools/cli/options.def"
	CM_OPT_COUNT
};

enum cm_form {
	CM_FORM_TABLE,
	CM_FORM_JSON,
	CM_FORM_NDJSON,
	CM_FORM_CSV,
	CM_FORM_PAIRS,
	CM_FORM_RAW,
};

enum cm_map { CM_MAP_NONE, CM_MAP_LARGEST, CM_MAP_ALL };

struct cm_verb;

struct cm_options {
	bool given[CM_OPT_COUNT]; /* whether each option was given */
	const char *pid;
	const char *devices[CM_DEVICE_NAMES_MAX];
	size_t device_count;
	uint64_t top;      /* lines to print, 0: all */
	uint64_t watch_ns; /* between two listings, 0: print only one */
	const char *columns;
	const char *sort;
	const char *where;
	const char *until;
	const char *warning;
	const char *critical;
	const char *fail_on;
	uint64_t for_ns;
	const char *record;
	const char *from;
	const char *at;
	double speed; /* 0: not given */
	enum cm_form form;
	enum cm_map map;
	bool reverse;
	bool bytes;
	bool no_headings;
	bool skip_first;
	bool fresh;
	bool host;
	bool peak;
	bool accumulated;
	bool dry_run;
	bool color;
	bool ascii;
	bool all;
	bool clear;
	bool nvtx;
	bool force;
	bool verbose;
	bool strict;
	bool share;
	bool full;
	bool listen_public;
	bool once;
	uint32_t events;  /* history: 1: events too, 0: only the state of blocks */
	uint32_t context; /* enum cm_context */
	uint32_t stacks;  /* enum cm_stacks */
	uint32_t by;      /* enum cm_by */
	uint32_t no_children;
	uint64_t depth; /* 0: the default */
	const char *hide;
	uint64_t max_entries; /* UINT64_MAX: all */
	uint64_t timeout_ns;
	const char *conf;
	const char *limit;
	const char *library;
	const char *history; /* events to keep; NULL with --history: the default */
	const char *log;
	bool leaks;
	bool report;
	bool live;     /* run --top */
	int leak_exit; /* 0: the exit code of the program */
	const char *suppressions;
	const char *oom;
	const char *save_peak;
	const char *out;
	const char *to;
	const char *region;
	const char *dir;
	uint64_t last; /* events of each device, 0: all */
	const char *since;
	bool every; /* a pattern may match several */
	bool svg;
	bool png;
	bool timeline;
	bool uncached;
	uint64_t min_size_bytes;
	const char *debug_path; /* NULL: only the usual directories */
	const char *listen;
	const char *textfile;
	uint64_t interval_ns;
	uint32_t openmetrics; /* 0: the text format */
	uint32_t group_by;    /* enum cm_group_by */
	uint64_t max_series;
	bool batch;
	uint64_t frames;   /* 0: until interrupted */
	uint64_t delay_ns; /* 0: the default */
	const char *size;
	uint32_t graph; /* enum cm_top_graph */
	bool readonly;
	bool no_mouse;
	char **args; /* the arguments that are not options */
	int arg_count;
	/* All verbs, for completion; ends with a row without a name. */
	const struct cm_verb *verbs;
};

struct cm_verb {
	const char *name;
	const char *args; /* for the usage line */
	const char *summary;
	/* Arguments that do not name a process; with --region no others are allowed. */
	int own_args;
	int min_args;
	int max_args; /* -1: any number */
	bool command; /* the arguments are a command: options end at the first one */
	/* Returns an exit code. */
	int (*run)(const struct cm_options *options);
	/* The verb's own options, up to CM_OPT_COUNT; all verbs have --help and --version. */
	const enum cm_opt *opts;
};

/*
 * Parses argv[1..]; argv[0] is skipped. Returns 0 with *ret_options filled in, which point into
 * argv. Otherwise *ret_exit is the exit code: the help or the version was printed, or a complaint
 * made.
 */
int cm_options_parse(const struct cm_verb *verb, int argc, char **argv,
		     struct cm_options *ret_options, int *ret_exit);

void cm_version_print(void);

struct cm_opt_info {
	const char *name;
	const char *argument;
	const char *help;
	char short_name; /* 0: none */
	bool has_argument;
	bool argument_optional;
};

const struct cm_opt_info *cm_opt_info(enum cm_opt opt);

/* The word that --context, or --stacks, takes for a value of enum cm_context, or cm_stacks;
 * "unknown" for any other value. */
const char *cm_context_name(uint32_t context);
const char *cm_stacks_name(uint32_t stacks);

#endif
