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

/* Writes --limit, 50% or 2G, as an option of CUDAMEM_CONF. */
static int spell_limit(const char *limit, char *text, size_t bytes)
{
	struct cm_config config;
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
	    snprintf(text, bytes, "memory_limit_mb:%s", limit) >= (int)bytes)
		return complain_limit(limit);
	cm_config_init(&config);
	cm_config_parse(&config, "", text, NULL, NULL);
	return config.errors ? complain_limit(limit) : 0;
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

/* NVTX loads one tool: an earlier one is kept. */
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
static int run(const struct cm_options *options, const struct variable *variables,
	       struct cm_guard *guard)
{
	struct command command = {variables, options->args};

	if (options->dry_run) {
		print_command(variables, options->args);
		return CM_EXIT_OK;
	}
	return guard ? cm_guard_run(guard, start_command, &command)
		     : start(variables, options->args);
}

/* Joins the configuration. The last setting of an option wins, so the command line comes last. The
 * guard needs stacks, which come first: the user can override them. */
static char *join_conf(const struct cm_options *options, const char *limit, const char *guard)
{
	char *present, *given, *own, *conf = NULL;

	present = join(guard ? "stacks:alloc" : NULL, ",", getenv(CM_CONF_VARIABLE));
	given = join(options->conf, ",", limit);
	own = given ? join(given, ",", guard) : NULL;
	if (present && own)
		conf = join(present, ",", own);
	free(present);
	free(given);
	free(own);
	return conf;
}

/* Says where the program is not covered. Whether it can be started with the library all the same,
 * for the programs that it starts. */
static bool can_preload(const char *program, const char *library)
{
	char path[PATH_MAX];
	const enum cm_loader loader = cm_loader_find(program, library, path);

	if (loader != CM_LOADER_PRELOADS)
		cm_complain("%s %s: it is not covered", path, cm_loader_why(loader));
	return loader != CM_LOADER_MUSL;
}

int cm_verb_run(const struct cm_options *options)
{
	struct variable variables[4] = {{NULL, NULL}};
	char library[PATH_MAX], limit[64], *conf = NULL, *preload = NULL;
	struct cm_guard *guard = NULL;
	const char *of_guard = NULL;
	int exit;

	exit = spell_limit(options->limit, limit, sizeof(limit));
	if (!exit)
		exit = find_library(options->library, library);
	if (!exit)
		exit = check_library(library);
	if (!exit && (options->leaks || options->oom || options->save_peak))
		exit = cm_guard_create(options, &guard, &of_guard);
	if (exit)
		return exit;
	conf = join_conf(options, limit, of_guard);
	preload = join(library, ":", getenv(PRELOAD_VARIABLE));
	if (!conf || !preload) {
		cm_complain("not enough memory on the host");
		exit = CM_EXIT_RUN;
	} else {
		exit = check_conf(conf);
	}
	if (!exit && can_preload(options->args[0], library))
		variables[0].value = preload;
	variables[0].name = PRELOAD_VARIABLE;
	variables[1] = (struct variable){CM_CONF_VARIABLE, conf};
	variables[2] = (struct variable){NVTX_VARIABLE, find_nvtx(options, library)};
	if (!exit)
		exit = run(options, variables, guard);
	cm_guard_destroy(guard);
	free(conf);
	free(preload);
	return exit;
}
