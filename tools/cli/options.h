/* SPDX-License-Identifier: MIT */
/*
 * The verbs' command lines: one table of options (options.def), parsed into one struct. What is
 * wrong is told on stderr with the nearest name that there is.
 */
#ifndef CM_TOOLS_CLI_OPTIONS_H
#define CM_TOOLS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CM_DEVICE_NAMES_MAX 64
#define CM_PROGRAM          "cudamemstat"

enum cm_opt {
#define CM_OPT(ID, command, name, ARGUMENT, argument, help) CM_OPT_##ID,
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
	bool given[CM_OPT_COUNT];
	const char *pid;
	const char *devices[CM_DEVICE_NAMES_MAX];
	size_t device_count;
	size_t top;        /* lines to print, 0: all */
	uint64_t watch_ns; /* between two listings, 0: one is all */
	const char *columns;
	const char *sort;
	const char *where;
	const char *until;
	enum cm_form form;
	enum cm_map map;
	bool reverse;
	bool bytes;
	bool headings;
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
	uint32_t events;      /* history: 1: events too, 0: state alone */
	uint32_t context;     /* enum cm_context */
	uint32_t stacks;      /* enum cm_stacks */
	uint64_t max_entries; /* UINT64_MAX: all */
	uint64_t timeout_ns;
	const char *conf;
	const char *limit;
	const char *library;
	bool leaks;
	int leak_exit; /* 0: as the program */
	const char *suppressions;
	const char *oom;
	const char *save_peak;
	const char *out;
	const char *to;
	const char *region;
	const char *dir;
	const char *debug_path; /* NULL: the usual folders alone */
	char **args;            /* what is no option */
	int arg_count;
	/* All verbs, for completion; ends with a row without a name. */
	const struct cm_verb *verbs;
};

struct cm_verb {
	const char *name;
	const char *args; /* for the line of usage */
	const char *summary;
	int own_args; /* those that name no process: all that there may be beside --region */
	int min_args;
	int max_args; /* -1: any number */
	bool command; /* the arguments are a command: options end at the first one */
	/* Returns an exit code. */
	int (*run)(const struct cm_options *options);
	/* The verb's own, up to CM_OPT_COUNT; all have --help and --version. */
	const enum cm_opt *opts;
};

/*
 * Parses argv[1..]; argv[0] is skipped. 0: go on. Else *ret_exit is what to exit with: help was
 * printed, or a complaint made.
 */
int cm_options_parse(const struct cm_verb *verb, int argc, char **argv,
		     struct cm_options *ret_options, int *ret_exit);

void cm_version_print(void);

struct cm_opt_info {
	const char *name;
	const char *argument;
	const char *help;
	char command; /* 0: none */
	bool has_argument;
	bool argument_optional;
};

const struct cm_opt_info *cm_opt_info(enum cm_opt opt);

/* The words of --context and --stacks, as enum cm_context and enum cm_stacks have them;
 * "unknown". */
const char *cm_context_name(uint32_t context);
const char *cm_stacks_name(uint32_t stacks);

#endif
