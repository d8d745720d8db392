/* SPDX-License-Identifier: MIT */
#include "stats/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_tail(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The table of well-formed sequences of the Unicode standard, section 3.9. */
size_t cm_text_character(const char *text)
{
	const unsigned char c = (unsigned char)text[0], d = (unsigned char)text[1];

	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4 || !is_tail(text[1]))
		return 0;
	if (c < 0xe0)
		return 2;
	if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || !is_tail(text[2]))
		return 0;
	if (c < 0xf0)
		return 3;
	if ((c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f) || !is_tail(text[3]))
		return 0;
	return 4;
}

/* U+0000 to U+001F, U+007F, and U+0080 to U+009F, which some terminals obey too. */
static bool is_control(const char *text, size_t bytes)
{
	const unsigned char c = (unsigned char)text[0];

	return (bytes == 1 && (c < 0x20 || c == 0x7f)) ||
	       (bytes == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

/*
 * Characters that change the order of those after them on the screen: what is read would then be
 * another text than what is copied from there. U+061C, U+200E and U+200F, U+202A to U+202E, U+2066
 * to U+2069; and U+2028 and U+2029, which end a line.
 */
static bool is_reordering(const char *text, size_t bytes)
{
	const unsigned char c = (unsigned char)text[0], d = (unsigned char)text[1];
	unsigned char last;

	if (bytes == 2)
		return c == 0xd8 && d == 0x9c;
	if (bytes != 3 || c != 0xe2)
		return false;
	last = (unsigned char)text[2];
	return (d == 0x80 && (last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae))) ||
	       (d == 0x81 && last >= 0xa6 && last <= 0xa9);
}

size_t cm_text_clean(char *to, size_t bytes, const char *text)
{
	const char *from = text;
	size_t at = 0, n;

	while (*from) {
		n = cm_text_character(from);
		if (at + (n ? n : 1) >= bytes)
			break;
		if (!n || is_control(from, n) || is_reordering(from, n)) {
			to[at++] = '?';
		} else {
			memcpy(to + at, from, n);
			at += n;
		}
		from += n ? n : 1;
	}
	to[at] = '\0';
	return (size_t)(from - text);
}

size_t cm_text_append(char *text, size_t bytes, size_t used, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text + used, bytes - used, format, args);
	va_end(args);
	used += n > 0 ? (size_t)n : 0;
	return used < bytes ? used : bytes - 1;
}
