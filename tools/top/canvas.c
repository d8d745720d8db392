/* SPDX-License-Identifier: MIT */
#include "tools/top/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"

#define TEXT_BYTES 1024 /* of what is printed in one call */

int cm_canvas_resize(struct cm_canvas *canvas, int height, int width)
{
	struct cm_cell *cell;

	height = height < 0 ? 0 : height > CM_CANVAS_SIDE_MAX ? CM_CANVAS_SIDE_MAX : height;
	width = width < 0 ? 0 : width > CM_CANVAS_SIDE_MAX ? CM_CANVAS_SIDE_MAX : width;
	cell = calloc((size_t)height * (size_t)width + 1, sizeof(*cell));
	if (!cell)
		return -ENOMEM;
	free(canvas->cell);
	canvas->cell = cell;
	canvas->height = height;
	canvas->width = width;
	cm_canvas_clear(canvas);
	return 0;
}

void cm_canvas_clear(struct cm_canvas *canvas)
{
	const size_t cells = (size_t)canvas->height * (size_t)canvas->width;
	size_t i;

	for (i = 0; i < cells; i++)
		canvas->cell[i] = (struct cm_cell){.ch = L' '};
	canvas->zones = 0;
}

void cm_canvas_fini(struct cm_canvas *canvas)
{
	free(canvas->cell);
	canvas->cell = NULL;
	canvas->height = canvas->width = 0;
}

static bool is_inside(const struct cm_canvas *canvas, int y, int x)
{
	return y >= 0 && y < canvas->height && x >= 0 && x < canvas->width;
}

/* Half a wide character is none. */
static void break_wide(struct cm_canvas *canvas, int y, int x)
{
	struct cm_cell *cell = cm_canvas_cell(canvas, y, x);

	if (!cell->ch && x)
		cell[-1].ch = L' ';
	if (cell->ch && x + 1 < canvas->width && !cell[1].ch)
		cell[1].ch = L' ';
}

void cm_canvas_set(struct cm_canvas *canvas, int y, int x, struct cm_pen pen, wchar_t ch)
{
	if (!is_inside(canvas, y, x))
		return;
	break_wide(canvas, y, x);
	*cm_canvas_cell(canvas, y, x) = (struct cm_cell){ch, pen.color, pen.attr};
}

/* The character of so many bytes of UTF-8, which are valid. */
static wchar_t decode(const char *text, size_t bytes)
{
	const unsigned char *byte = (const unsigned char *)text;
	unsigned value = bytes == 1 ? byte[0] : byte[0] & (0x7fu >> bytes);
	size_t i;

	for (i = 1; i < bytes; i++)
		value = value << 6 | (byte[i] & 0x3f);
	return (wchar_t)value;
}

int cm_canvas_text(struct cm_canvas *canvas, int y, int x, int width, struct cm_pen pen,
		   const char *text)
{
	const int end = x + width < canvas->width ? x + width : canvas->width;
	size_t bytes;
	wchar_t ch;
	int cells;

	for (; *text && x < end; text += bytes) {
		bytes = cm_text_character(text);
		ch = bytes ? decode(text, bytes) : L'?';
		bytes = bytes ? bytes : 1;
		cells = ch < 0x20 || (canvas->ascii && ch > 0x7e) ? -1
			: ch < 0x7f                               ? 1
								  : wcwidth(ch);
		if (!cells)
			continue; /* combines with the character before it */
		if (cells < 0 || cells > 2) {
			ch = L'?';
			cells = 1;
		}
		if (x + cells > end)
			break;
		cm_canvas_set(canvas, y, x, pen, ch);
		if (cells == 2) {
			cm_canvas_set(canvas, y, x + 1, pen, L' ');
			if (is_inside(canvas, y, x) && is_inside(canvas, y, x + 1))
				cm_canvas_cell(canvas, y, x + 1)->ch = 0;
		}
		x += cells;
	}
	return x;
}

int cm_canvas_print(struct cm_canvas *canvas, int y, int x, int width, struct cm_pen pen,
		    const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return cm_canvas_text(canvas, y, x, width, pen, text);
}

void cm_canvas_fill(struct cm_canvas *canvas, int y, int x, int width, struct cm_pen pen,
		    wchar_t ch)
{
	int i;

	for (i = 0; i < width && x + i < canvas->width; i++)
		cm_canvas_set(canvas, y, x + i, pen, ch);
}

void cm_canvas_zone(struct cm_canvas *canvas, enum cm_zone_kind kind, int y, int x, int width,
		    size_t value)
{
	if (canvas->zones < CM_ZONES_MAX)
		canvas->zone[canvas->zones++] = (struct cm_zone){kind, y, x, width, value};
}

const struct cm_zone *cm_canvas_at(const struct cm_canvas *canvas, int y, int x)
{
	size_t i;

	/* What is drawn later lies above. */
	for (i = canvas->zones; i-- > 0;) {
		const struct cm_zone *zone = &canvas->zone[i];

		if (zone->y == y && x >= zone->x && x < zone->x + zone->width)
			return zone;
	}
	return NULL;
}
