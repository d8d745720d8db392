/* SPDX-License-Identifier: MIT */
#include "tools/output/quote.h"

#include <string.h>

void cm_quote_csv(FILE *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		(void)fputs(text, out);
		return;
	}
	(void)fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			(void)fputc('"', out);
		(void)fputc(*text, out);
	}
	(void)fputc('"', out);
}

/* Writes the characters of `escaped`, and control characters, as \xHH. */
static void put_escaped(FILE *out, const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (strchr(escaped, *text) || (unsigned char)*text < ' ')
			(void)fprintf(out, "\\x%02x", (unsigned char)*text);
		else
			(void)fputc(*text, out);
	}
}

void cm_quote_pair(FILE *out, const char *text)
{
	(void)fputc('"', out);
	put_escaped(out, text, "\"\\`$");
	(void)fputc('"', out);
}

void cm_quote_raw(FILE *out, const char *text)
{
	put_escaped(out, *text ? text : "-", "\\ ");
}

void cm_quote_shell(FILE *out, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "@%+=:,./_-";

	if (*text && !text[strspn(text, plain)]) {
		(void)fputs(text, out);
		return;
	}
	(void)fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			(void)fputs("'\\''", out);
		else
			(void)fputc(*text, out);
	}
	(void)fputc('\'', out);
}
