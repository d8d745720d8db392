/* SPDX-License-Identifier: MIT */
#include "tools/cli/width.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#define WIDTH_DEFAULT 80
#define WIDTH_LEAST   40
#define HELP_COLUMNS  24 /* of what a row of help is about */

bool cm_is_terminal(FILE *file, size_t *ret_width)
{
	struct winsize size;

	if (ioctl(fileno(file), TIOCGWINSZ, &size) || !size.ws_col)
		return false;
	*ret_width = size.ws_col < WIDTH_LEAST ? WIDTH_LEAST : size.ws_col;
	return true;
}

size_t cm_line_width(FILE *file)
{
	size_t width = WIDTH_DEFAULT;

	(void)cm_is_terminal(file, &width);
	return width;
}

/* The bytes of the first character of a text that has one; what is no character is one byte with
 * one column. */
static size_t step(const char *text, size_t *ret_columns)
{
	mbstate_t state = {0};
	wchar_t character;
	const size_t bytes = mbrtowc(&character, text, strlen(text), &state);
	const bool is_one = bytes && bytes != (size_t)-1 && bytes != (size_t)-2;
	const int columns = is_one ? wcwidth(character) : 1;

	*ret_columns = columns < 0 ? 1 : (size_t)columns;
	return is_one ? bytes : 1;
}

size_t cm_text_width(const char *text)
{
	size_t width = 0, columns;

	for (; *text; width += columns)
		text += step(text, &columns);
	return width;
}

/* The bytes of the text that a line of `room` columns holds: all, or up to a blank, or as many as
 * fit. Blanks before the first word are no place for a break. */
static size_t fit(const char *text, size_t room)
{
	size_t at = 0, used = 0, blank = 0, bytes, columns;
	bool word = false;

	for (; text[at]; at += bytes, used += columns) {
		bytes = step(text + at, &columns);
		if (text[at] == ' ' && word && text[at - 1] != ' ')
			blank = at;
		word |= text[at] != ' ';
		if (used + columns > room)
			return blank ? blank : at ? at : bytes;
	}
	return at;
}

char *cm_text_wrap(const char *text, size_t width)
{
	char *wrapped = malloc(2 * strlen(text) + 1), *to = wrapped; /* a break a character */
	size_t length;

	if (!wrapped)
		return NULL;
	while (*text) {
		length = fit(text, width);
		memcpy(to, text, length);
		to += length;
		text += length;
		text += strspn(text, " ");
		*to++ = '\n';
	}
	*(to > wrapped ? to - 1 : to) = '\0';
	return wrapped;
}

static void put_wrapped(FILE *file, size_t width, const char *next, const char *text)
{
	const size_t indent = cm_text_width(next);
	size_t room = width, length;

	for (;;) {
		length = fit(text, room);
		(void)fwrite(text, 1, length, file);
		(void)putc('\n', file);
		text += length;
		text += strspn(text, " ");
		if (!*text)
			return;
		(void)fputs(next, file);
		room = width > indent ? width - indent : 1;
	}
}

__attribute__((format(printf, 5, 0))) static void put_formatted(FILE *file, size_t width,
								const char *next,
								const char *before,
								const char *format, va_list args)
{
	char *text, *line;

	/* If they fail, what they leave in the pointer is undefined. */
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	if (!text || asprintf(&line, "%s%s", before, text) < 0)
		line = NULL;
	if (line)
		put_wrapped(file, width, next, line);
	else
		(void)fprintf(file, "%s%s\n", before, text ? text : format);
	free(text);
	free(line);
}

static size_t breaking_width(FILE *file)
{
	size_t width = SIZE_MAX;

	(void)cm_is_terminal(file, &width);
	return width;
}

void cm_line(FILE *file, const char *next, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_formatted(file, breaking_width(file), next, "", format, args);
	va_end(args);
}

void cm_line_behind(FILE *file, const char *next, const char *before, const char *format,
		    va_list args)
{
	put_formatted(file, breaking_width(file), next, before, format, args);
}

void cm_line_of(FILE *file, long pid, int indent, const char *format, ...)
{
	char before[32], next[64];
	va_list args;

	(void)snprintf(before, sizeof(before), "==%ld== ", pid);
	(void)snprintf(next, sizeof(next), "%s%*s", before, indent, "");
	va_start(args, format);
	put_formatted(file, breaking_width(file), next, before, format, args);
	va_end(args);
}

void cm_paragraph(FILE *file, const char *next, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_formatted(file, cm_line_width(file), next, "", format, args);
	va_end(args);
}

void cm_help_row(const char *left, const char *help)
{
	char next[64];

	(void)snprintf(next, sizeof(next), "%*s", HELP_COLUMNS + 3, "");
	if (cm_text_width(left) <= HELP_COLUMNS) {
		cm_paragraph(stdout, next, "  %-*s %s", HELP_COLUMNS, left, help);
		return;
	}
	cm_paragraph(stdout, "    ", "  %s", left);
	cm_paragraph(stdout, next, "%s%s", next, help);
}
