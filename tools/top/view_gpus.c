/* SPDX-License-Identifier: MIT */
/*
 * A block for each card: who uses its memory, now and in the past minutes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stats/counters.h"
#include "stats/units.h"
#include "tools/top/graph.h"
#include "tools/top/view.h"

#define BLOCK_MAX 4 /* lines of a card */

static const struct cm_pen plain = {CM_COLOR_PLAIN, 0};
static const struct cm_pen bold = {CM_COLOR_PLAIN, CM_ATTR_BOLD};

/* Lines of one card; all cards have the same number. */
static int block_height(size_t gpus, int height)
{
	const int each = gpus ? (height / 2 - 1) / (int)gpus : 0;

	return each > BLOCK_MAX ? BLOCK_MAX : each < 1 ? 1 : each;
}

int cm_view_gpus_height(const struct cm_top *top, int height)
{
	const int most = height / 2 - 1 > 1 ? height / 2 - 1 : 1;
	int lines;

	if (top->no_gpus || !top->gpus)
		return 0;
	lines = (int)top->gpus * block_height(top->gpus, height);
	return lines < most ? lines : most;
}

struct part {
	int64_t bytes;
	uint8_t color;
	wchar_t ch, ascii;
	const char *name, *brief;
};

#define PARTS 5

static void fill_parts(const struct cm_top_gpu *gpu, struct part parts[PARTS])
{
	parts[0] = (struct part){gpu->allocated, CM_COLOR_ALLOCATED, 0x2588,
				 L'#',           "allocated",        "alloc"};
	parts[1] = (struct part){gpu->pending, CM_COLOR_PENDING, 0x2593,
				 L'~',         "pending free",   "pending"};
	parts[2] = (struct part){gpu->fragmented, CM_COLOR_FRAGMENTED, 0x2592, L'%', "fragmented",
				 "frag"};
	parts[3] = (struct part){
		gpu->releasable, CM_COLOR_RELEASABLE, 0x2591, L':', "releasable", "rel"};
	parts[4] = (struct part){gpu->others, CM_COLOR_OTHERS, 0x259a, L'x', "others", "others"};
}

/* Each part ends at the rounded sum of the parts so far, so that rounding errors do not add up. */
static void draw_bar(struct cm_canvas *canvas, const struct cm_top_gpu *gpu, int y, int x,
		     int width)
{
	struct part parts[PARTS];
	double sum = 0;
	int i, at = 0, end;

	fill_parts(gpu, parts);
	cm_canvas_set(canvas, y, x, plain, L'[');
	cm_canvas_fill(canvas, y, x + 1, width - 2, (struct cm_pen){0, CM_ATTR_DIM},
		       canvas->ascii ? L'.' : 0xb7);
	for (i = 0; i < PARTS; i++) {
		sum += parts[i].bytes > 0 ? (double)parts[i].bytes : 0;
		if (sum > (double)gpu->total)
			sum = (double)gpu->total;
		end = gpu->total > 0 ? (int)(sum / (double)gpu->total * (width - 2) + 0.5) : 0;
		if (end > at)
			cm_canvas_fill(canvas, y, x + 1 + at, end - at,
				       (struct cm_pen){parts[i].color, 0},
				       canvas->ascii ? parts[i].ascii : parts[i].ch);
		at = end > at ? end : at;
	}
	cm_canvas_set(canvas, y, x + width - 1, plain, L']');
}

/* "GPU 0 NVIDIA H200": the number is the key that lists or hides its processes. */
static int draw_name(const struct cm_top *top, struct cm_canvas *canvas, size_t index, int y,
		     int width)
{
	const struct cm_top_gpu *gpu = &top->gpu[index];
	int x;

	cm_canvas_zone(canvas, CM_ZONE_GPU, y, 0, width, index);
	x = cm_canvas_print(canvas, y, 0, width, bold, "GPU %d", gpu->ordinal);
	if (width > 24)
		x = cm_canvas_print(canvas, y, x, width - x, plain, " %s%s", gpu->model,
				    gpu->simulated ? " (simulated)" : "");
	if (width > 60 && *gpu->pci)
		x = cm_canvas_print(canvas, y, x, width - x, plain, " %s", gpu->pci);
	if (gpu->hidden)
		x = cm_canvas_text(canvas, y, x, width - x, plain, " hidden");
	return x;
}

/* Draws all of it or nothing: the beginning of a number is another number. */
__attribute__((format(printf, 6, 7))) static int draw_whole(struct cm_canvas *canvas, int y, int x,
							    int end, struct cm_pen pen,
							    const char *format, ...)
{
	char text[64];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return (int)strlen(text) <= end - x ? cm_canvas_text(canvas, y, x, end - x, pen, text) : x;
}

