/* SPDX-License-Identifier: MIT */
#include "tools/run/verb_run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/quote.h"
#include "tools/run/guard.h"
#include "tools/run/library.h"
#include "tools/run/loader.h"

#define PRELOAD_VARIABLE "LD_PRELOAD"
#define NVTX_VARIABLE    "NVTX_INJECTION64_PATH" /* NVTX loads the library that it names */
#define HISTORY_EVENTS   "1Mi"                   /* 64 MiB of host memory a device */
#define NANO             UINT64_C(1000000000)

static int find_library(const char *given, char path[PATH_MAX])
{
	const int err = cm_library_find(given, path);

	if (!err)
		return 0;
	if (given)
		return cm_fail(CM_EXIT_RUN, "--library %s: %s", given, strerror(-err));
	return cm_fail(CM_EXIT_RUN,
		       CM_LIBRARY_NAME " is not where it was installed; name it with --library");
}

/* The loader splits LD_PRELOAD at blanks and colons. */
static int check_library(const char *path)
{
	if (!strpbrk(path, " :"))
		return 0;
	return cm_fail(CM_EXIT_RUN,
		       PRELOAD_VARIABLE
		       " takes no path with a blank or a colon, such as '%s'; name a "
		       "copy elsewhere with --library",
		       path);
}

/* Joins two texts, either of which may be NULL or empty; the caller frees the result. NULL: not
 * enough memory. */
static char *join(const char *first, const char *separator, const char *second)
{
	char *text;

	if (!first || !*first || !second || !*second) {
		first = first && *first ? first : "";
		second = second ? second : "";
		separator = "";
	}
	return asprintf(&text, "%s%s%s", first, separator, second) < 0 ? NULL : text;
}

static int complain_limit(const char *limit)
{
	return cm_fail(CM_EXIT_USAGE,
		       "--limit '%s' is invalid, want a size such as 2G, from 1M up, or a "
		       "share of the device such as 50%%",
		       limit);
}

/* Is it a setting that the library takes? */
static bool is_setting(const char *text)
{
	struct cm_config config;

	cm_config_init(&config);
	cm_config_parse(&config, "", text, NULL, NULL);
	return !config.errors;
}

/* Writes --limit, 50% or 2G, as an option of CUDAMEM_CONF. */
static int spell_limit(const char *limit, char *text, size_t bytes)
{
	uint64_t nano;

	*text = '\0';
	if (!limit)
		return 0;
	if (strchr(limit, '%')) {
		if (cm_decimal_parse(limit, '%', &nano) || !nano || nano > 100 * NANO)
			return complain_limit(limit);
		(void)snprintf(text, bytes, "per_process_memory_fraction:%.11g",
			       (double)nano / (double)(100 * NANO));
		return 0;
	}
	/* A unit is required: 50 may be meant as a percentage. */
	if (!*limit || !strpbrk(limit, "KMGT") ||
	    snprintf(text, bytes, "memory_limit_mb:%s", limit) >= (int)bytes || !is_setting(text))
		return complain_limit(limit);
	return 0;
}

/* Writes --history and --stacks as options of CUDAMEM_CONF. */
static int spell_record(const struct cm_options *options, char *text, size_t bytes)
{
	const char *events = options->history ? options->history : HISTORY_EVENTS;
	const char *comma = "";
	size_t used = 0;

	*text = '\0';
	if (options->given[CM_OPT_HISTORY]) {
		used = (size_t)snprintf(text, bytes, "events:%s", events);
		if (used >= bytes || strchr(events, ',') || !strcmp(events, "0") ||
		    !is_setting(text))
			return cm_fail(CM_EXIT_USAGE,
				       "--history '%s' is invalid, want a number of events such as "
				       "64Ki, at most 16Mi",
				       events);
		comma = ",";
	}
	if (options->given[CM_OPT_RUN_STACKS])
		(void)snprintf(text + used, bytes - used, "%sstacks:%s", comma,
			       cm_context_name(options->context));
	return 0;
}

