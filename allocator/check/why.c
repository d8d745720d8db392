/* SPDX-License-Identifier: MIT */
#include "allocator/check/why.h"

#include <stdarg.h>
#include <stdio.h>

bool cm_why_set(const struct cm_why *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why->text, why->bytes, format, args);
	va_end(args);
	return false;
}
