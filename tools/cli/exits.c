/* SPDX-License-Identifier: MIT */
#include "tools/cli/exits.h"

#include <stdarg.h>
#include <stdio.h>

#include "stats/nearest.h"

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

/* What was printed so far appears before the complaint. */
static void begin_complaint(void)
{
	if (other_stream)
		return;
	(void)fflush(stdout);
	(void)fprintf(stderr, "cudamemstat: ");
	if (verb_name)
		(void)fprintf(stderr, "%s: ", verb_name);
}

/* Ends the line with the text of the calling function's `format`. */
#define END_COMPLAINT(format)                               \
	do {                                                \
		va_list args;                               \
		va_start(args, format);                     \
		(void)vfprintf(complaints(), format, args); \
		va_end(args);                               \
		(void)fputc('\n', complaints());            \
	} while (0)

void cm_complain(const char *format, ...)
{
	begin_complaint();
	END_COMPLAINT(format);
}

void cm_advise(const char *format, ...)
{
	(void)fprintf(complaints(), "  ");
	END_COMPLAINT(format);
}

void cm_complain_unknown(const char *what, const char *prefix, const char *typed,
			 const char *const *names, size_t count, const char *format, ...)
{
	const char *nearest = cm_nearest_name(typed, names, count);

	begin_complaint();
	(void)fprintf(complaints(), "unknown %s '%s%s'", what, prefix, typed);
	if (nearest)
		(void)fprintf(complaints(), " (did you mean %s%s?)", prefix, nearest);
	END_COMPLAINT(format);
}

int cm_exit_join(int so_far, int code)
{
	return so_far < 0 || so_far == code ? code : CM_EXIT_PARTIAL;
}
