/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/plain_name.h"

#include <stdbool.h>
#include <string.h>

struct name {
	const char *at; /* what is left of the symbol */
	char *to;
	size_t bytes;
	size_t used;
	const char *last; /* the last part, for constructors */
	size_t last_length;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static void put(struct name *name, const char *text, size_t length)
{
	const size_t room = name->bytes - 1 - name->used;
	const size_t fits = length < room ? length : room;

	memcpy(name->to + name->used, text, fits);
	name->used += fits;
}

static void put_part(struct name *name, const char *text, size_t length)
{
	if (name->used)
		put(name, "::", 2);
	put(name, text, length);
}

/* Reads "5solve"; false: there are not so many characters. */
static bool read_length(const char **at, size_t *ret_length)
{
	size_t length = 0;

	for (; is_digit(**at); (*at)++)
		if (length < 4096)
			length = 10 * length + (size_t)(**at - '0');
	*ret_length = length;
	return length && strlen(*at) >= length;
}

static bool skip_to(const char **at, char end)
{
	const char *found = strchr(*at, end);

	if (found)
		*at = found + 1;
	return found;
}

/* Skips one letter of a template's arguments, or what belongs to it. False: it cannot be read. */
static bool skip_argument(const char **at, int *depth)
{
	const char c = *(*at)++;
	size_t length;

	switch (c) {
	case '\0':
		return false;
	case 'I':
	case 'N':
	case 'X':
	case 'J':
	case 'F':
		++*depth;
		return true;
	case 'E':
		--*depth;
		return true;
	case 'S':
		if (**at && strchr("tabsiod", **at)) {
			++*at;
			return true;
		}
		return skip_to(at, '_');
	case 'T':
	case 'A':
		return skip_to(at, '_');
	case 'L': /* a constant of a built-in type */
		return is_lower(**at) && skip_to(at, 'E');
	case 'D':
		return *(*at)++ != '\0' && !strchr("tT", (*at)[-1]);
	default:
		if (!is_digit(c))
			return true;
		--*at;
		if (!read_length(at, &length))
			return false;
		*at += length;
		return true;
	}
}

static bool skip_template(const char **at)
{
	int depth = 0;

	do {
		if (!skip_argument(at, &depth))
			return false;
	} while (depth > 0);
	return true;
}

static bool put_identifier(struct name *name)
{
	size_t length;

	if (!read_length(&name->at, &length))
		return false;
	if (!strncmp(name->at, "_GLOBAL__N", 10))
		put_part(name, "(anonymous namespace)", 21);
	else
		put_part(name, name->at, length);
	name->last = name->at;
	name->last_length = length;
	name->at += length;
	return true;
}

static bool put_constructor(struct name *name)
{
	if (!name->last || !is_digit(name->at[1]))
		return false;
	put(name, "::~", name->at[0] == 'D' ? 3 : 2);
	put(name, name->last, name->last_length);
	name->at += 2;
	return true;
}

/* "St" is std; the others are its best known classes, and stand for a name of two parts. */
static bool put_standard(struct name *name)
{
	static const struct {
		char letter;
		const char *text;
	} rows[] = {{'t', "std"},          {'a', "std::allocator"}, {'b', "std::basic_string"},
		    {'s', "std::string"},  {'i', "std::istream"},   {'o', "std::ostream"},
		    {'d', "std::iostream"}};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (name->at[1] != rows[i].letter)
			continue;
		put_part(name, rows[i].text, strlen(rows[i].text));
		name->last = strrchr(rows[i].text, ':') ? strrchr(rows[i].text, ':') + 1
							: rows[i].text;
		name->last_length = strlen(name->last);
		name->at += 2;
		return true;
	}
	return false;
}

/* Reads the next part of a name; false: it ends here. */
static bool put_next(struct name *name)
{
	const char c = *name->at;

	if (is_digit(c))
		return put_identifier(name);
	if (c == 'S')
		return put_standard(name);
	if (c == 'C' || c == 'D')
		return put_constructor(name);
	if (c == 'I')
		return skip_template(&name->at);
	if (c == 'L' && is_digit(name->at[1])) { /* static */
		name->at++;
		return put_identifier(name);
	}
	if (is_lower(c) && name->used)
		put_part(name, "operator", 8);
	return false;
}

/* Of a name that is not nested: one part, behind "St" or before template arguments at most. */
static void put_simple(struct name *name)
{
	if (!strncmp(name->at, "St", 2))
		(void)put_next(name);
	(void)put_next(name);
}

static void put_mangled(struct name *name)
{
	while (*name->at == 'Z')
		name->at++;
	if (*name->at == 'N') {
		name->at++;
		name->at += strspn(name->at, "rVKRO");
		while (put_next(name))
			continue;
	} else {
		put_simple(name);
	}
}

void cm_plain_name(char *to, size_t bytes, const char *symbol)
{
	struct name name = {.at = symbol + 2, .to = to, .bytes = bytes};

	if (!strncmp(symbol, "_Z", 2))
		put_mangled(&name);
	if (!name.used)
		put(&name, symbol, strcspn(symbol, "."));
	to[name.used] = '\0';
}
