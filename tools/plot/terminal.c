/* SPDX-License-Identifier: MIT */
#include "tools/plot/terminal.h"

#include <langinfo.h>
#include <string.h>

#include "tools/output/size.h"
#include "tools/plot/curve.h"
#include "tools/snapshot/lines.h"

#define LINES 12
#define MOST  26 /* letters */

/* Which bands are in the picture; the last one stands for none. */
struct drawn {
	bool band[MOST + 2];
};

/* The columns before the picture: two blanks, a size, a blank, the axis. */
static int left_columns(void)
{
	return 2 + cm_size_width() + 2;
}

/* The band at so many bytes in a column; the number of bands: none. */
static size_t band_at(const struct cm_curve *curve, size_t column, double bytes)
{
	double sum = 0;
	size_t b;

	for (b = 0; b < curve->bands; b++) {
		sum += (double)curve->band[b].bytes[column];
		if (bytes < sum)
			return b;
	}
	return b;
}

static char letter_of(const struct cm_curve *curve, size_t band)
{
	return band == curve->bands ? ' ' : band + 1 == curve->bands ? '.' : (char)('a' + band);
}

/* A line shows what is at its middle. */
static void draw_line(const struct cm_curve *curve, size_t line, bool ascii, struct drawn *drawn,
		      FILE *file)
{
	const double step = (double)curve->most / LINES;
	char text[512];
	size_t c, b, end = 0;

	for (c = 0; c < curve->columns && c < sizeof(text) - 1; c++) {
		b = band_at(curve, c, step * ((double)line + 0.5));
		drawn->band[b] = true;
		text[c] = letter_of(curve, b);
		end = text[c] == ' ' ? end : c + 1;
	}
	text[end] = '\0';
	/* The first line is named after its upper edge. */
	(void)fprintf(file, "  %*s %s%s\n", cm_size_width(),
		      line == LINES - 1       ? cm_size_format((int64_t)curve->most).text
		      : line == LINES / 2 - 1 ? cm_size_format((int64_t)(curve->most / 2)).text
					      : "",
		      ascii ? "|" : "\xe2\x94\x82", text);
}

static void draw_axis(const struct cm_curve *curve, bool ascii, FILE *file)
{
	const double seconds = (double)curve->span_ns / 1e9;
	char end[32];
	size_t c;

	(void)fprintf(file, "  %*s %s", cm_size_width(), "0 B", ascii ? "+" : "\xe2\x94\x94");
	for (c = 0; c < curve->columns; c++)
		(void)fputs(ascii ? "-" : "\xe2\x94\x80", file);
	(void)snprintf(end, sizeof(end),
		       seconds < 1e-3 ? "%.0f us"
		       : seconds < 1  ? "%.1f ms"
				      : "%.1f s",
		       seconds < 1e-3 ? seconds * 1e6
		       : seconds < 1  ? seconds * 1e3
				      : seconds);
	(void)fprintf(file, "\n%*s0%*s\n", left_columns(), "", (int)curve->columns - 1, end);
}

/* What was not there at the peak has a letter only where the picture has it. */
static void draw_legend(const struct cm_curve *curve, const struct drawn *drawn, FILE *file)
{
	size_t b;
	int used;

	for (b = 0; b < curve->bands; b++) {
		if (!curve->band[b].peak_bytes && !drawn->band[b])
			continue;
		used = fprintf(file, "  %c %*s  ", letter_of(curve, b), cm_size_width() - 1,
			       cm_size_format((int64_t)curve->band[b].peak_bytes).text);
		cm_line_print(file, used > 0 ? (size_t)used : 0, curve->band[b].name, false);
	}
}

int cm_terminal_draw(const struct cm_history *history, size_t width, size_t rows, bool ascii,
		     FILE *file)
{
	const size_t left = (size_t)left_columns();
	struct cm_curve *curve;
	int err;

	if (!history->events)
		return 0;
	ascii = ascii || strcmp(nl_langinfo(CODESET), "UTF-8");
	width = width < left + 16 ? 16 : width > 400 ? 400 : width - left;
	err = cm_curve_create(history, width, rows < MOST ? rows : MOST, &curve);
	if (err)
		return err;
	if (curve->most) {
		struct drawn drawn = {0};
		size_t line;

		(void)fprintf(file, "\n  allocated over time, and at the peak\n");
		for (line = LINES; line-- > 0;)
			draw_line(curve, line, ascii, &drawn, file);
		draw_axis(curve, ascii, file);
		draw_legend(curve, &drawn, file);
	}
	cm_curve_destroy(curve);
	return 0;
}
