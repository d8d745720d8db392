/* SPDX-License-Identifier: MIT */
#include "tools/output/quote.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Would a spreadsheet take the cell for a formula? Then an apostrophe before it makes it a text.
 * The last four are the wide forms that some of them accept. A number is none.
 */
static bool is_formula(const char *text)
{
	static const char *const signs[] = {"=",      "+",      "-",      "@",     "\t",
					    "\uff1d", "\uff0b", "\uff0d", "\uff20"};
	char *end = NULL;
	size_t i;

	text += strspn(text, " ");
	if (text[strspn(text, "+-.0123456789")] == '\0') {
		(void)strtod(text, &end);
		if (end != text && !*end)
			return false;
	}
	for (i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (!strncmp(text, signs[i], strlen(signs[i])) && text[strlen(signs[i])])
			return true;
	return false;
}

/* Semicolons and tabs separate cells too, for a spreadsheet of some countries. */
void cm_quote_csv(FILE *out, const char *text)
{
	const bool formula = is_formula(text);

	if (!formula && !text[strcspn(text, ",;\t\"\r\n")]) {
		(void)fputs(text, out);
		return;
	}
	(void)fputs(formula ? "\"'" : "\"", out);
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
