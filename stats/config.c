/* SPDX-License-Identifier: MIT */
#include "stats/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stats/nearest.h"
#include "stats/option_value.h"
#include "stats/text.h"

#define PAIR_BYTES    256 /* the longest "key:value", with the zero byte */
#define QUOTE_BYTES   80  /* of a text, in a message */
#define MESSAGE_BYTES 512

static const struct cm_option_info infos[CM_OPTION_COUNT] = {
#define CM_OPTION(name, TYPE, fallback, words, min, max, help) \
	{#name,                                                \
	 CM_TYPE_##TYPE,                                       \
	 offsetof(struct cm_config, name),                     \
	 sizeof(((struct cm_config *)0)->name),                \
	 fallback,                                             \
	 words,                                                \
	 min,                                                  \
	 max,                                                  \
	 help},
#include "stats/options.def"
};

static const char *const names[CM_OPTION_COUNT] = {
#define CM_OPTION(name, TYPE, fallback, words, min, max, help) #name,
#include "stats/options.def"
};

static const struct {
	const char *old;
	enum cm_option option;
} renamed[] = {
#define CM_OPTION_RENAMED(old, name) {#old, CM_OPTION_##name},
#include "stats/options.def"
};

static const char *const variables[] = {CM_CONF_VARIABLE};

/* One reading of one variable. */
struct reading {
	struct cm_config *config;
	const char *variable;
	cm_say_fn say;
	void *arg;
};

static void store_value(struct cm_config *config, enum cm_option option,
			const union cm_option_value *value)
{
	memcpy((char *)config + infos[option].offset, value, infos[option].bytes);
}

static void load_value(const struct cm_config *config, enum cm_option option,
		       union cm_option_value *ret_value)
{
	memset(ret_value, 0, sizeof(*ret_value));
	memcpy(ret_value, (const char *)config + infos[option].offset, infos[option].bytes);
}

void cm_config_init(struct cm_config *config)
{
	union cm_option_value value = {0};
	uint32_t i;

	memset(config, 0, sizeof(*config));
	for (i = 0; i < CM_OPTION_COUNT; i++)
		if (!cm_option_value_parse(&infos[i], infos[i].fallback, 0, &value))
			store_value(config, i, &value);
}

/* Text as typed, for a message: cut, and without what could confuse a terminal. */
static const char *quote(const char *typed, char *text)
{
	const size_t used = cm_text_clean(text, QUOTE_BYTES + 1, typed);

	if (typed[used])
		memcpy(text + strlen(text), "...", 4);
	return text;
}

__attribute__((format(printf, 2, 3))) static void tell(const struct reading *reading,
						       const char *format, ...)
{
	char text[MESSAGE_BYTES];
	va_list args;

	reading->config->errors++;
	if (!reading->say || !reading->config->warn)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	reading->say(reading->arg, text);
}

static void tell_unknown(const struct reading *reading, const char *key)
{
	const char *nearest = cm_nearest_name(key, names, CM_OPTION_COUNT);
	char quoted[QUOTE_BYTES + 4];

	tell(reading, "%s: unknown option \"%s\"%s%s%s; ignored", reading->variable,
	     quote(key, quoted), nearest ? " (did you mean \"" : "", nearest ? nearest : "",
	     nearest ? "\"?)" : "");
}

static void tell_bad_value(const struct reading *reading, enum cm_option option, const char *pair,
			   const char *wrong)
{
	char quoted[QUOTE_BYTES + 4], want[160];
	struct cm_option_row row;

	cm_option_value_format_want(&infos[option], reading->config->large_segment_size_mb, want,
				    sizeof(want));
	cm_config_row(reading->config, option, &row);
	tell(reading, "%s: \"%s\" %s, want %s; keeping %s", reading->variable, quote(pair, quoted),
	     wrong, want, row.value);
}

static enum cm_option find_option(const char *key, size_t length)
{
	uint32_t i;

