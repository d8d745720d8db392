/* SPDX-License-Identifier: MIT */
#include "tools/output/json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"

void cm_json_init(struct cm_json *json, FILE *out)
{
	*json = (struct cm_json){.out = out};
}

void cm_json_init_pickle(struct cm_json *json, struct cm_pickle *pickle)
{
	*json = (struct cm_json){.pickle = pickle};
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

/* Before each value: the comma, or the begin of a batch, and the key. */
static void begin_value(struct cm_json *json, const char *key)
{
	uint64_t *items = json->depth ? &json->level[json->depth - 1].items : NULL;

	if (json->pickle) {
		if (items && !*items)
			cm_pickle_begin_batch(json->pickle);
		if (key)
			cm_pickle_key(json->pickle, key);
	} else {
		if (items && *items)
			(void)fputc(',', json->out);
		if (key) {
			put_text(json->out, key);
			(void)fputc(':', json->out);
		}
	}
	if (items)
		++*items;
}

static void end_batch(struct cm_json *json)
{
	if (json->level[json->depth - 1].items)
		cm_pickle_end_batch(json->pickle, json->level[json->depth - 1].close == '}');
	json->level[json->depth - 1].items = 0;
}

/* After each value. */
static void end_value(struct cm_json *json)
{
	if (json->pickle && json->depth && json->level[json->depth - 1].items == CM_PICKLE_BATCH)
		end_batch(json);
}

static void open_level(struct cm_json *json, const char *key, const char *brackets)
{
	if (json->depth == CM_JSON_DEPTH)
		abort(); /* no structure that is written here has so many levels */
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_container(json->pickle, brackets[0] == '{');
	else
		(void)fputc(brackets[0], json->out);
	json->level[json->depth].close = brackets[1];
	json->level[json->depth].items = 0;
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
	if (json->pickle)
		end_batch(json);
	else
		(void)fputc(json->level[json->depth - 1].close, json->out);
	json->depth--;
	if (!json->pickle && !json->depth)
		(void)fputc('\n', json->out);
	end_value(json);
}

void cm_json_text(struct cm_json *json, const char *key, const char *text)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_text(json->pickle, text);
	else
		put_text(json->out, text);
	end_value(json);
}

void cm_json_number(struct cm_json *json, const char *key, int64_t number)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_number(json->pickle, number);
	else
		(void)fprintf(json->out, "%lld", (long long)number);
	end_value(json);
}

void cm_json_unsigned(struct cm_json *json, const char *key, uint64_t number)
{
	if (json->pickle || number <= INT64_MAX) {
		cm_json_number(json, key, number < INT64_MAX ? (int64_t)number : INT64_MAX);
		return;
	}
	begin_value(json, key);
	(void)fprintf(json->out, "%llu", (unsigned long long)number);
}

static void put_real(FILE *out, double number)
{
	char text[64];
	size_t length;

	if (!isfinite(number) || fabs(number) > 1e15) {
		(void)fputs("null", out);
		return;
	}
	length = (size_t)snprintf(text, sizeof(text), "%.3f", number);
	while (text[length - 1] == '0')
		text[--length] = '\0';
	if (text[length - 1] == '.')
		text[--length] = '\0';
	(void)fputs(text, out);
}

void cm_json_real(struct cm_json *json, const char *key, double number)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_real(json->pickle, number);
	else
		put_real(json->out, number);
	end_value(json);
}

void cm_json_bool(struct cm_json *json, const char *key, bool value)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_bool(json->pickle, value);
	else
		(void)fputs(value ? "true" : "false", json->out);
	end_value(json);
}

void cm_json_null(struct cm_json *json, const char *key)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_none(json->pickle);
	else
		(void)fputs("null", json->out);
	end_value(json);
}

void cm_json_pair(struct cm_json *json, const char *key, int64_t first, int64_t second)
{
	begin_value(json, key);
	if (json->pickle)
		cm_pickle_pair(json->pickle, first, second);
	else
		(void)fprintf(json->out, "[%lld,%lld]", (long long)first, (long long)second);
	end_value(json);
}

bool cm_json_refer(struct cm_json *json, const char *key, enum cm_pickle_kind kind, uint32_t id)
{
	if (!json->pickle)
		return false;
	if (!cm_pickle_is_known(json->pickle, kind, id)) {
		cm_pickle_expect(json->pickle, kind, id);
		return false;
	}
	begin_value(json, key);
	cm_pickle_refer(json->pickle, kind, id);
	end_value(json);
	return true;
}
