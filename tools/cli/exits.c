/* SPDX-License-Identifier: MIT */
#include "tools/cli/exits.h"

#include <stdarg.h>
#include <stdio.h>

static const char *verb_name;

void cm_complain_as(const char *verb)
{
	verb_name = verb;
}

void cm_complain(const char *format, ...)
{
	va_list args;

	/* What was printed so far stands before the complaint. */
	(void)fflush(stdout);
	(void)fprintf(stderr, "cudamemstat: ");
	if (verb_name)
		(void)fprintf(stderr, "%s: ", verb_name);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
}

void cm_advise(const char *format, ...)
{
	va_list args;

	(void)fprintf(stderr, "  ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
}

int cm_exit_join(int so_far, int code)
{
	return so_far < 0 || so_far == code ? code : CM_EXIT_PARTIAL;
}
