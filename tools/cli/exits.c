/* SPDX-License-Identifier: MIT */
#include "tools/cli/exits.h"

#include <stdarg.h>
#include <stdio.h>

#include "stats/nearest.h"
#include "tools/cli/width.h"

#define BEGIN_BYTES 1024 /* the program, the verb, and a word that was typed, which may be cut */

static const char *verb_name;
static FILE *other_stream; /* NULL: stderr */

static FILE *complaints(void)
{
	return other_stream ? other_stream : stderr;
}

void cm_complain_to(FILE *stream)
{
	other_stream = stream;
}

void cm_complain_as(const char *verb)
{
	verb_name = verb;
}

/* What was printed so far appears before the complaint. `begin`: of its text. */
__attribute__((format(printf, 2, 0))) static void put_complaint(const char *begin,
								const char *format, va_list args)
{
	char before[BEGIN_BYTES + 64]; /* and the names of tool and verb */

	if (other_stream) {
		(void)fputs(begin, other_stream);
		(void)vfprintf(other_stream, format, args);
		(void)putc('\n', other_stream);
		return;
	}
	(void)fflush(stdout);
	(void)snprintf(before, sizeof(before), "cudamemstat: %s%s%s", verb_name ? verb_name : "",
		       verb_name ? ": " : "", begin);
	cm_line_behind(stderr, "    ", before, format, args);
}

void cm_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_complaint("", format, args);
	va_end(args);
}

void cm_advise(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	cm_line_behind(complaints(), "    ", "  ", format, args);
	va_end(args);
}

void cm_complain_unknown(const char *what, const char *prefix, const char *typed,
			 const char *const *names, size_t count, const char *format, ...)
{
	const char *nearest = cm_nearest_name(typed, names, count);
	char begin[BEGIN_BYTES];
	va_list args;

	(void)snprintf(begin, sizeof(begin), "unknown %s '%s%s'%s%s%s%s", what, prefix, typed,
		       nearest ? " (did you mean " : "", nearest ? prefix : "",
		       nearest ? nearest : "", nearest ? "?)" : "");
	va_start(args, format);
	put_complaint(begin, format, args);
	va_end(args);
}

int cm_exit_join(int so_far, int code)
{
	return so_far < 0 || so_far == code ? code : CM_EXIT_PARTIAL;
}
