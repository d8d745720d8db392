/* SPDX-License-Identifier: MIT */
/*
 * Text inside other languages: written so that it is read back as one value.
 */
#ifndef CM_TOOLS_OUTPUT_QUOTE_H
#define CM_TOOLS_OUTPUT_QUOTE_H

#include <stdio.h>

/* A field of comma-separated values (RFC 4180). */
void cm_quote_csv(FILE *out, const char *text);

/* The value of key="value", quotes included; what could act inside a shell's quotes is \xHH. */
void cm_quote_pair(FILE *out, const char *text);

/* A word between blanks: blanks and backslashes are \xHH, an empty text is "-". */
void cm_quote_raw(FILE *out, const char *text);

/* A word of a shell's command line. */
void cm_quote_shell(FILE *out, const char *text);

#endif
