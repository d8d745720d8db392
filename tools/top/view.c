/* SPDX-License-Identifier: MIT */
#include "tools/top/view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stats/tick.h"
#include "tools/top/keys.h"

#define DETAIL_HEIGHT 60 /* lines of a screen that has room for cards and details */

static const struct cm_pen plain = {CM_COLOR_PLAIN, 0};
static const struct cm_pen bold = {CM_COLOR_PLAIN, CM_ATTR_BOLD};
static const struct cm_pen alarm_pen = {CM_COLOR_ALARM, CM_ATTR_BOLD};

static void format_clock(uint64_t time_ns, bool date, char *text, size_t bytes)
{
	const time_t seconds = (time_t)(time_ns / CM_NS_PER_S);
	struct tm tm = {0};

	(void)localtime_r(&seconds, &tm);
	(void)strftime(text, bytes, date ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &tm);
}

/* A remark in the title: whole or not at all. Returns the column after it. */
static int draw_remark(struct cm_canvas *canvas, int x, const char *text)
{
	if (x + (int)strlen(text) > canvas->width)
		return x;
	return cm_canvas_text(canvas, 0, x, canvas->width - x, plain, text);
}

static int draw_counts(const struct cm_top *top, struct cm_canvas *canvas, int x)
{
	const int width = canvas->width;
	char unreadable[48];

	x = cm_canvas_print(canvas, 0, x, width - x, plain, "  %zu running", top->running);
	if (top->stopped)
		x = cm_canvas_print(canvas, 0, x, width - x, plain, ", %zu stopped", top->stopped);
	if (top->crashed)
		x = cm_canvas_print(canvas, 0, cm_canvas_text(canvas, 0, x, 2, plain, ", "),
				    width - x, alarm_pen, "%zu crashed", top->crashed);
	(void)snprintf(unreadable, sizeof(unreadable), ", %zu not readable", top->unreadable);
	return top->unreadable ? draw_remark(canvas, x, unreadable) : x;
}

/* Where a recording is, and how fast it is played. */
static int draw_replay(const struct cm_top *top, struct cm_canvas *canvas, int x)
{
	const struct cm_top_replay *replay = &top->replay;
	const uint64_t length = replay->last_ns - replay->first_ns;
	const int width = canvas->width;

	x = cm_canvas_print(
		canvas, 0, x, width - x, bold, "  recording %d%%",
		length && top->time_ns >= replay->first_ns
			? (int)(100 * (double)(top->time_ns - replay->first_ns) / (double)length)
			: 100);
	if (replay->ended)
		return cm_canvas_text(canvas, 0, x, width - x, alarm_pen, " END");
	return cm_canvas_print(canvas, 0, x, width - x, plain, " x%g", replay->speed);
}

static void draw_title(const struct cm_top *top, struct cm_canvas *canvas)
{
	const int width = canvas->width;
	char clock[32], interval[32];
	int x;

	(void)snprintf(interval, sizeof(interval), "  every %g s", (double)top->interval_ns / 1e9);
	format_clock(top->time_ns, top->replay.on, clock, sizeof(clock));
	x = cm_canvas_text(canvas, 0, 0, width / 2, bold, top->host);
	x = cm_canvas_print(canvas, 0, x, width - x, plain, "  %s", clock);
	if (top->paused)
		x = cm_canvas_text(canvas, 0, x, width - x, alarm_pen, "  PAUSED");
	if (top->replay.on)
		x = draw_replay(top, canvas, x);
	x = draw_counts(top, canvas, x);
	if (!top->replay.on)
		x = draw_remark(canvas, x, interval);
	if (top->follow)
		x = draw_remark(canvas, x, "  following");
	if (top->readonly)
		x = draw_remark(canvas, x, "  read-only");
	if (top->filter[0])
		(void)cm_canvas_print(canvas, 0, x, width - x, bold, "  filter: %s", top->filter);
}

enum {
	IN_TABLE = 1,
	IN_DETAIL = 2,
	IN_OTHERS = 4, /* the help and the menus */
	ACTION = 8,
	REPLAY = 16, /* in a recording alone */
};

/* The keys that the last line offers. A click on one of them acts as the key. */
static const struct {
	const char *name;
	const char *does;
	int key;
	unsigned where;
} offers[] = {
	{"Esc", "back", CM_KEY_ESCAPE, IN_DETAIL | IN_OTHERS},
	{"?", "help", '?', IN_TABLE | IN_DETAIL},
	{"q", "quit", 'q', IN_TABLE},
	{"Enter", "details", CM_KEY_ENTER, IN_TABLE},
	{"[", "back", '[', IN_TABLE | IN_DETAIL | REPLAY},
	{"]", "forward", ']', IN_TABLE | IN_DETAIL | REPLAY},
	{"-", "slower", '-', IN_TABLE | REPLAY},
	{"+", "faster", '+', IN_TABLE | REPLAY},
	{"s", "sort", 's', IN_TABLE},
	{"f", "filter", 'f', IN_TABLE},
	{"/", "search", '/', IN_TABLE},
	{"Space", "pause", ' ', IN_TABLE},
	{"t", "group", 't', IN_TABLE},
	{"o", "columns", 'o', IN_TABLE},
	{"F", "follow", 'F', IN_TABLE},
	{"T", "trim", 'T', IN_TABLE | IN_DETAIL | ACTION},
	{"R", "reset", 'R', IN_TABLE | IN_DETAIL | ACTION},
	{"H", "history", 'H', IN_TABLE | IN_DETAIL | ACTION},
	{"S", "snapshot", 'S', IN_TABLE | IN_DETAIL | ACTION},
	{"X", "end", 'X', IN_TABLE | IN_DETAIL | ACTION},
};

