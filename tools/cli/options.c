/* SPDX-License-Identifier: MIT */
#include "tools/cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/layout.h"
#include "stats/nearest.h"
#include "stats/units.h"
#include "tools/cli/exits.h"

#define DEFAULT_TIMEOUT_NS UINT64_C(5000000000)
#define DEFAULT_WATCH      "2"
#define WATCH_MIN_NS       UINT64_C(100000000)
#define LONG_BASE          256 /* getopt's value of a long option: beyond every letter */
#define HELP_COLUMN        28

static const struct cm_opt_info infos[CM_OPT_COUNT] = {
#define ARG_NONE     false, false
#define ARG_REQUIRED true, false
#define ARG_OPTIONAL true, true
#define CM_OPT(ID, command, name, ARGUMENT, argument, help) \
	[CM_OPT_##ID] = {name, argument, help, command, ARG_##ARGUMENT},
#include "tools/cli/options.def"
};

const struct cm_opt_info *cm_opt_info(enum cm_opt opt)
{
	return &infos[opt];
}

static size_t count_opts(const struct cm_verb *verb)
{
	size_t n = 0;

	while (verb->opts[n] != CM_OPT_COUNT)
		n++;
	return n;
}

static void print_option(enum cm_opt opt)
{
	const struct cm_opt_info *info = &infos[opt];
	char left[64];
	const char *open = info->argument_optional ? "[=" : info->has_argument ? " " : "";

	(void)snprintf(left, sizeof(left), "%c%c%s--%s%s%s%s", info->command ? '-' : ' ',
		       info->command ? info->command : ' ', info->command ? ", " : "  ", info->name,
		       open, info->argument, info->argument_optional ? "]" : "");
	if (strlen(left) < HELP_COLUMN)
		(void)printf("  %-*s %s\n", HELP_COLUMN, left, info->help);
	else
		(void)printf("  %s\n  %*s %s\n", left, HELP_COLUMN, "", info->help);
}

static void print_help(const struct cm_verb *verb)
{
	size_t i;

	(void)printf("usage: %s %s [options]%s%s\n\n%s.\n\n", CM_PROGRAM, verb->name,
		     *verb->args ? " " : "", verb->args, verb->summary);
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		print_option(verb->opts[i]);
	print_option(CM_OPT_HELP);
}

/* getopt's two descriptions of a verb's options. */
struct description {
	char commands[2 + 3 * (CM_OPT_COUNT + 2)];
	struct option longs[CM_OPT_COUNT + 3];
};

static void describe_option(struct description *to, size_t row, enum cm_opt opt)
{
	const struct cm_opt_info *info = &infos[opt];
	char *end = to->commands + strlen(to->commands);

	if (info->command) {
		*end++ = info->command;
		if (info->has_argument)
			*end++ = ':';
		if (info->argument_optional)
			*end++ = ':';
		*end = '\0';
	}
	to->longs[row].name = info->name;
	to->longs[row].has_arg = info->argument_optional ? optional_argument
				 : info->has_argument    ? required_argument
							 : no_argument;
	to->longs[row].val = LONG_BASE + (int)opt;
}

static void describe(const struct cm_verb *verb, struct description *to)
{
	const size_t n = count_opts(verb);
	size_t i;

	memset(to, 0, sizeof(*to));
	/* '+': options end at the first argument; ':': we complain ourselves. */
	(void)snprintf(to->commands, sizeof(to->commands), "%s", verb->command ? "+:" : ":");
	for (i = 0; i < n; i++)
		describe_option(to, i, verb->opts[i]);
	describe_option(to, n, CM_OPT_HELP);
	describe_option(to, n + 1, CM_OPT_VERSION);
}

/* What the commands about snapshots lean on and this build has not. */
static void print_lacks(void)
{
	static const struct {
		const char *name;
		bool there;
	} parts[] = {
		{"zstd", CM_HAVE_ZSTD},
		{"zlib", CM_HAVE_ZLIB},
		{"libdw", CM_HAVE_LIBDW},
		{"libiberty", CM_HAVE_IBERTY},
	};
	const char *before = "built without ";
	size_t i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].there)
			continue;
		(void)printf("%s%s", before, parts[i].name);
		before = ", ";
	}
	if (*before == ',')
		(void)putchar('\n');
}

void cm_version_print(void)
{
	(void)printf("%s %s (region layout %d.%d)\n", CM_PROGRAM, CM_VERSION, CM_LAYOUT_MAJOR,
		     CM_LAYOUT_MINOR);
	print_lacks();
}

static enum cm_opt find_opt(const struct cm_verb *verb, int value)
{
	size_t i;

