/* SPDX-License-Identifier: MIT */
/*
 * Writing JSON as it comes: nothing is kept but the depth. Text of any bytes comes out as valid
 * UTF-8. A key is given inside an object and is NULL inside an array and at the top.
 */
#ifndef CM_TOOLS_OUTPUT_JSON_H
#define CM_TOOLS_OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CM_JSON_DEPTH 16

struct cm_json {
	FILE *out;
	unsigned depth;
	struct {
		char close;
		bool filled;
	} level[CM_JSON_DEPTH];
};

void cm_json_init(struct cm_json *json, FILE *out);
void cm_json_object(struct cm_json *json, const char *key);
void cm_json_array(struct cm_json *json, const char *key);
/* Closes the innermost object or array; the outermost one ends its line. */
void cm_json_end(struct cm_json *json);

void cm_json_text(struct cm_json *json, const char *key, const char *text);
void cm_json_number(struct cm_json *json, const char *key, int64_t number);
void cm_json_unsigned(struct cm_json *json, const char *key, uint64_t number);
/* Three decimals at most; what is no number is null. */
void cm_json_real(struct cm_json *json, const char *key, double number);
void cm_json_bool(struct cm_json *json, const char *key, bool value);
void cm_json_null(struct cm_json *json, const char *key);

#endif
