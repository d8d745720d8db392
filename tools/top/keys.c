/* SPDX-License-Identifier: MIT */
#include "tools/top/keys.h"

#include <string.h>

#include "tools/top/typing.h"

#define TEXT_END (SIZE_MAX / 2) /* the view goes back to the last lines */

/* The steps of + and -. */
static const uint64_t intervals[] = {100000000,  200000000,   500000000,   1000000000, 2000000000,
				     5000000000, 10000000000, 30000000000, 60000000000};
#define INTERVALS (sizeof(intervals) / sizeof(intervals[0]))

static void change_interval(struct cm_top *top, bool longer)
{
	size_t i;

	for (i = 0; i < INTERVALS; i++) {
		const uint64_t step = intervals[longer ? i : INTERVALS - 1 - i];

		if (longer ? step > top->interval_ns : step < top->interval_ns) {
			top->interval_ns = step;
			return;
		}
	}
}

/* The steps of + and - in a recording. */
static const double speeds[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
#define SPEEDS (sizeof(speeds) / sizeof(speeds[0]))

static void change_speed(struct cm_top *top, bool faster)
{
	size_t i;

	for (i = 0; i < SPEEDS; i++) {
		const double step = speeds[faster ? i : SPEEDS - 1 - i];

		if (faster ? step > top->replay.speed : step < top->replay.speed) {
			top->replay.speed = step;
			return;
		}
	}
}

/* Keys that move in a recording. False: another key. */
static bool seek_by_key(struct cm_top *top, int key)
{
	static const struct {
		int key;
		int seconds;
	} moves[] = {{'[', -60}, {']', 60}, {'{', -3600}, {'}', 3600}};
	size_t i;

	for (i = 0; top->replay.on && i < sizeof(moves) / sizeof(moves[0]); i++) {
		if (moves[i].key != key)
			continue;
		top->replay.seek_ns = moves[i].seconds * INT64_C(1000000000);
		return true;
	}
	return false;
}

static void move(struct cm_top *top, long by)
{
	const long line = (long)top->line + by;

	cm_top_select(top, line < 0 ? 0 : (size_t)line);
	if (top->mode == CM_TOP_DETAIL)
		top->wants_detail = true;
}

static size_t page_of(const struct cm_top *top)
{
	return top->page > 1 ? top->page - 1 : 1;
}

/* Keys that move in the table. False: another key. */
static bool move_by_key(struct cm_top *top, int key)
{
	switch (key) {
	case CM_KEY_UP:
		move(top, -1);
		return true;
	case CM_KEY_DOWN:
		move(top, 1);
		return true;
	case CM_KEY_PAGE_UP:
		move(top, -(long)page_of(top));
		return true;
	case CM_KEY_PAGE_DOWN:
		move(top, (long)page_of(top));
		return true;
	case CM_KEY_HOME:
		cm_top_select(top, 0);
		return true;
	case CM_KEY_END:
		cm_top_select(top, top->shown_count);
		return true;
	case CM_KEY_LEFT:
		top->first_column -= top->first_column > 0;
		return true;
	case CM_KEY_RIGHT:
		top->first_column += top->first_column + 2 < top->columns;
		return true;
	default:
		return false;
	}
}

/* Sorts by the column that stands `by` columns to the right of the present one. */
static void move_sort(struct cm_top *top, int by)
{
	size_t i;

	for (i = 0; i < top->columns && top->column[i] != top->sort; i++)
		;
	if (!top->columns)
		return;
	if (i == top->columns)
		top->sort = top->column[0];
	else
		top->sort = top->column[(i + top->columns + (size_t)by) % top->columns];
}

static void open_menu(struct cm_top *top, enum cm_top_mode mode)
{
	top->mode = mode;
	top->menu = mode == CM_TOP_MENU_SORT ? top->sort : 0;
}

static void open_detail(struct cm_top *top)
{
	if (!top->selected || top->selected->is_group) {
		cm_top_say(top, false, "select a process first");
		return;
	}
	top->mode = CM_TOP_DETAIL;
	top->menu = 0;
	cm_top_set_detail(top, NULL);
	top->wants_detail = true;
}

static void hide_gpu(struct cm_top *top, size_t index)
{
	if (index < top->gpus)
		top->gpu[index].hidden = !top->gpu[index].hidden;
}

static void show_all_gpus(struct cm_top *top)
{
	size_t i;

	for (i = 0; i < top->gpus; i++)
		top->gpu[i].hidden = false;
}

static void toggle(struct cm_top *top, bool *flag, const char *on, const char *off)
{
	*flag = !*flag;
	cm_top_say(top, false, "%s", *flag ? on : off);
}

static void change_group(struct cm_top *top)
{
	static const char *const names[CM_TOP_GROUP_COUNT] = {
		"one line a process", "grouped by container", "grouped by job", "grouped by user",
		"grouped by program"};

	top->group_by = (enum cm_top_group)((top->group_by + 1) % CM_TOP_GROUP_COUNT);
	cm_top_say(top, false, "%s", names[top->group_by]);
}

/* Keys that change what is shown. False: another key. */
static bool change_by_key(struct cm_top *top, int key)
{
	switch (key) {
	case '<':
	case ',':
		move_sort(top, -1);
		return true;
	case '>':
	case '.':
		move_sort(top, 1);
		return true;
	case 'r':
		top->reverse = !top->reverse;
		return true;
	case 'F':
		toggle(top, &top->follow, "the selected process stays in view", "not following");
		return true;
	case ' ':
	case 'p':
		toggle(top, &top->paused,
		       top->replay.on ? "the recording is paused; Space continues"
				      : "the display is paused; sampling continues",
		       "");
		return true;
	case '+':
	case '-':
		if (top->replay.on)
			change_speed(top, key == '+');
		else
			change_interval(top, key == '+');
		return true;
	case 'd':
		top->no_gpus = !top->no_gpus;
		return true;
	case '0':
		show_all_gpus(top);
		return true;
	case 'c':
		toggle(top, &top->no_crashed, "crashed processes are hidden",
		       "crashed processes are listed");
		return true;
	case 'b':
		top->exact = !top->exact;
		return true;
	case 't':
		change_group(top);
		return true;
	default:
		if (key < '1' || key > '9')
			return false;
		hide_gpu(top, (size_t)(key - '1'));
		return true;
	}
}

/* Keys that ask about an action on the selected process. */
static void ask_by_key(struct cm_top *top, int key)
{
	static const struct {
		int key;
		enum cm_top_action action;
	} actions[] = {{'T', CM_TOP_ACTION_TRIM},
		       {'R', CM_TOP_ACTION_RESET},
		       {'H', CM_TOP_ACTION_HISTORY},
		       {'S', CM_TOP_ACTION_SNAPSHOT},
		       {'X', CM_TOP_ACTION_TERM}};
	size_t i;

	for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (actions[i].key == key)
			cm_top_ask(top, actions[i].action);
}

/* Keys that open a menu, a line or the details, or that act. */
static enum cm_top_next open_by_key(struct cm_top *top, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case CM_KEY_QUIT:
		return CM_TOP_NEXT_QUIT;
	case 'L' - '@':
		return CM_TOP_NEXT_REDRAW;
	case CM_KEY_ENTER:
		open_detail(top);
		break;
	case CM_KEY_HELP:
		open_menu(top, CM_TOP_HELP);
		break;
	case 's':
		open_menu(top, CM_TOP_MENU_SORT);
		break;
	case 'o':
	case CM_KEY_COLUMNS:
		open_menu(top, CM_TOP_MENU_COLUMNS);
		break;
	case 'f':
		cm_top_begin_typing(top, CM_TOP_TYPE_FILTER, top->filter);
		break;
	case '/':
		cm_top_begin_typing(top, CM_TOP_TYPE_SEARCH, "");
		break;
	default:
		ask_by_key(top, key);
		break;
	}
	return CM_TOP_NEXT_NOTHING;
}