	if (value >= LONG_BASE)
		return (enum cm_opt)(value - LONG_BASE);
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		if (infos[verb->opts[i]].command == value)
			return verb->opts[i];
	return infos[CM_OPT_VERSION].command == value ? CM_OPT_VERSION : CM_OPT_HELP;
}

static void complain_unknown(const struct cm_verb *verb, const char *word)
{
	const char *names[CM_OPT_COUNT + 1], *nearest;
	const size_t n = count_opts(verb);
	char typed[64];
	size_t i;

	for (i = 0; i < n; i++)
		names[i] = infos[verb->opts[i]].name;
	names[n] = infos[CM_OPT_HELP].name;
	(void)snprintf(typed, sizeof(typed), "%s", strncmp(word, "--", 2) ? "" : word + 2);
	typed[strcspn(typed, "=")] = '\0';
	nearest = cm_nearest_name(typed, names, n + 1);
	if (nearest)
		cm_complain("unknown option '--%s' (did you mean --%s?); see '%s %s --help'", typed,
			    nearest, CM_PROGRAM, verb->name);
	else
		cm_complain("unknown option '%s'; see '%s %s --help'", word, CM_PROGRAM,
			    verb->name);
}

/* getopt's '?' and ':': which word was wrong, and why. */
static int complain_option(const struct cm_verb *verb, int result, char **argv)
{
	char command[3] = {'-', (char)optopt, '\0'};
	/* A bad long option is the word just passed; a bad letter may stand in a group of
	 * letters. */
	const char *word = optopt && optopt < LONG_BASE ? command : argv[optind - 1];

	if (result == ':')
		cm_complain("option '%s' needs a value: %s", word,
			    infos[find_opt(verb, optopt)].argument);
	else if (optopt >= LONG_BASE)
		cm_complain("option '--%s' takes no value", infos[optopt - LONG_BASE].name);
	else
		complain_unknown(verb, word);
	return CM_EXIT_USAGE;
}

static int parse_color(const char *word, bool *ret_color)
{
	const char *no_color = getenv("NO_COLOR");

	if (!strcmp(word, "always"))
		*ret_color = true;
	else if (!strcmp(word, "never"))
		*ret_color = false;
	else if (!strcmp(word, "auto"))
		*ret_color = isatty(STDOUT_FILENO) && !(no_color && *no_color);
	else
		return CM_EXIT_USAGE;
	return 0;
}

static int complain_value(enum cm_opt opt, const char *value, const char *want)
{
	cm_complain("--%s '%s' is not understood, want %s", infos[opt].name, value, want);
	return CM_EXIT_USAGE;
}

static int set_form(struct cm_options *options, enum cm_form form)
{
	if (options->form != CM_FORM_TABLE && options->form != form) {
		cm_complain("choose one of --json, --ndjson, --csv, --pairs and --raw");
		return CM_EXIT_USAGE;
	}
	options->form = form;
	return 0;
}

static int add_device(struct cm_options *options, const char *name)
{
	if (options->device_count == CM_DEVICE_NAMES_MAX) {
		cm_complain("more than %d devices named", CM_DEVICE_NAMES_MAX);
		return CM_EXIT_USAGE;
	}
	options->devices[options->device_count++] = name;
	return 0;
}

static int parse_top(const char *value, size_t *ret_top)
{
	uint64_t top;

	if (cm_number_parse(value, UINT32_MAX, &top) || !top)
		return complain_value(CM_OPT_TOP, value, "a whole number of 1 or more");
	*ret_top = top;
	return 0;
}

/* PyTorch's words, by the values that they stand for. */
static const char *const enabled_words[] = {"state", "all", NULL};
static const char *const context_words[] = {
	[CM_CONTEXT_NONE] = "none", [CM_CONTEXT_STATE] = "state", [CM_CONTEXT_ALLOC] = "alloc",
	[CM_CONTEXT_ALL] = "all",   [CM_CONTEXT_COUNT] = NULL,
};
static const char *const stacks_words[] = {
	[CM_STACKS_ALL] = "all",
	[CM_STACKS_PYTHON] = "python",
	[CM_STACKS_COUNT] = NULL,
};

const char *cm_context_name(uint32_t context)
{
	return context < CM_CONTEXT_COUNT ? context_words[context] : "unknown";
}

const char *cm_stacks_name(uint32_t stacks)
{
	return stacks < CM_STACKS_COUNT ? stacks_words[stacks] : "unknown";
}

static int parse_word(enum cm_opt opt, const char *value, const char *const *words,
		      uint32_t *ret_index)
{
	uint32_t i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(words[i], value)) {
			*ret_index = i;
			return 0;
		}
	}
	return complain_value(opt, value, infos[opt].argument);
}

