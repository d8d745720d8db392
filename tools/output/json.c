/* SPDX-License-Identifier: MIT */
#include "tools/output/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "stats/text.h"

void cm_json_init(struct cm_json *json, FILE *out)
{
	*json = (struct cm_json){.out = out};
}

static void put_text(FILE *out, const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
	size_t n;

	(void)fputc('"', out);
	for (; *text; text += n) {
		n = cm_text_character(text);
		if (!n) {
			(void)fputs(replacement, out);
			n = 1;
		} else if (*text == '"' || *text == '\\') {
			(void)fprintf(out, "\\%c", *text);
		} else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
			(void)fprintf(out, "\\u%04x", (unsigned char)*text);
		} else {
			(void)fwrite(text, 1, n, out);
		}
	}
	(void)fputc('"', out);
}

/* What stands before a value: the comma and the key. */
static void put_key(struct cm_json *json, const char *key)
{
	if (json->depth) {
		if (json->level[json->depth - 1].filled)
			(void)fputc(',', json->out);
		json->level[json->depth - 1].filled = true;
	}
	if (key) {
		put_text(json->out, key);
		(void)fputc(':', json->out);
	}
}

static void open_level(struct cm_json *json, const char *key, const char *brackets)
{
	assert(json->depth < CM_JSON_DEPTH);
	put_key(json, key);
	(void)fputc(brackets[0], json->out);
	json->level[json->depth].close = brackets[1];
	json->level[json->depth].filled = false;
	json->depth++;
}

void cm_json_object(struct cm_json *json, const char *key)
{
	open_level(json, key, "{}");
}

void cm_json_array(struct cm_json *json, const char *key)
{
	open_level(json, key, "[]");
}

void cm_json_end(struct cm_json *json)
{
	assert(json->depth > 0);
	json->depth--;
	(void)fputc(json->level[json->depth].close, json->out);
	if (!json->depth)
		(void)fputc('\n', json->out);
}

void cm_json_text(struct cm_json *json, const char *key, const char *text)
{
	put_key(json, key);
	put_text(json->out, text);
}

void cm_json_number(struct cm_json *json, const char *key, int64_t number)
{
	put_key(json, key);
	(void)fprintf(json->out, "%lld", (long long)number);
}

void cm_json_unsigned(struct cm_json *json, const char *key, uint64_t number)
{
	put_key(json, key);
	(void)fprintf(json->out, "%llu", (unsigned long long)number);
}

void cm_json_real(struct cm_json *json, const char *key, double number)
{
	char text[64];
	size_t end;

	if (!isfinite(number) || fabs(number) > 1e15) {
		cm_json_null(json, key);
		return;
	}
	put_key(json, key);
	end = (size_t)snprintf(text, sizeof(text), "%.3f", number);
	while (text[end - 1] == '0')
		text[--end] = '\0';
	if (text[end - 1] == '.')
		text[--end] = '\0';
	(void)fputs(text, json->out);
}

void cm_json_bool(struct cm_json *json, const char *key, bool value)
{
	put_key(json, key);
	(void)fputs(value ? "true" : "false", json->out);
}

void cm_json_null(struct cm_json *json, const char *key)
{
	put_key(json, key);
	(void)fputs("null", json->out);
}