static void say(void *arg, const char *text)
{
	(void)arg;
	(void)fprintf(stderr, "%s\n", text);
}

/* The value that the program will have for CUDAMEM_CONF; the other variables do not change. */
static const char *program_conf;

static char *get_program_variable(const char *name)
{
	return strcmp(name, CM_CONF_VARIABLE) ? getenv(name) : (char *)program_conf;
}

/* With strict:on, a mistake in the configuration is an error before the program starts. */
static int check_conf(const char *conf)
{
	struct cm_config config;

	program_conf = conf;
	cm_config_read(&config, get_program_variable, environ, NULL, NULL);
	if (!config.strict || !config.errors)
		return 0;
	cm_config_read(&config, get_program_variable, environ, say, NULL);
	return cm_fail(CM_EXIT_RUN,
		       "the configuration has mistakes and strict is on: nothing was started");
}

/* A variable to set for the program; one without a value is left unchanged. */
struct variable {
	const char *name;
	const char *value;
};

static void print_command(const struct variable *variables, char **args)
{
	for (; variables->name; variables++) {
		if (!variables->value || !*variables->value)
			continue;
		(void)printf("%s=", variables->name);
		cm_quote_shell(stdout, variables->value);
		(void)putchar(' ');
	}
	for (; *args; args++) {
		cm_quote_shell(stdout, *args);
		(void)putchar(args[1] ? ' ' : '\n');
	}
}

static int start(const struct variable *variables, char **args)
{
	const char *why = "command not found";
	int err;

	for (; variables->name; variables++) {
		if (!variables->value || !*variables->value)
			continue;
		if (setenv(variables->name, variables->value, 1))
			return cm_fail(CM_EXIT_RUN, "not enough memory on the host");
	}
	(void)execvp(args[0], args);
	err = errno;
	if (err != ENOENT)
		why = strerror(err);
	else if (strchr(args[0], '/') && !access(args[0], F_OK))
		why = "its interpreter or loader is missing";
	cm_complain("%s: %s", *args[0] ? args[0] : "''", why);
	return err == ENOENT ? CM_EXIT_NOT_FOUND : CM_EXIT_NOT_EXECUTABLE;
}

/* NVTX loads only one tool. If the variable names one already, it stays. */
static const char *find_nvtx(const struct cm_options *options, const char *library)
{
	const char *other = getenv(NVTX_VARIABLE);

	if (!options->nvtx)
		return NULL;
	if (!other || !*other || !strcmp(other, library))
		return library;
	cm_complain("%s is set already: ranges go to %s instead of --nvtx", NVTX_VARIABLE, other);
	return NULL;
}

/* The argument of start_command(). */
struct command {
	const struct variable *variables;
	char **args;
};

static int start_command(void *data)
{
	const struct command *command = data;

	return start(command->variables, command->args);
}

/* Runs the program, or with --dry-run prints how it would be started. */
static int run_program(const struct cm_options *options, const struct variable *variables,
		       struct cm_guard *guard, bool covered)
{
	struct command command = {variables, options->args};

	if (options->dry_run) {
		print_command(variables, options->args);
		return CM_EXIT_OK;
	}
	return guard ? cm_guard_run(guard, covered, start_command, &command)
		     : start(variables, options->args);
}

/* What is added to the program's configuration. The last setting of an option wins. */
struct settings {
	const char *first; /* before that of the user, who can override it */
	char limit[64];
	char record[64];
	const char *guard;
};

/* Appends a setting to the list, which is freed. NULL: not enough memory, before or now. */
static char *append_setting(char *list, const char *setting)
{
	char *text = list ? join(list, ",", setting) : NULL;

	free(list);
	return text;
}

/* Joins the configuration; the caller frees the result. NULL: not enough memory. The command line
 * comes last. */
