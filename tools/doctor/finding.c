/* SPDX-License-Identifier: MIT */
#include "tools/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

void cm_see(struct cm_finding *finding, enum cm_verdict verdict, const char *format, ...)
{
	va_list args;

	finding->verdict = verdict;
	va_start(args, format);
	(void)vsnprintf(finding->seen, sizeof(finding->seen), format, args);
	va_end(args);
}

void cm_remedy(struct cm_finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(finding->remedy, sizeof(finding->remedy), format, args);
	va_end(args);
}
