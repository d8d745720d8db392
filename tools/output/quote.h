/* SPDX-License-Identifier: MIT */
/*
 * Quotes text for other languages, such that it is read back as one value.
 */
#ifndef CM_TOOLS_OUTPUT_QUOTE_H
#define CM_TOOLS_OUTPUT_QUOTE_H

#include <stdio.h>

/* A field of comma-separated values (RFC 4180). */
void cm_quote_csv(FILE *out, const char *text);

/* The value of key="value" with its quotes. Characters that a shell would interpret inside
 * quotes are written as \xHH. */
void cm_quote_pair(FILE *out, const char *text);

/* A word between blanks: blanks and backslashes are written as \xHH, an empty text as "-". */
void cm_quote_raw(FILE *out, const char *text);

/* One word of a shell command line. */
void cm_quote_shell(FILE *out, const char *text);

#endif