static int take_exit_code(enum cm_opt opt, const char *value, int *ret_code)
{
	uint64_t code;

	if (cm_number_parse(value, 255, &code) || !code)
		return complain_value(opt, value, "a number from 1 to 255");
	*ret_code = (int)code;
	return 0;
}

/* Takes one option in; a switch, so that a new row of options.def is a warning here. */
static int take(struct cm_options *options, enum cm_opt opt, const char *value)
{
	switch (opt) {
	case CM_OPT_PID:
		options->pid = value;
		break;
	case CM_OPT_DEVICE:
		return add_device(options, value);
	case CM_OPT_OUTPUT:
		options->columns = value;
		break;
	case CM_OPT_SORT:
		options->sort = value;
		break;
	case CM_OPT_REVERSE:
		options->reverse = true;
		break;
	case CM_OPT_TOP:
		return parse_top(value, &options->top);
	case CM_OPT_WHERE:
		options->where = value;
		break;
	case CM_OPT_UNTIL:
		options->until = value;
		break;
	case CM_OPT_WATCH:
		if (cm_decimal_parse(value ? value : DEFAULT_WATCH, 's', &options->watch_ns) ||
		    options->watch_ns < WATCH_MIN_NS)
			return complain_value(opt, value, "0.1 seconds or more");
		break;
	case CM_OPT_ALL:
		options->all = true;
		break;
	case CM_OPT_JSON:
		return set_form(options, CM_FORM_JSON);
	case CM_OPT_NDJSON:
		return set_form(options, CM_FORM_NDJSON);
	case CM_OPT_CSV:
		return set_form(options, CM_FORM_CSV);
	case CM_OPT_PAIRS:
		return set_form(options, CM_FORM_PAIRS);
	case CM_OPT_RAW:
		return set_form(options, CM_FORM_RAW);
	case CM_OPT_BYTES:
		options->bytes = true;
		break;
	case CM_OPT_NOHEADINGS:
		options->headings = false;
		break;
	case CM_OPT_SKIP_FIRST:
		options->skip_first = true;
		break;
	case CM_OPT_MAP:
		if (value && strcmp(value, "all"))
			return complain_value(opt, value, "all or nothing");
		options->map = value ? CM_MAP_ALL : CM_MAP_LARGEST;
		break;
	case CM_OPT_FRESH:
		options->fresh = true;
		break;
	case CM_OPT_HOST:
		options->host = true;
		break;
	case CM_OPT_PEAK:
		options->peak = true;
		break;
	case CM_OPT_ACCUMULATED:
		options->accumulated = true;
		break;
	case CM_OPT_ENABLED:
		return parse_word(opt, value, enabled_words, &options->events);
	case CM_OPT_CONTEXT:
		return parse_word(opt, value, context_words, &options->context);
	case CM_OPT_STACKS:
		return parse_word(opt, value, stacks_words, &options->stacks);
	case CM_OPT_MAX_ENTRIES:
		if (cm_number_parse(value, UINT64_MAX, &options->max_entries) ||
		    !options->max_entries)
			return complain_value(opt, value, "a whole number of 1 or more");
		break;
	case CM_OPT_CLEAR:
		options->clear = true;
		break;
	case CM_OPT_TIMEOUT:
		if (cm_decimal_parse(value, 's', &options->timeout_ns) || !options->timeout_ns)
			return complain_value(opt, value, "a number of seconds above 0");
		break;
	case CM_OPT_CONF:
		options->conf = value;
		break;
	case CM_OPT_LIMIT:
		options->limit = value;
		break;
	case CM_OPT_LEAKS:
		options->leaks = true;
		break;
	case CM_OPT_LEAK_EXIT:
		return take_exit_code(opt, value, &options->leak_exit);
	case CM_OPT_SUPPRESSIONS:
		options->suppressions = value;
		break;
	case CM_OPT_OOM:
		options->oom = value;
		break;
	case CM_OPT_SAVE_PEAK:
		options->save_peak = value;
		break;
	case CM_OPT_NVTX:
		options->nvtx = true;
		break;
	case CM_OPT_LIBRARY:
		options->library = value;
		break;
	case CM_OPT_DRY_RUN:
		options->dry_run = true;
		break;
	case CM_OPT_OUT:
		options->out = value;
		break;
	case CM_OPT_TO:
		options->to = value;
		break;
	case CM_OPT_FORCE:
		options->force = true;
		break;
	case CM_OPT_REGION:
		options->region = value;
		break;
	case CM_OPT_DIR:
		options->dir = value;
		break;
	case CM_OPT_DEBUG_PATH:
		options->debug_path = value;
		break;
	case CM_OPT_COLOR:
		if (parse_color(value, &options->color))
			return complain_value(opt, value, infos[opt].argument);
		break;
	case CM_OPT_ASCII:
		options->ascii = true;
		break;
	case CM_OPT_HELP:
	case CM_OPT_VERSION:
	case CM_OPT_COUNT:
		break;
	}
	return 0;
}