	for (i = 0; i < CM_OPTION_COUNT; i++)
		if (strlen(names[i]) == length && !memcmp(names[i], key, length))
			return i;
	for (i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (strlen(renamed[i].old) == length && !memcmp(renamed[i].old, key, length))
			return renamed[i].option;
	return CM_OPTION_COUNT;
}

/* key=value is a slip that deserves an answer about the key. */
static size_t key_length(const char *pair)
{
	return strcspn(pair, ":=");
}

enum cm_option cm_config_find(const char *pair)
{
	return find_option(pair, key_length(pair));
}

bool cm_config_is_live(enum cm_option option)
{
	static const bool live[CM_OPTION_COUNT] = {
#define CM_OPTION_LIVE(name) [CM_OPTION_##name] = true,
#include "stats/options.def"
	};

	return option < CM_OPTION_COUNT && live[option];
}

/* Options that decide about the others and are read before them, wherever they stand. */
static bool is_early(enum cm_option option)
{
	return option == CM_OPTION_warn || option == CM_OPTION_large_segment_size_mb;
}

/* The option's name takes so many bytes of the pair. */
static void apply(const struct reading *reading, enum cm_option option, const char *pair,
		  size_t length)
{
	const char *value = pair + length;
	union cm_option_value parsed = {0};
	int err;

	if (*value != ':' || value[1] == '\0') {
		tell_bad_value(reading, option, pair, "has no :value");
		return;
	}
	err = cm_option_value_parse(&infos[option], value + 1,
				    reading->config->large_segment_size_mb, &parsed);
	if (err) {
		tell_bad_value(reading, option, pair,
			       err == -ERANGE ? "is out of range" : "is not understood");
		return;
	}
	store_value(reading->config, option, &parsed);
	reading->config->origin[option] = CM_ORIGIN_ENVIRONMENT;
}

/*
 * Copies the next pair without white space, which the grammar drops everywhere. The comma of a list
 * does not end a pair. Returns where the next one begins, NULL at the end; *ret_fits is false where
 * the pair was cut.
 */
static const char *next_pair(const char *text, char *pair, bool *ret_fits)
{
	size_t n = 0;
	bool in_list = false;

	*ret_fits = true;
	for (; *text && (*text != ',' || in_list); text++) {
		if (strchr(" \t\n\v\f\r", *text))
			continue;
		in_list = (in_list || *text == '[') && *text != ']';
		if (n + 1 < PAIR_BYTES)
			pair[n++] = *text;
		else
			*ret_fits = false;
	}
	pair[n] = '\0';
	return *text ? text + 1 : NULL;
}

static void read_pair(const struct reading *reading, char *pair, bool fits, bool early)
{
	size_t length = key_length(pair);
	enum cm_option option = find_option(pair, length);
	char quoted[QUOTE_BYTES + 4];

	if (!length && !pair[length])
		return; /* nothing between two commas */
	if (early != (option < CM_OPTION_COUNT && is_early(option)))
		return;
	if (!fits) {
		tell(reading, "%s: \"%s\" is too long, want at most %d characters; ignored",
		     reading->variable, quote(pair, quoted), PAIR_BYTES - 1);
	} else if (option < CM_OPTION_COUNT) {
		apply(reading, option, pair, length);
	} else {
		pair[length] = '\0';
		tell_unknown(reading, pair);
	}
}

void cm_config_parse(struct cm_config *config, const char *variable, const char *text,
		     cm_say_fn say, void *arg)
{
	const struct reading reading = {config, variable, say, arg};
	char pair[PAIR_BYTES] = "";
	const char *next;
	int round;
	bool fits;

	for (round = 0; round < 2; round++) {
		for (next = text; next;) {
			next = next_pair(next, pair, &fits);
			read_pair(&reading, pair, fits, round == 0);
		}
	}
	if (config->origin[CM_OPTION_max_non_split_rounding_mb] == CM_ORIGIN_DEFAULT)
		config->max_non_split_rounding_mb = config->large_segment_size_mb;
}

static void look_for_misspelt(struct cm_config *config, char *const *environment, cm_say_fn say,
			      void *arg)
{
	const struct reading reading = {config, CM_CONF_VARIABLE, say, arg};
	const size_t known = sizeof(variables) / sizeof(variables[0]);
	char name[QUOTE_BYTES + 4];
	const char *nearest;
	size_t length;

	for (; *environment; environment++) {
		if (strncmp(*environment, CM_CONF_PREFIX, strlen(CM_CONF_PREFIX)) != 0)
			continue;
		(void)quote(*environment, name);
		length = strcspn(name, "=");
		name[length] = '\0';
		if (!strcmp(name, CM_CONF_VARIABLE))
			continue;
		nearest = cm_nearest_name(name, variables, known);
		tell(&reading, "%s: unknown variable%s%s%s; ignored", name,
		     nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
	}
}

void cm_config_read(struct cm_config *config, cm_getenv_fn get, char *const *environment,
		    cm_say_fn say, void *arg)
{
	const char *text = get(CM_CONF_VARIABLE);

	cm_config_init(config);
	if (text)
		cm_config_parse(config, CM_CONF_VARIABLE, text, say, arg);
	if (environment)
		look_for_misspelt(config, environment, say, arg);
}

void cm_config_row(const struct cm_config *config, enum cm_option option,
		   struct cm_option_row *ret_row)
{
	static const char *const origins[] = {
		[CM_ORIGIN_DEFAULT] = "default",
		[CM_ORIGIN_ENVIRONMENT] = "environment",
		[CM_ORIGIN_LIBRARY] = "library",
		[CM_ORIGIN_TOOL] = "tool",
	};
	const struct cm_option_info *info = &infos[option];
	union cm_option_value value;

	memset(ret_row, 0, sizeof(*ret_row));
	load_value(config, option, &value);
	(void)snprintf(ret_row->name, sizeof(ret_row->name), "%s", info->name);
	cm_option_value_format(info, &value, ret_row->value, sizeof(ret_row->value));
	(void)snprintf(ret_row->fallback, sizeof(ret_row->fallback), "%s", info->fallback);
	(void)snprintf(ret_row->origin, sizeof(ret_row->origin), "%s",
		       origins[config->origin[option]]);
	(void)snprintf(ret_row->help, sizeof(ret_row->help), "%s", info->help);
}
