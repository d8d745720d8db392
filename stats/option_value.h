/* SPDX-License-Identifier: MIT */
/*
 * One value of one option: text to value, value to text, and whether it is in range. The part of
 * the configuration that knows types; config.c knows keys, variables and messages. Pure,
 * thread-safe, independent of the locale.
 */
#ifndef CM_STATS_OPTION_VALUE_H
#define CM_STATS_OPTION_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/config.h"

enum cm_option_type {
	CM_TYPE_BOOL,
	CM_TYPE_CHOICE,
	CM_TYPE_NUMBER,
	CM_TYPE_MIB,
	CM_TYPE_SEGMENT_MIB,
	CM_TYPE_FRACTION,
	CM_TYPE_OPEN_FRACTION,
	CM_TYPE_DIVISIONS,
	CM_TYPE_PATH,
};

/* A row of options.def. */
struct cm_option_info {
	const char *name;
	enum cm_option_type type;
	size_t offset; /* of the field in struct cm_config */
	size_t bytes;
	const char *fallback;
	const char *words;
	double min;
	double max;
	const char *help;
};

/* Starts with the field of the option, whichever it is. */
union cm_option_value {
	bool flag;
	uint32_t choice;
	uint64_t number;
	double fraction;
	uint32_t divisions[CM_DIVISION_SLOTS];
	char path[CM_PATH_BYTES];
};

/*
 * Parses a value and checks its range; `segment_mib` is the large_segment_size_mb in effect.
 * -EINVAL: no value of this type; -ERANGE: out of range. *ret_value is then untouched.
 */
int cm_option_value_parse(const struct cm_option_info *info, const char *text, uint64_t segment_mib,
			  union cm_option_value *ret_value);

/* What would have been a value, for "want ...". */
void cm_option_value_format_want(const struct cm_option_info *info, uint64_t segment_mib,
				 char *text, size_t bytes);

/* The value as it would be typed, cut to size. */
void cm_option_value_format(const struct cm_option_info *info, const union cm_option_value *value,
			    char *text, size_t bytes);

/* The place of `text` among words such as "a|b|c", from 0. -EINVAL: it is none of them. */
int cm_choice_parse(const char *words, const char *text, uint32_t *ret_choice);

#endif
