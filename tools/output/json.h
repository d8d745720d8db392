/* SPDX-License-Identifier: MIT */
/*
 * Writing nested data as it comes, as JSON or as a pickle of Python: nothing is kept but the depth.
 * Text of any bytes becomes valid UTF-8 in JSON. A key is given inside an object and is NULL inside
 * an array and at the top.
 */
#ifndef CM_TOOLS_OUTPUT_JSON_H
#define CM_TOOLS_OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/output/pickle.h"

#define CM_JSON_DEPTH 16

struct cm_json {
	FILE *out;
	struct cm_pickle *pickle; /* NULL: JSON goes to `out` */
	unsigned depth;
	struct {
		char close;
		uint64_t items; /* in a pickle those of the current batch */
	} level[CM_JSON_DEPTH];
};

void cm_json_init(struct cm_json *json, FILE *out);
/* The same calls then write a pickle, which the caller opens before and closes afterwards. */
void cm_json_init_pickle(struct cm_json *json, struct cm_pickle *pickle);
void cm_json_object(struct cm_json *json, const char *key);
void cm_json_array(struct cm_json *json, const char *key);
/* Closes the innermost object or array; the outermost one ends its line. */
void cm_json_end(struct cm_json *json);

void cm_json_text(struct cm_json *json, const char *key, const char *text);
void cm_json_number(struct cm_json *json, const char *key, int64_t number);
/* In a pickle at most INT64_MAX. */
void cm_json_unsigned(struct cm_json *json, const char *key, uint64_t number);
/* In JSON three decimals at most; null if the number is not finite. */
void cm_json_real(struct cm_json *json, const char *key, double number);
void cm_json_bool(struct cm_json *json, const char *key, bool value);
void cm_json_null(struct cm_json *json, const char *key);
/* An array of two; a tuple in a pickle. */
void cm_json_pair(struct cm_json *json, const char *key, int64_t first, int64_t second);

/*
 * Refers to a container that was written before under this id. False: it was not, or this is JSON,
 * which has no references; the container that is opened next then gets this id.
 */
bool cm_json_refer(struct cm_json *json, const char *key, enum cm_pickle_kind kind, uint32_t id);

#endif