/* Esc removes the filter. Without a filter it quits. */
static enum cm_top_next escape(struct cm_top *top)
{
	if (!top->filter[0])
		return CM_TOP_NEXT_QUIT;
	(void)cm_top_set_filter(top, "");
	(void)cm_top_arrange(top);
	return CM_TOP_NEXT_NOTHING;
}

static enum cm_top_next key_in_table(struct cm_top *top, int key)
{
	const bool paused = top->paused;

	top->message[0] = '\0';
	if (key == CM_KEY_ESCAPE)
		return escape(top);
	if (move_by_key(top, key))
		return CM_TOP_NEXT_NOTHING;
	if (seek_by_key(top, key))
		return CM_TOP_NEXT_SEEK;
	if (!change_by_key(top, key))
		return open_by_key(top, key);
	if (cm_top_arrange(top))
		cm_top_say(top, true, "not enough memory on the host");
	return paused && !top->paused ? CM_TOP_NEXT_TAKE : CM_TOP_NEXT_NOTHING;
}

/* Keys in the help and the details, which are texts that scroll. */
static enum cm_top_next key_in_text(struct cm_top *top, int key)
{
	switch (key) {
	case CM_KEY_UP:
		top->menu -= top->menu > 0;
		break;
	case CM_KEY_DOWN:
		top->menu += top->menu < TEXT_END;
		break;
	case CM_KEY_PAGE_UP:
		top->menu -= top->menu < 10 ? top->menu : 10;
		break;
	case CM_KEY_PAGE_DOWN:
	case ' ':
		top->menu += top->menu < TEXT_END ? 10 : 0;
		break;
	case CM_KEY_HOME:
		top->menu = 0;
		break;
	case CM_KEY_END:
		top->menu = TEXT_END;
		break;
	case CM_KEY_HELP:
		open_menu(top, top->mode == CM_TOP_DETAIL ? CM_TOP_HELP : CM_TOP_TABLE);
		break;
	case 'q':
	case CM_KEY_ESCAPE:
	case CM_KEY_ENTER:
	case CM_KEY_LEFT:
		top->mode = CM_TOP_TABLE;
		break;
	case CM_KEY_QUIT:
		return CM_TOP_NEXT_QUIT;
	case '[':
	case ']':
	case '{':
	case '}':
		return top->mode == CM_TOP_DETAIL && seek_by_key(top, key) ? CM_TOP_NEXT_SEEK
									   : CM_TOP_NEXT_NOTHING;
	default: /* the actions work on the process whose details are open */
		return top->mode == CM_TOP_DETAIL && key >= 'A' && key <= 'Z'
			       ? open_by_key(top, key)
			       : CM_TOP_NEXT_NOTHING;
	}
	return CM_TOP_NEXT_NOTHING;
}

