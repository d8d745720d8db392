/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/units.h"
#include "tools/exits.h"
#include "tools/quote.h"
#include "tools/verbs.h"

#define PRELOAD_VARIABLE "LD_PRELOAD"
#define LIBRARY_NAME     "libcudamem.so"
#define NANO             UINT64_C(1000000000)

/* Where the library lies, seen from the folder of this program: installed, then a build tree. */
static const char *const library_places[] = {
	"/" CM_LIBRARY_FROM_TOOL "/" LIBRARY_NAME,
	"/../interpose/" LIBRARY_NAME,
	"/" LIBRARY_NAME,
};

/* The absolute path of the library to preload, in `path`. */
static int find_library(const char *given, char path[PATH_MAX])
{
	char self[PATH_MAX], place[PATH_MAX + 64], *slash;
	ssize_t n;
	size_t i;

	if (given) {
		if (realpath(given, path))
			return 0;
		cm_complain("--library %s: %s", given, strerror(errno));
		return CM_EXIT_RUN;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (i = 0; slash && i < sizeof(library_places) / sizeof(library_places[0]); i++) {
		(void)snprintf(place, sizeof(place), "%.*s%s", (int)(slash - self), self,
			       library_places[i]);
		if (realpath(place, path) && !access(path, R_OK))
			return 0;
	}
	cm_complain("%s is not where it was installed; name it with --library", LIBRARY_NAME);
	return CM_EXIT_RUN;
}

/* Joins what stands in a variable with what is added, into memory of its own; NULL: none left. */
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

/* --limit 50% as an option of CUDAMEM_CONF. */
static int spell_limit(const char *limit, char *text, size_t bytes)
{
	uint64_t nano;

	*text = '\0';
	if (!limit)
		return 0;
	if (!strchr(limit, '%') || cm_decimal_parse(limit, '%', &nano) || !nano ||
	    nano > 100 * NANO) {
		cm_complain(
			"--limit '%s' is not understood, want a share of the device such as 50%%",
			limit);
		return CM_EXIT_USAGE;
	}
	(void)snprintf(text, bytes, "per_process_memory_fraction:%.11g",
		       (double)nano / (double)(100 * NANO));
	return 0;
}

static void say(void *arg, const char *text)
{
	(void)arg;
	(void)fprintf(stderr, "%s\n", text);
}

/* strict:on makes a configuration with mistakes an error before anything is started. */
static int check_conf(const char *conf)
{
	struct cm_config config;

	cm_config_init(&config);
	cm_config_parse(&config, CM_CONF_VARIABLE, conf, NULL, NULL);
	if (!config.strict || !config.errors)
		return 0;
	cm_config_init(&config);
	cm_config_parse(&config, CM_CONF_VARIABLE, conf, say, NULL);
	cm_complain("the configuration has mistakes and strict is on: nothing was started");
	return CM_EXIT_RUN;
}

static void print_command(const char *preload, const char *conf, char **args)
{
	(void)fputs(PRELOAD_VARIABLE "=", stdout);
	cm_quote_shell(stdout, preload);
	if (*conf) {
		(void)fputs(" " CM_CONF_VARIABLE "=", stdout);
		cm_quote_shell(stdout, conf);
	}
	for (; *args; args++) {
		(void)putchar(' ');
		cm_quote_shell(stdout, *args);
	}
	(void)putchar('\n');
}

static int start(const char *preload, const char *conf, char **args)
{
	if (setenv(PRELOAD_VARIABLE, preload, 1) || (*conf && setenv(CM_CONF_VARIABLE, conf, 1))) {
		cm_complain("no memory left");
		return CM_EXIT_RUN;
	}
	(void)execvp(args[0], args);
	cm_complain("%s: %s", args[0], errno == ENOENT ? "command not found" : strerror(errno));
	return errno == ENOENT ? CM_EXIT_NOT_FOUND : CM_EXIT_NOT_EXECUTABLE;
}

int cm_verb_run(const struct cm_options *options)
{
	char library[PATH_MAX], limit[64], *added = NULL, *conf = NULL, *preload = NULL;
	int exit;

	exit = spell_limit(options->limit, limit, sizeof(limit));
	if (!exit)
		exit = find_library(options->library, library);
	if (exit)
		return exit;
	/* Of two settings of one option the later wins: what is given here stands last. */
	added = join(options->conf, ",", limit);
	conf = added ? join(getenv(CM_CONF_VARIABLE), ",", added) : NULL;
	preload = join(library, ":", getenv(PRELOAD_VARIABLE));
	if (!conf || !preload) {
		cm_complain("no memory left");
		exit = CM_EXIT_RUN;
	} else {
		exit = check_conf(conf);
	}
	if (!exit && options->dry_run)
		print_command(preload, conf, options->args);
	else if (!exit)
		exit = start(preload, conf, options->args);
	free(added);
	free(conf);
	free(preload);
	return exit;
}
