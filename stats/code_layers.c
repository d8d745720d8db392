/* SPDX-License-Identifier: MIT */
#include "stats/code_layers.h"

#include <stdbool.h>
#include <string.h>

enum what { OBJECT, NAMESPACE, FUNCTION, SOURCE };

static const struct row {
	enum what what;
	enum cm_layer layer;
	const char *pattern;
	const char *name;
} rows[] = {
#define CM_LAYER_OBJECT(KIND, start)       {OBJECT, CM_LAYER_##KIND, start, start},
#define CM_LAYER_NAMESPACE(KIND, space)    {NAMESPACE, CM_LAYER_##KIND, space, space},
#define CM_LAYER_FUNCTION(KIND, start)     {FUNCTION, CM_LAYER_##KIND, start, start},
#define CM_LAYER_SOURCE(KIND, part, named) {SOURCE, CM_LAYER_##KIND, part, named},
#include "stats/code_layers.def"
};

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* Behind the qualifiers of a mangled name: "_ZNK3cub..." gives "3cub...". NULL: not mangled. */
static const char *mangled_path(const char *function)
{
	if (!starts_with(function, "_Z"))
		return NULL;
	function += 2;
	if (*function == 'N')
		function += 1 + strspn(function + 1, "rVKRO");
	return function;
}

/* Of ASCII: whatever the program's locale, a mangled name has no others. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Is the first part of a mangled path this namespace? */
static bool is_mangled_in(const char *path, const char *space)
{
	const size_t length = strlen(space);
	size_t digits = 0;

	/* The ABI abbreviates std. */
	if (path[0] == 'S' && strchr("tabsiod", path[1]) && path[1])
		return !strcmp(space, "std");
	for (; is_digit(*path); path++)
		digits = digits < 1000 ? digits * 10 + (size_t)(*path - '0') : digits;
	return digits == length && !strncmp(path, space, length);
}

static bool is_in(const char *function, const char *space)
{
	const size_t length = strlen(space);
	const char *path = mangled_path(function);

	if (path)
		return is_mangled_in(path, space);
	return !strncmp(function, space, length) && !strncmp(function + length, "::", 2);
}

/* Python's own files, and its extension modules; packages lie in folders below. */
static bool is_standard_library(const char *path)
{
	return strstr(path, "/lib/python3") && !strstr(path, "-packages/");
}

enum cm_layer cm_layer_native(const char *object, const char *function, const char **ret_name)
{
	char plain[CM_LAYER_NAME_BYTES] = "";
	const char *file = strrchr(object, '/');
	bool found = false;
	size_t i;

	file = file ? file + 1 : object;
	cm_layer_short_name(plain, sizeof(plain), function);
	if (ret_name)
		*ret_name = NULL;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && !found; i++) {
		found = (rows[i].what == OBJECT && starts_with(file, rows[i].pattern)) ||
			(rows[i].what == SOURCE && strstr(object, rows[i].pattern)) ||
			(rows[i].what == NAMESPACE && is_in(plain, rows[i].pattern)) ||
			(rows[i].what == FUNCTION && starts_with(plain, rows[i].pattern));
		if (found && ret_name)
			*ret_name = rows[i].name;
		if (found)
			return rows[i].layer;
	}
	if (!is_standard_library(object))
		return CM_LAYER_PROGRAM;
	if (ret_name)
		*ret_name = "python";
	return CM_LAYER_PLUMBING;
}

enum cm_layer cm_layer_python(const char *file, const char **ret_name)
{
	size_t i;

	if (ret_name)
		*ret_name = NULL;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].what != SOURCE || !strstr(file, rows[i].pattern))
			continue;
		if (ret_name)
			*ret_name = rows[i].name;
		return rows[i].layer;
	}
	if (is_standard_library(file)) {
		if (ret_name)
			*ret_name = "python";
		return CM_LAYER_PLUMBING;
	}
	return CM_LAYER_PROGRAM;
}

/* A name that is being copied without what is left out. */
struct copy {
	const char *from;
	char *to;
	size_t bytes;
	size_t used;
};

static void copy_characters(struct copy *copy, size_t count)
{
	for (; count && *copy->from; count--, copy->from++)
		if (copy->used + 1 < copy->bytes)
			copy->to[copy->used++] = *copy->from;
}

/* Skips from a bracket to behind its partner. False: there is none. */
static bool skip_brackets(struct copy *copy)
{
	const char *at = copy->from;
	int depth = 0;

	do {
		if (strchr("<([{", *at))
			depth++;
		else if (strchr(">)]}", *at) && !(*at == '>' && at[-1] == '-'))
			depth--;
		at++;
	} while (depth && *at);
	if (!depth)
		copy->from = at;
	return !depth;
}

/* Does an operator's name begin here, and not only a word like it? */
static bool is_operator(const struct copy *copy)
{
	const char before = copy->used ? copy->to[copy->used - 1] : ':';
	char next;

	if (before != ':' || strncmp(copy->from, "operator", 8) != 0)
		return false;
	next = copy->from[8];
	return next && next != '_' && !is_digit(next) && !is_letter(next);
}

/* "operator()", "operator<<", "operator new[]", "operator bool" */
static void put_operator(struct copy *copy)
{
	copy_characters(copy, 8);
	if (!strncmp(copy->from, "()", 2) || !strncmp(copy->from, "[]", 2))
		copy_characters(copy, 2);
	else if (*copy->from == ' ')
		copy_characters(copy, strcspn(copy->from, "(<"));
	else
		copy_characters(copy, strspn(copy->from, "<>=!+-*/%^&|~,"));
}

/* At a bracket that opens parameters. Do they end the name? */
static bool skip_parameters(struct copy *copy, bool *ret_end)
{
	if (!skip_brackets(copy))
		return false;
	/* "f(int)::local" goes on; "f(int) const" ends; behind "decltype(x)" stands the name. */
	*ret_end = !*copy->from || starts_with(copy->from, " const") ||
		   starts_with(copy->from, " volatile") || starts_with(copy->from, " &") ||
		   starts_with(copy->from, " [") || starts_with(copy->from, " noexcept") ||
		   starts_with(copy->from, ".");
	return true;
}

void cm_layer_short_name(char *to, size_t bytes, const char *function)
{
	struct copy copy = {function, to, bytes, 0};
	bool ok = true, end = false;

	while (*copy.from && ok && !end) {
		if (is_operator(&copy)) {
			put_operator(&copy);
		} else if (starts_with(copy.from, "(anonymous namespace)")) {
			copy_characters(&copy, strlen("(anonymous namespace)"));
		} else if (*copy.from == '(') {
			ok = skip_parameters(&copy, &end);
		} else if (*copy.from == '[' ||
			   (*copy.from == '<' && copy.used && to[copy.used - 1] != ':')) {
			ok = skip_brackets(&copy);
		} else if (*copy.from == ' ' && copy.from[1] == '[') {
			end = true;
		} else if (*copy.from == ' ' && copy.from[1] == '<') {
			copy.from++; /* operator< <int> */
		} else if (*copy.from == ' ') {
			copy.used = 0; /* that was the return type */
			copy.from++;
		} else {
			copy_characters(&copy, 1);
		}
	}
	if (!ok || !copy.used) {
		copy = (struct copy){function, to, bytes, 0};
		copy_characters(&copy, strlen(function));
	}
	to[copy.used] = '\0';
}