static void draw_use(struct cm_canvas *canvas, const struct cm_top_gpu *gpu, int y, int x, int end)
{
	const int64_t used = cm_wrap_sub(gpu->total, gpu->free);
	const int64_t cached = cm_wrap_add(gpu->pending,
					   cm_wrap_add(gpu->fragmented, gpu->releasable));

	x = draw_whole(canvas, y, x, end, bold, " %s", cm_bytes_format(used).text);
	x = draw_whole(canvas, y, x, end, plain, " of %s", cm_bytes_format(gpu->total).text);
	if (cached > 0)
		x = draw_whole(canvas, y, x, end, plain, ", %s cached",
			       cm_bytes_format(cached).text);
	if (gpu->ooms)
		(void)draw_whole(canvas, y, x, end, (struct cm_pen){CM_COLOR_ALARM, CM_ATTR_BOLD},
				 "  OOM %lld", (long long)gpu->ooms);
}

/* Cells of the legend with its names in full, or brief ones. */
static int legend_width(const struct part parts[PARTS], bool brief)
{
	int i, width = 0;

	for (i = 0; i < PARTS; i++)
		if (parts[i].bytes)
			width += 5 + (int)strlen(brief ? parts[i].brief : parts[i].name) +
				 (int)strlen(cm_bytes_format(parts[i].bytes).text);
	return width - 2;
}

static void drop_smallest(struct part parts[PARTS])
{
	struct part *smallest = NULL;
	int i;

	for (i = 0; i < PARTS; i++)
		if (parts[i].bytes && (!smallest || parts[i].bytes < smallest->bytes))
			smallest = &parts[i];
	if (smallest)
		smallest->bytes = 0;
}

/* What does not fit are the parts of which least is to be seen. */
static void draw_legend(struct cm_canvas *canvas, const struct cm_top_gpu *gpu, int y, int width)
{
	struct part parts[PARTS];
	char text[64];
	bool brief;
	int i, x = 0;

	fill_parts(gpu, parts);
	brief = legend_width(parts, false) > width;
	while (brief && legend_width(parts, true) > width)
		drop_smallest(parts);
	for (i = 0; i < PARTS; i++) {
		if (!parts[i].bytes)
			continue;
		(void)snprintf(text, sizeof(text), " %s %s", brief ? parts[i].brief : parts[i].name,
			       cm_bytes_format(parts[i].bytes).text);
		cm_canvas_set(canvas, y, x, (struct cm_pen){parts[i].color, 0},
			      canvas->ascii ? parts[i].ascii : parts[i].ch);
		x = cm_canvas_text(canvas, y, x + 1, width, plain, text) + 2;
	}
}

static void draw_history(const struct cm_top *top, struct cm_canvas *canvas,
			 const struct cm_top_gpu *gpu, int y, int x, int height)
{
	const struct cm_graph graph = {.y = y,
				       .x = x,
				       .height = height,
				       .width = canvas->width - x,
				       .scale = gpu->total,
				       .held = top->held,
				       .kind = top->graph};

	if (graph.width > 0)
		cm_graph_draw(canvas, &graph, &gpu->history);
}

/* One line: name, bar, figures and history side by side. */
static void draw_line(const struct cm_top *top, struct cm_canvas *canvas, size_t index, int y)
{
	const struct cm_top_gpu *gpu = &top->gpu[index];
	const int bar = canvas->width / 3;
	int x;

	x = draw_name(top, canvas, index, y, gpu->hidden ? 13 : 7);
	x = x < 7 ? 7 : x + 1;
	draw_bar(canvas, gpu, y, x, bar);
	draw_use(canvas, gpu, y, x + bar, canvas->width);
	x += bar + 36;
	if (canvas->width - x >= 8)
		draw_history(top, canvas, gpu, y, x, 1);
}

static void draw_block(const struct cm_top *top, struct cm_canvas *canvas, size_t index, int y,
		       int height)
{
	const struct cm_top_gpu *gpu = &top->gpu[index];
	const int left = canvas->width * 3 / 5;
	int x;

	x = draw_name(top, canvas, index, y, left / 2);
	draw_use(canvas, gpu, y, x + 1, left);
	draw_bar(canvas, gpu, y + 1, 0, left);
	if (height > 2)
		draw_legend(canvas, gpu, y + 2, left);
	draw_history(top, canvas, gpu, y, left + 1, height > 3 ? height - 1 : height);
}

void cm_view_gpus(const struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	const int each = block_height(top->gpus, canvas->height);
	const int end = y + height;
	size_t i;

	for (i = 0; i < top->gpus && y + each <= end; i++, y += each) {
		if (y + 2 * each > end && i + 1 < top->gpus && each == 1) {
			(void)cm_canvas_print(canvas, y, 0, canvas->width, plain,
					      "and %zu more cards; d hides them all",
					      top->gpus - i);
			return;
		}
		if (each == 1)
			draw_line(top, canvas, i, y);
		else
			draw_block(top, canvas, i, y, each);
	}
}
