/* SPDX-License-Identifier: MIT */
/*
 * How wide text is, and lines that keep within the terminal. Widths are in columns of a terminal:
 * a wide character has two, a combining one none. Texts are in the encoding of the locale.
 */
#ifndef CM_TOOLS_CLI_WIDTH_H
#define CM_TOOLS_CLI_WIDTH_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The columns of the terminal that the file is; 80 if it is none. At least 40. */
size_t cm_line_width(FILE *file);
/* Is the file a terminal? Then *ret_width is its width. */
bool cm_is_terminal(FILE *file, size_t *ret_width);

size_t cm_text_width(const char *text);
/* The text on lines of at most `width` columns, broken as by cm_line. The caller frees it; NULL:
 * not enough memory. */
char *cm_text_wrap(const char *text, size_t width);

/*
 * Prints a text and ends the line. On a terminal, what does not fit continues on further lines,
 * which begin with `next`; they are broken at blanks, and inside a word only if it has no line to
 * itself. To files and pipes it is one line, for grep(1).
 */
void cm_line(FILE *file, const char *next, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, of `before` and the text. */
void cm_line_behind(FILE *file, const char *next, const char *before, const char *format,
		    va_list args) __attribute__((format(printf, 4, 0)));
/* The same as cm_line, but broken at column 80 if the file is no terminal. */
void cm_paragraph(FILE *file, const char *next, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same as cm_line, of a line about a process on stderr's behalf: "==PID== TEXT", and the lines
 * that continue it indented by `indent` columns behind the pid. */
void cm_line_of(FILE *file, long pid, int indent, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Prints a row of help to stdout: `left`, and what it means beside or below it. */
void cm_help_row(const char *left, const char *help);

#endif