static char *join_conf(const struct cm_options *options, const struct settings *settings)
{
	char *conf = join(settings->first, ",", getenv(CM_CONF_VARIABLE));

	conf = append_setting(conf, options->conf);
	conf = append_setting(conf, settings->limit);
	conf = append_setting(conf, settings->record);
	return append_setting(conf, settings->guard);
}

/* Says if the program is not covered, or what it starts is not, and why. */
static enum cm_loader check_loader(char *const *command, const char *library)
{
	char path[PATH_MAX];
	const enum cm_loader loader = cm_loader_find(command[0], library, path);
	const char *why = cm_loader_wraps(command);

	if (loader == CM_LOADER_PRELOADS && why)
		cm_complain("%s %s: %s", command[0], why, CM_LOADER_BEHIND);
	if (loader != CM_LOADER_PRELOADS)
		cm_complain("%s %s: it is not covered%s", path, cm_loader_why(loader),
			    loader == CM_LOADER_NONE ? ", but what it starts may be" : "");
	return loader;
}

static int spell(const struct cm_options *options, struct settings *settings)
{
	const int exit = spell_limit(options->limit, settings->limit, sizeof(settings->limit));

	return exit ? exit : spell_record(options, settings->record, sizeof(settings->record));
}

/* Hours later, when there is something to save, it is too late to learn that there is no such
 * folder. One whose name has the pid is not known yet. */
static int check_folder(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	char folder[PATH_MAX];

	if (!file)
		return 0;
	(void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - file) + 1 : 1,
		       slash ? file : ".");
	if (strstr(folder, "%p") || !access(folder, W_OK | X_OK))
		return 0;
	return cm_fail(CM_EXIT_RUN, "%s: %s", file, strerror(errno));
}

/* Creates the guard, if something is to be watched, reported or saved. 0, or an exit code after a
 * complaint. */
static int create_guard(const struct cm_options *options, struct settings *settings,
			struct cm_guard **ret_guard)
{
	const bool stacks = options->leaks || options->oom || options->save_peak;
	int exit;

	if (!stacks && !options->report && !options->live)
		return options->given[CM_OPT_CHILDREN]
			       ? cm_fail(CM_EXIT_USAGE,
					 "--children has an effect only with --report, --top, "
					 "--leaks, --oom or --save-peak")
			       : 0;
	settings->first = stacks ? "stacks:alloc" : NULL;
	exit = check_folder(options->oom);
	if (!exit)
		exit = check_folder(options->save_peak);
	return exit ? exit : cm_guard_create(options, ret_guard, &settings->guard);
}

int cm_verb_run(const struct cm_options *options)
{
	struct variable variables[4] = {{NULL, NULL}};
	char library[PATH_MAX], *conf = NULL, *preload = NULL;
	struct settings settings = {0};
	struct cm_guard *guard = NULL;
	enum cm_loader loader = CM_LOADER_PRELOADS;
	int exit;

	exit = spell(options, &settings);
	if (!exit)
		exit = find_library(options->library, library);
	if (!exit)
		exit = check_library(library);
	if (!exit)
		exit = create_guard(options, &settings, &guard);
	if (exit)
		return exit;
	conf = join_conf(options, &settings);
	preload = join(library, ":", getenv(PRELOAD_VARIABLE));
	if (!conf || !preload) {
		cm_complain("not enough memory on the host");
		exit = CM_EXIT_RUN;
	} else {
		exit = check_conf(conf);
	}
	if (!exit)
		loader = check_loader(options->args, library);
	/* The programs that it starts may be covered; but musl's loader would end it. */
	if (!exit && loader != CM_LOADER_MUSL)
		variables[0].value = preload;
	variables[0].name = PRELOAD_VARIABLE;
	variables[1] = (struct variable){CM_CONF_VARIABLE, conf};
	variables[2] = (struct variable){NVTX_VARIABLE, find_nvtx(options, library)};
	if (!exit)
		exit = run_program(options, variables, guard, loader == CM_LOADER_PRELOADS);
	cm_guard_destroy(guard);
	free(conf);
	free(preload);
	return exit;
}
