/* SPDX-License-Identifier: MIT */
#include "tools/cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/layout.h"
#include "stats/option_value.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"

#define DEFAULT_TIMEOUT_NS  UINT64_C(5000000000)
#define DEFAULT_INTERVAL_NS UINT64_C(15000000000)
#define DEFAULT_MAX_SERIES  512
#define DEFAULT_WATCH       "2"
#define WATCH_MIN_NS        UINT64_C(100000000)
#define SPEED_MIN           UINT64_C(100000000) /* in 1e-9 */
#define SPEED_MAX           UINT64_C(10000000000000)
#define LONG_BASE           256 /* getopt's value for the first long option: no character */

static const struct cm_opt_info infos[CM_OPT_COUNT] = {
#define ARG_NONE     false, false
#define ARG_REQUIRED true, false
#define ARG_OPTIONAL true, true
#define CM_OPT(ID, short_name, name, ARGUMENT, argument, take, field, help) \
	[CM_OPT_##ID] = {name, argument, help, short_name, ARG_##ARGUMENT},
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

	(void)snprintf(left, sizeof(left), "%c%c%s--%s%s%s%s", info->short_name ? '-' : ' ',
		       info->short_name ? info->short_name : ' ', info->short_name ? ", " : "  ",
		       info->name, open, info->argument, info->argument_optional ? "]" : "");
	cm_help_row(left, info->help);
}

static void print_help(const struct cm_verb *verb)
{
	size_t i;

	cm_paragraph(stdout, "    ", "usage: %s %s [options]%s%s", CM_PROGRAM, verb->name,
		     *verb->args ? " " : "", verb->args);
	(void)putchar('\n');
	cm_paragraph(stdout, "", "%s.", verb->summary);
	(void)putchar('\n');
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		print_option(verb->opts[i]);
	print_option(CM_OPT_HELP);
}

/* A verb's options in getopt's two forms. */
struct description {
	char optstring[2 + 3 * (CM_OPT_COUNT + 2)];
	struct option longs[CM_OPT_COUNT + 3];
};

static void describe_option(struct description *to, size_t row, enum cm_opt opt)
{
	const struct cm_opt_info *info = &infos[opt];
	char *end = to->optstring + strlen(to->optstring);

	if (info->short_name) {
		*end++ = info->short_name;
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

static void describe_verb(const struct cm_verb *verb, struct description *to)
{
	const size_t n = count_opts(verb);
	size_t i;

	memset(to, 0, sizeof(*to));
	/* '+': options end at the first argument; ':': getopt prints nothing. */
	(void)snprintf(to->optstring, sizeof(to->optstring), "%s", verb->command ? "+:" : ":");
	for (i = 0; i < n; i++)
		describe_option(to, i, verb->opts[i]);
	describe_option(to, n, CM_OPT_HELP);
	describe_option(to, n + 1, CM_OPT_VERSION);
}

/* Names the optional libraries, used by the snapshot commands and `top`, that this build lacks. */
static void print_missing_parts(void)
{
	static const struct {
		const char *name;
		bool there;
	} parts[] = {
		{"zstd", CM_HAVE_ZSTD},        {"zlib", CM_HAVE_ZLIB},
		{"sqlite", CM_HAVE_SQLITE},    {"libdw", CM_HAVE_LIBDW},
		{"libiberty", CM_HAVE_IBERTY}, {"ncursesw", CM_HAVE_NCURSES},
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
	print_missing_parts();
}

static enum cm_opt find_opt(const struct cm_verb *verb, int value)
{
	size_t i;

	if (value >= LONG_BASE)
		return (enum cm_opt)(value - LONG_BASE);
	for (i = 0; verb->opts[i] != CM_OPT_COUNT; i++)
		if (infos[verb->opts[i]].short_name == value)
			return verb->opts[i];
	return infos[CM_OPT_VERSION].short_name == value ? CM_OPT_VERSION : CM_OPT_HELP;
}

static int fail_unknown(const struct cm_verb *verb, const char *word)
{
	const char *names[CM_OPT_COUNT + 1];
	const size_t n = count_opts(verb);
	char typed[64];
	size_t i;

	for (i = 0; i < n; i++)
		names[i] = infos[verb->opts[i]].name;
	names[n] = infos[CM_OPT_HELP].name;
	if (strncmp(word, "--", 2) != 0)
		return cm_fail(CM_EXIT_USAGE, "unknown option '%s'; see '%s %s --help'", word,
			       CM_PROGRAM, verb->name);
	(void)snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	return cm_fail_unknown("option", "--", typed, names, n + 1, "; see '%s %s --help'",
			       CM_PROGRAM, verb->name);
}

/* getopt's '?' and ':': which word is wrong, and why. Returns the exit code. */
static int complain_option(const struct cm_verb *verb, int result, char **argv)
{
	char short_option[3] = {'-', (char)optopt, '\0'};
	/* getopt has just passed a bad long option; a bad short option may be inside a group. */
	const char *word = optopt && optopt < LONG_BASE ? short_option : argv[optind - 1];

	if (result == ':')
		return cm_fail(CM_EXIT_USAGE, "option '%s' needs a value: %s", word,
			       infos[find_opt(verb, optopt)].argument);
	if (optopt >= LONG_BASE)
		return cm_fail(CM_EXIT_USAGE, "option '--%s' takes no value",
			       infos[optopt - LONG_BASE].name);
	return fail_unknown(verb, word);
}

/* An option that was given. */
struct taking {
	struct cm_options *options;
	enum cm_opt opt;
	const char *value; /* NULL: given without one */
	void *field;       /* the member of the options that options.def names for it */
};

static int fail_value(const struct taking *taking, const char *want)
{
	return cm_fail(CM_EXIT_USAGE, "--%s '%s' is invalid, want %s", infos[taking->opt].name,
		       taking->value, want);
}

/* One function for each word in the column `take` of options.def. 0, or an exit code after a
 * complaint. */
static int take_nothing(const struct taking *taking)
{
	(void)taking;
	return 0;
}

static int take_flag(const struct taking *taking)
{
	*(bool *)taking->field = true;
	return 0;
}

static int take_text(const struct taking *taking)
{
	*(const char **)taking->field = taking->value;
	return 0;
}

static int take_number(const struct taking *taking)
{
	uint64_t number;

	if (cm_number_parse(taking->value, UINT64_MAX, &number) || !number)
		return fail_value(taking, "a whole number of 1 or more");
	*(uint64_t *)taking->field = number;
	return 0;
}

/* Bytes, or with K, M, G or T behind them 2^10 ... 2^40 times as many. */
static int take_size(const struct taking *taking)
{
	static const char units[] = "KMGT";
	const size_t length = strlen(taking->value);
	char digits[32] = "";
	const char *unit = length ? strchr(units, taking->value[length - 1]) : NULL;
	const size_t count = length - (unit != NULL);
	double bytes = 0;
	uint64_t nano;

	if (count < sizeof(digits)) {
		memcpy(digits, taking->value, count);
		if (!cm_decimal_parse(digits, 0, &nano))
			bytes = (double)nano / 1e9 *
				(double)(UINT64_C(1) << (unit ? 10 * (unit - units + 1) : 0));
	}
	if (bytes < 1 || bytes >= (double)INT64_MAX)
		return fail_value(taking, "a size such as 512, 64K or 1.5G");
	*(uint64_t *)taking->field = (uint64_t)bytes;
	return 0;
}

/* A number, a UUID or its beginning, or "all". */
static int take_device(const struct taking *taking)
{
	uint64_t ordinal;

	if (cm_number_parse(taking->value, INT32_MAX, &ordinal) && strcmp(taking->value, "all") &&
	    strncmp(taking->value, "GPU-", 4) && strncmp(taking->value, "MIG-", 4))
		return fail_value(taking, "the number of a device, GPU-UUID or all");
	if (taking->options->device_count == CM_DEVICE_NAMES_MAX)
		return cm_fail(CM_EXIT_USAGE, "more than %d devices named", CM_DEVICE_NAMES_MAX);
	((const char **)taking->field)[taking->options->device_count++] = taking->value;
	return 0;
}

/* The options have the order of enum cm_form, which begins with the table. */
_Static_assert(CM_OPT_RAW - CM_OPT_JSON == CM_FORM_RAW - CM_FORM_JSON, "options.def, enum cm_form");

static int take_form(const struct taking *taking)
{
	const enum cm_form form = (enum cm_form)(CM_FORM_JSON + (taking->opt - CM_OPT_JSON));

	if (taking->options->form != CM_FORM_TABLE && taking->options->form != form)
		return cm_fail(CM_EXIT_USAGE,
			       "choose one of --json, --ndjson, --csv, --pairs and --raw");
	*(enum cm_form *)taking->field = form;
	return 0;
}

static int take_map(const struct taking *taking)
{
	if (taking->value && strcmp(taking->value, "all"))
		return fail_value(taking, "all or nothing");
	*(enum cm_map *)taking->field = taking->value ? CM_MAP_ALL : CM_MAP_LARGEST;
	return 0;
}

static int take_watch(const struct taking *taking)
{
	uint64_t *ns = taking->field;

	if (cm_decimal_parse(taking->value ? taking->value : DEFAULT_WATCH, 's', ns) ||
	    *ns < WATCH_MIN_NS)
		return fail_value(taking, "0.1 seconds or more");
	return 0;
}

static int take_timeout(const struct taking *taking)
{
	uint64_t *ns = taking->field;

	if (cm_decimal_parse(taking->value, 's', ns) || !*ns)
		return fail_value(taking, "a number of seconds above 0");
	return 0;
}

static int take_speed(const struct taking *taking)
{
	uint64_t nano;

	if (cm_decimal_parse(taking->value, 'x', &nano) || nano < SPEED_MIN || nano > SPEED_MAX)
		return fail_value(taking, "a number from 0.1 to 10000");
	*(double *)taking->field = (double)nano / 1e9;
	return 0;
}

static int take_exit_code(const struct taking *taking)
{
	uint64_t code;

	if (cm_number_parse(taking->value, 255, &code) || !code)
		return fail_value(taking, "a number from 1 to 255");
	*(int *)taking->field = (int)code;
	return 0;
}

/* Colours if a person looks, unless NO_COLOR (no-color.org) is set. */
static bool is_color_wanted(void)
{
	const char *no_color = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

static int take_color(const struct taking *taking)
{
	if (!strcmp(taking->value, "auto"))
		*(bool *)taking->field = is_color_wanted();
	else if (!strcmp(taking->value, "always") || !strcmp(taking->value, "never"))
		*(bool *)taking->field = *taking->value == 'a';
	else
		return fail_value(taking, infos[taking->opt].argument);
	return 0;
}

/* Takes one of the words of the argument's name. The value of an enumeration is its place. */
static int take_word(const struct taking *taking)
{
	const char *words = infos[taking->opt].argument;

	return cm_choice_parse(words, taking->value, taking->field) ? fail_value(taking, words) : 0;
}

/* The words have the order of enum cm_context. "python" was PyTorch's word for --stack-frames, when
 * this option had its meaning. */
static int take_stacks(const struct taking *taking)
{
	if (!taking->value) {
		*(uint32_t *)taking->field = CM_CONTEXT_ALLOC;
		return 0;
	}
	if (taking->opt == CM_OPT_STACKS && !strcmp(taking->value, "python")) {
		taking->options->stacks = CM_STACKS_PYTHON;
		return 0;
	}
	if (cm_choice_parse("off|state|alloc|all", taking->value, taking->field))
		return fail_value(taking, infos[taking->opt].argument);
	return 0;
}

const char *cm_context_name(uint32_t context)
{
	static const char *const names[CM_CONTEXT_COUNT] = {"none", "state", "alloc", "all"};

	return context < CM_CONTEXT_COUNT ? names[context] : "unknown";
}

const char *cm_stacks_name(uint32_t stacks)
{
	static const char *const names[CM_STACKS_COUNT] = {"all", "python"};

	return stacks < CM_STACKS_COUNT ? names[stacks] : "unknown";
}

static int take_option(struct cm_options *options, enum cm_opt opt, const char *value)
{
	static const struct {
		int (*take)(const struct taking *taking);
		size_t field;
	} takers[CM_OPT_COUNT] = {
#define CM_OPT(ID, short_name, name, ARGUMENT, argument, take, field, help) \
	[CM_OPT_##ID] = {take_##take, offsetof(struct cm_options, field)},
#include "tools/cli/options.def"
	};
	const struct taking taking = {options, opt, value, (char *)options + takers[opt].field};

	options->given[opt] = true;
	return takers[opt].take(&taking);
}

/* Refuses options that have no effect without another one, or beside it: the user meant something
 * else, such as a --suppressions without the --leaks that it is for. */
static int check_pairs(const struct cm_options *options)
{
	static const enum cm_opt wants[][2] = {
		{CM_OPT_LEAK_EXIT, CM_OPT_LEAKS},      {CM_OPT_SUPPRESSIONS, CM_OPT_LEAKS},
		{CM_OPT_REVERSE, CM_OPT_SORT},         {CM_OPT_INTERVAL, CM_OPT_TEXTFILE},
		{CM_OPT_LISTEN_PUBLIC, CM_OPT_LISTEN}, {CM_OPT_AT, CM_OPT_FROM},
		{CM_OPT_SPEED, CM_OPT_FROM},           {CM_OPT_LOG, CM_OPT_LIVE},
	};
	/* A recording has its processes itself. */
	static const enum cm_opt live[] = {CM_OPT_REGION, CM_OPT_DIR, CM_OPT_RECORD, CM_OPT_ALL,
					   CM_OPT_DELAY};
	size_t i;

	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		if (!options->given[wants[i][0]] || options->given[wants[i][1]])
			continue;
		return cm_fail(CM_EXIT_USAGE, "--%s has an effect only with --%s",
			       infos[wants[i][0]].name, infos[wants[i][1]].name);
	}
	for (i = 0; options->from && i < sizeof(live) / sizeof(live[0]); i++)
		if (options->given[live[i]])
			return cm_fail(CM_EXIT_USAGE, "choose one of --from and --%s",
				       infos[live[i]].name);
	if (options->given[CM_OPT_HOST] && options->given[CM_OPT_DEVICE])
		return cm_fail(CM_EXIT_USAGE, "choose one of --host and --device");
	return 0;
}

/* --region takes the place of everything else that names a process. */
static int check_region(const struct cm_verb *verb, const struct cm_options *options)
{
	if (options->pid || options->dir)
		return cm_fail(CM_EXIT_USAGE, "choose one of --region and --%s",
			       options->pid ? "pid" : "dir");
	if (options->arg_count > verb->own_args)
		return cm_fail(CM_EXIT_USAGE,
			       "unexpected argument '%s': --region is read instead of a process",
			       options->args[verb->own_args]);
	return 0;
}

static int check_args(const struct cm_verb *verb, const struct cm_options *options)
{
	const int min = options->region && verb->own_args < verb->min_args ? verb->own_args
									   : verb->min_args;

	if (options->arg_count < min)
		return cm_fail(CM_EXIT_USAGE, "missing argument: want '%s %s %s'", CM_PROGRAM,
			       verb->name, verb->args);
	if (verb->max_args >= 0 && options->arg_count > verb->max_args) {
		/* An optional value cannot be a word of its own. */
		if (options->given[CM_OPT_WATCH])
			return cm_fail(CM_EXIT_USAGE,
				       "unexpected argument '%s' (did you mean --watch=%s?)",
				       options->args[0], options->args[0]);
		return cm_fail(CM_EXIT_USAGE, "unexpected argument '%s'; see '%s %s --help'",
			       options->args[verb->max_args], CM_PROGRAM, verb->name);
	}
	return options->region ? check_region(verb, options) : 0;
}

/* Takes the options of argv in. 0: go on; else as cm_options_parse. */
static int parse_words(const struct cm_verb *verb, int argc, char **argv,
		       struct cm_options *options, int *ret_exit)
{
	struct description how;
	enum cm_opt opt;
	int result;

	describe_verb(verb, &how);
	optind = 0;
	opterr = 0;
	while ((result = getopt_long(argc, argv, how.optstring, how.longs, NULL)) != -1) {
		if (result == '?' || result == ':') {
			*ret_exit = complain_option(verb, result, argv);
			return -1;
		}
		opt = find_opt(verb, result);
		/* "--" ends the options: the value before it was forgotten. */
		if (!strcmp(argv[optind - 1], "--")) {
			*ret_exit = cm_fail(CM_EXIT_USAGE, "option '--%s' needs a value: %s",
					    infos[opt].name, infos[opt].argument);
			return -1;
		}
		*ret_exit = take_option(options, opt, optarg);
		if (opt == CM_OPT_HELP)
			print_help(verb);
		if (opt == CM_OPT_VERSION)
			cm_version_print();
		if (*ret_exit || opt == CM_OPT_HELP || opt == CM_OPT_VERSION)
			return -1;
	}
	options->args = argv + optind;
	options->arg_count = argc - optind;
	return 0;
}

int cm_options_parse(const struct cm_verb *verb, int argc, char **argv,
		     struct cm_options *ret_options, int *ret_exit)
{
	struct cm_options options = {.events = 1,
				     .context = CM_CONTEXT_ALL,
				     .max_entries = UINT64_MAX,
				     .interval_ns = DEFAULT_INTERVAL_NS,
				     .max_series = DEFAULT_MAX_SERIES,
				     .timeout_ns = DEFAULT_TIMEOUT_NS,
				     .color = is_color_wanted()};

	if (parse_words(verb, argc, argv, &options, ret_exit))
		return -1;
	*ret_exit = check_args(verb, &options);
	if (!*ret_exit)
		*ret_exit = check_pairs(&options);
	if (*ret_exit)
		return -1;
	*ret_options = options;
	return 0;
}