static bool is_offered(const struct cm_top *top, unsigned where)
{
	const unsigned here = top->mode == CM_TOP_TABLE    ? IN_TABLE
			      : top->mode == CM_TOP_DETAIL ? IN_DETAIL
							   : IN_OTHERS;

	return where & here && !(where & ACTION && (top->readonly || top->replay.on)) &&
	       !(where & REPLAY && !top->replay.on);
}

static void draw_keys(const struct cm_top *top, struct cm_canvas *canvas, int y)
{
	size_t i;
	int x = 0, end;

	for (i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		end = x + (int)strlen(offers[i].name) + 1 + (int)strlen(offers[i].does);
		if (!is_offered(top, offers[i].where))
			continue;
		if (end > canvas->width)
			break;
		cm_canvas_zone(canvas, CM_ZONE_KEY, y, x, end - x, (size_t)offers[i].key);
		x = cm_canvas_text(canvas, y, x, end - x, bold, offers[i].name);
		(void)cm_canvas_text(canvas, y, x + 1, end - x, plain, offers[i].does);
		x = end + 2;
	}
}

static void draw_typing(const struct cm_top *top, struct cm_canvas *canvas, int y,
			const char *label)
{
	int x = cm_canvas_text(canvas, y, 0, canvas->width, bold, label);
	const size_t length = strlen(top->typed);
	const size_t room = canvas->width - x > 2 ? (size_t)(canvas->width - x - 1) : 1;
	size_t from = length > room ? length - room : 0;

	while ((top->typed[from] & 0xc0) == 0x80) /* not in the middle of a character */
		from++;
	x = cm_canvas_text(canvas, y, x, canvas->width - x - 1, plain, top->typed + from);
	cm_canvas_set(canvas, y, x, (struct cm_pen){CM_COLOR_PLAIN, CM_ATTR_REVERSE}, L' ');
}

static void draw_last_line(const struct cm_top *top, struct cm_canvas *canvas)
{
	const int y = canvas->height - 1;
	char question[CM_TOP_TEXT_BYTES];

	cm_canvas_fill(canvas, y, 0, canvas->width, plain, L' ');
	if (top->mode == CM_TOP_TYPE_FILTER)
		draw_typing(top, canvas, y, "filter, as --where: ");
	else if (top->mode == CM_TOP_TYPE_SEARCH)
		draw_typing(top, canvas, y, "search: ");
	else if (top->mode == CM_TOP_TYPE_FILE)
		draw_typing(top, canvas, y, "save snapshot as: ");
	else if (top->mode == CM_TOP_CONFIRM) {
		cm_top_question(top, question, sizeof(question));
		(void)cm_canvas_text(canvas, y, 0, canvas->width, alarm_pen, question);
	} else if (top->message[0])
		(void)cm_canvas_text(canvas, y, 0, canvas->width, top->alarming ? alarm_pen : plain,
				     top->message);
	else
		draw_keys(top, canvas, y);
}

/* What is wrong with a filter stands above the line in which it is typed. */
static void draw_mistake(const struct cm_top *top, struct cm_canvas *canvas)
{
	const int y = canvas->height - 2;

	if (top->mode != CM_TOP_TYPE_FILTER || !top->message[0])
		return;
	cm_canvas_fill(canvas, y, 0, canvas->width, plain, L' ');
	(void)cm_canvas_text(canvas, y, 0, canvas->width, alarm_pen, top->message);
}

/* The table, and what covers its lower part. */
static void draw_body(struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	int detail;

	if (top->mode == CM_TOP_HELP) {
		cm_view_help(top, canvas, y, height);
	} else if (top->mode == CM_TOP_MENU_SORT || top->mode == CM_TOP_MENU_COLUMNS) {
		cm_view_menu(top, canvas, y, height);
	} else if (top->mode == CM_TOP_DETAIL) {
		/* If there is room, a few lines of the table stay visible. */
		detail = height < 20 ? height : height - height / 4;
		if (height > detail)
			cm_view_table(top, canvas, y, height - detail);
		cm_view_detail(top, canvas, y + height - detail, detail);
	} else {
		cm_view_table(top, canvas, y, height);
	}
}

void cm_view_draw(struct cm_top *top, struct cm_canvas *canvas)
{
	const int end = canvas->height - !top->batch;
	int gpus;

	cm_canvas_clear(canvas);
	if (canvas->width < CM_VIEW_MIN_WIDTH || canvas->height < CM_VIEW_MIN_HEIGHT) {
		(void)cm_canvas_print(canvas, 0, 0, canvas->width, plain, "too small: want %dx%d",
				      CM_VIEW_MIN_WIDTH, CM_VIEW_MIN_HEIGHT);
		return;
	}
	if (!top->columns_chosen) {
		top->columns = cm_top_columns_usual(canvas->width, top->column);
		cm_top_add_columns(top);
	}
	draw_title(top, canvas);
	/* The details of a process need the room more than the cards do. */
	gpus = top->mode == CM_TOP_DETAIL && canvas->height < DETAIL_HEIGHT
		       ? 0
		       : cm_view_gpus_height(top, canvas->height);
	cm_view_gpus(top, canvas, 1, gpus);
	draw_body(top, canvas, 1 + gpus, end - 1 - gpus);
	draw_mistake(top, canvas);
	if (!top->batch)
		draw_last_line(top, canvas);
}