void cm_top_add_columns(struct cm_top *top)
{
	size_t i, k;

	for (i = 0; i < top->added_count && top->columns < CM_COLUMNS_MAX; i++) {
		for (k = 0; k < top->columns && top->column[k] != top->added[i]; k++)
			;
		if (k == top->columns)
			top->column[top->columns++] = top->added[i];
	}
	/* COMMAND takes the rest of the line, so it has to be the last column. */
	for (k = 0; k + 1 < top->columns; k++)
		if (top->column[k] == CM_WATCH_COLUMN_COMMAND) {
			memmove(&top->column[k], &top->column[k + 1], top->columns - k - 1);
			top->column[top->columns - 1] = CM_WATCH_COLUMN_COMMAND;
			break;
		}
}

static void toggle_column(struct cm_top *top, size_t column)
{
	size_t i;

	top->columns_chosen = true;
	for (i = 0; i < top->columns && top->column[i] != column; i++)
		;
	if (i == top->columns) {
		top->added[0] = (uint8_t)column;
		top->added_count = 1;
		cm_top_add_columns(top);
	} else if (top->columns > 1) {
		memmove(&top->column[i], &top->column[i + 1], top->columns - i - 1);
		top->columns--;
	}
	top->first_column = 0;
}

static void choose_entry(struct cm_top *top)
{
	if (top->mode == CM_TOP_MENU_COLUMNS) {
		toggle_column(top, top->menu);
		return;
	}
	top->sort = top->menu;
	top->mode = CM_TOP_TABLE;
	(void)cm_top_arrange(top);
}

