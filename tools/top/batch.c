/* SPDX-License-Identifier: MIT */
#include "tools/top/batch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/top/replay.h"
#include "tools/top/view.h"

/* The SGR number of a colour's foreground, for terminals with eight colours; 0: the default. */
static int sgr_of(enum cm_color color)
{
	static const int codes[CM_COLOR_COUNT] = {
		[CM_COLOR_ALLOCATED] = 32,  [CM_COLOR_PENDING] = 33, [CM_COLOR_FRAGMENTED] = 35,
		[CM_COLOR_RELEASABLE] = 36, [CM_COLOR_OTHERS] = 34,  [CM_COLOR_ALARM] = 31,
	};

	return codes[color];
}

static void write_pen(FILE *file, const struct cm_cell *cell)
{
	(void)fputs("\033[0", file);
	if (cell->attr & CM_ATTR_BOLD)
		(void)fputs(";1", file);
	if (cell->attr & CM_ATTR_DIM)
		(void)fputs(";2", file);
	if (cell->attr & CM_ATTR_REVERSE)
		(void)fputs(";7", file);
	if (cell->color)
		(void)fprintf(file, ";%d", sgr_of((enum cm_color)cell->color));
	(void)fputc('m', file);
}

/* A character in the encoding of the locale. */
static void write_character(FILE *file, wchar_t ch)
{
	char bytes[MB_LEN_MAX];
	mbstate_t state = {0};
	const size_t n = wcrtomb(bytes, ch, &state);

	if (n == (size_t)-1)
		(void)fputc('?', file);
	else
		(void)fwrite(bytes, 1, n, file);
}

static bool is_blank(const struct cm_cell *cell, bool color)
{
	return cell->ch == L' ' && (!color || !(cell->attr & CM_ATTR_REVERSE));
}

static void write_line(const struct cm_canvas *canvas, int y, FILE *file, bool color)
{
	struct cm_cell last = {.ch = L' '};
	int x, end = canvas->width;

	while (end && is_blank(cm_canvas_cell(canvas, y, end - 1), color))
		end--;
	for (x = 0; x < end; x++) {
		const struct cm_cell *cell = cm_canvas_cell(canvas, y, x);

		if (!cell->ch)
			continue;
		if (color && (cell->color != last.color || cell->attr != last.attr))
			write_pen(file, cell);
		last = *cell;
		write_character(file, cell->ch);
	}
	if (color && (last.color || last.attr))
		(void)fputs("\033[0m", file);
	(void)fputc('\n', file);
}

void cm_canvas_write(const struct cm_canvas *canvas, FILE *file, bool color)
{
	int y;

	for (y = 0; y < canvas->height; y++)
		write_line(canvas, y, file, color);
}

int cm_top_batch(struct cm_top *top, struct cm_watch_source *source, int height, int width,
		 uint64_t frames, bool color)
{
	uint64_t next_ns = cm_monotonic_ns(), frame;
	struct cm_watch_sample sample;
	struct cm_canvas *canvas = calloc(1, sizeof(*canvas));
	int err;

	err = canvas ? cm_canvas_resize(canvas, height, width) : -ENOMEM;
	if (!err && top->replay.on)
		err = cm_top_lead_in(top, source);
	for (frame = 0; !err && (!frames || frame < frames) && !ferror(stdout); frame++) {
		if (frame) {
			(void)fputc('\n', stdout);
			next_ns += top->interval_ns;
			cm_watch_sleep_until(source->due_ns ? source->due_ns : next_ns);
		}
		canvas->ascii = top->graph == CM_TOP_GRAPH_ASCII;
		source->want_survey = cm_top_wants_survey(top);
		err = source->take(source, &sample);
		if (!err)
			err = cm_top_update(top, &sample);
		if (err)
			break;
		cm_view_draw(top, canvas);
		cm_canvas_write(canvas, stdout, color);
		(void)fflush(stdout);
	}
	if (canvas)
		cm_canvas_fini(canvas);
	free(canvas);
	if (!err || err == -ENODATA)
		return CM_EXIT_OK;
	return cm_watch_fail(source, err);
}