/* Options that would do nothing without another one, or beside it: who gave them meant something
 * else, such as a run that is silent for its leaks. */
static int check_pairs(const struct cm_options *options)
{
	static const enum cm_opt wants[][2] = {
		{CM_OPT_LEAK_EXIT, CM_OPT_LEAKS},
		{CM_OPT_SUPPRESSIONS, CM_OPT_LEAKS},
		{CM_OPT_REVERSE, CM_OPT_SORT},
	};
	size_t i;

	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		if (!options->given[wants[i][0]] || options->given[wants[i][1]])
			continue;
		cm_complain("--%s is of use with --%s alone", infos[wants[i][0]].name,
			    infos[wants[i][1]].name);
		return CM_EXIT_USAGE;
	}
	if (options->given[CM_OPT_HOST] && options->given[CM_OPT_DEVICE]) {
		cm_complain("choose one of --host and --device");
		return CM_EXIT_USAGE;
	}
	return 0;
}

/* A region file stands in for whatever else would name a process. */
static int check_region(const struct cm_verb *verb, const struct cm_options *options)
{
	if (options->pid || options->dir) {
		cm_complain("choose one of --region and --%s", options->pid ? "pid" : "dir");
		return CM_EXIT_USAGE;
	}
	if (options->arg_count > verb->own_args) {
		cm_complain("unexpected argument '%s': --region is read in place of a process",
			    options->args[verb->own_args]);
		return CM_EXIT_USAGE;
	}
	return 0;
}

static int check_args(const struct cm_verb *verb, const struct cm_options *options)
{
	const int min = options->region && verb->own_args < verb->min_args ? verb->own_args
									   : verb->min_args;

	if (options->arg_count < min) {
		cm_complain("missing argument: want '%s %s %s'", CM_PROGRAM, verb->name,
			    verb->args);
		return CM_EXIT_USAGE;
	}
	if (verb->max_args >= 0 && options->arg_count > verb->max_args) {
		if (options->given[CM_OPT_WATCH]) /* whose value cannot stand apart */
			cm_complain("unexpected argument '%s' (did you mean --watch=%s?)",
				    options->args[0], options->args[0]);
		else
			cm_complain("unexpected argument '%s'; see '%s %s --help'",
				    options->args[verb->max_args], CM_PROGRAM, verb->name);
		return CM_EXIT_USAGE;
	}
	return options->region ? check_region(verb, options) : 0;
}

int cm_options_parse(const struct cm_verb *verb, int argc, char **argv,
		     struct cm_options *ret_options, int *ret_exit)
{
	struct cm_options options = {.headings = true,
				     .events = 1,
				     .context = CM_CONTEXT_ALL,
				     .max_entries = UINT64_MAX,
				     .timeout_ns = DEFAULT_TIMEOUT_NS};
	struct description how;
	enum cm_opt opt;
	int result, err;

	describe(verb, &how);
	(void)parse_color("auto", &options.color);
	optind = 0;
	opterr = 0;
	while ((result = getopt_long(argc, argv, how.commands, how.longs, NULL)) != -1) {
		if (result == '?' || result == ':') {
			*ret_exit = complain_option(verb, result, argv);
			return -1;
		}
		opt = find_opt(verb, result);
		/* The end of the options, where a value was forgotten before it. */
		if (!strcmp(argv[optind - 1], "--")) {
			cm_complain("option '--%s' needs a value: %s", infos[opt].name,
				    infos[opt].argument);
			*ret_exit = CM_EXIT_USAGE;
			return -1;
		}
		options.given[opt] = true;
		*ret_exit = take(&options, opt, optarg);
		if (opt == CM_OPT_HELP)
			print_help(verb);
		if (opt == CM_OPT_VERSION)
			cm_version_print();
		if (*ret_exit || opt == CM_OPT_HELP || opt == CM_OPT_VERSION)
			return -1;
	}
	options.args = argv + optind;
	options.arg_count = argc - optind;
	err = check_args(verb, &options);
	if (!err)
		err = check_pairs(&options);
	if (err) {
		*ret_exit = err;
		return -1;
	}
	*ret_options = options;
	return 0;
}