static enum cm_top_next key_in_menu(struct cm_top *top, int key)
{
	switch (key) {
	case CM_KEY_UP:
		top->menu -= top->menu > 0;
		break;
	case CM_KEY_DOWN:
		top->menu += top->menu + 1 < CM_TOP_COLUMN_COUNT;
		break;
	case CM_KEY_HOME:
	case CM_KEY_PAGE_UP:
		top->menu = 0;
		break;
	case CM_KEY_END:
	case CM_KEY_PAGE_DOWN:
		top->menu = CM_TOP_COLUMN_COUNT - 1;
		break;
	case ' ':
	case CM_KEY_ENTER:
		choose_entry(top);
		break;
	case CM_KEY_QUIT:
		return CM_TOP_NEXT_QUIT;
	case 'q':
	case CM_KEY_ESCAPE:
	case CM_KEY_COLUMNS:
		top->mode = CM_TOP_TABLE;
		break;
	default:
		break;
	}
	return CM_TOP_NEXT_NOTHING;
}

/* The key that a letter stands for, where no text is typed. */
static int meaning_of(int key)
{
	switch (key) {
	case 'k':
		return CM_KEY_UP;
	case 'j':
		return CM_KEY_DOWN;
	case 'g':
		return CM_KEY_HOME;
	case 'G':
		return CM_KEY_END;
	case '?':
	case 'h':
		return CM_KEY_HELP;
	default:
		return key;
	}
}

enum cm_top_next cm_top_key(struct cm_top *top, int key)
{
	switch (top->mode) {
	case CM_TOP_TABLE:
		return key_in_table(top, meaning_of(key));
	case CM_TOP_HELP:
	case CM_TOP_DETAIL:
		return key_in_text(top, meaning_of(key));
	case CM_TOP_MENU_SORT:
	case CM_TOP_MENU_COLUMNS:
		return key_in_menu(top, meaning_of(key));
	case CM_TOP_TYPE_FILTER:
	case CM_TOP_TYPE_SEARCH:
	case CM_TOP_TYPE_FILE:
		return cm_top_type(top, key);
	case CM_TOP_CONFIRM:
		return cm_top_answer(top, key);
	}
	return CM_TOP_NEXT_NOTHING;
}

enum cm_top_next cm_top_click(struct cm_top *top, const struct cm_canvas *canvas, int y, int x)
{
	const struct cm_zone *zone = cm_canvas_at(canvas, y, x);

	if (!zone)
		return CM_TOP_NEXT_NOTHING;
	switch (zone->kind) {
	case CM_ZONE_KEY:
		return cm_top_key(top, (int)zone->value);
	case CM_ZONE_HEADING:
		if (top->sort == zone->value)
			top->reverse = !top->reverse;
		top->sort = zone->value;
		(void)cm_top_arrange(top);
		break;
	case CM_ZONE_GPU:
		hide_gpu(top, zone->value);
		(void)cm_top_arrange(top);
		break;
	case CM_ZONE_LINE:
		if (zone->value < top->shown_count && top->shown[zone->value] == top->selected &&
		    top->mode == CM_TOP_TABLE)
			return cm_top_key(top, CM_KEY_ENTER);
		cm_top_select(top, zone->value);
		top->wants_detail |= top->mode == CM_TOP_DETAIL;
		break;
	}
	return CM_TOP_NEXT_NOTHING;
}
