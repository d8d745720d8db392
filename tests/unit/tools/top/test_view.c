/* SPDX-License-Identifier: MIT */
/*
 * Frames of made-up machines, cell by cell: expected/NAME.txt has the characters, and below them
 * the colours and attributes. With CM_UPDATE set they are written anew.
 */
#include "tools/top/view.h"

#include <locale.h>
#include <time.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/tools/top/stage.h"
#include "tools/top/batch.h"

struct fixture {
	struct stage *stage;
	struct cm_top top;
	struct cm_canvas canvas;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	cm_top_init(&f->top);
	(void)snprintf(f->top.host, sizeof(f->top.host), "node7");
	f->stage = stage_create();
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_top_fini(&f->top);
	cm_canvas_fini(&f->canvas);
	free(f->stage);
	free(f);
	return 0;
}

/* Two cards and five processes over fifty seconds: one grows, one swings, one runs out of memory,
 * one has crashed, and one belongs to somebody else. */
static void fill(struct fixture *f)
{
	size_t train = stage_add(f->stage, 41873, "alice", "python3 train.py --config 7b.yaml", 0);
	size_t solve = stage_add(f->stage, 50988, "carol", "./solver --grid 4096", 1);
	size_t serve = stage_add(f->stage, 42910, "bob", "llama-server -m /models/\xe6\xa8\xa1", 1);
	size_t dead = stage_add(f->stage, 39001, "alice", "python3 eval.py", 0);
	size_t other = stage_add(f->stage, 60001, "5001", "", 0);
	int n;

	f->stage->process[dead].life = CM_LIFE_CRASHED;
	f->stage->process[other].error = -13;
	f->stage->watched[other].devices = 0;
	stage_set(f->stage, dead, 9 * STAGE_GIB, 0, 0, 0);
	stage_set(f->stage, serve, 37 * STAGE_GIB, 0, 0, STAGE_GIB / 100);
	f->stage->device[train].row.free_seen_ns = 1;
	f->stage->device[train].row.free_bytes = 25 * (uint64_t)STAGE_GIB;
	for (n = 0; n < 50; n++) {
		stage_set(f->stage, train, (20 + n % 10) * STAGE_GIB, 2 * STAGE_GIB, 5 * STAGE_GIB,
			  (12 - n % 10) * STAGE_GIB);
		stage_traffic(f->stage, train, 4115 * n);
		stage_set(f->stage, solve, n * STAGE_GIB * 4 / 5, 0, STAGE_GIB / 2, 0);
		f->stage->device[solve].row.scalar[CM_SCALAR_num_ooms] = n > 44 ? 2 : 0;
		f->stage->device[solve].row.scalar[CM_SCALAR_num_device_alloc] = n;
		assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
		stage_tick(f->stage);
	}
}

static char attribute_of(const struct cm_cell *cell)
{
	static const char letters[] = " gympbr";
	const char letter = letters[cell->color];

	if (cell->attr & CM_ATTR_REVERSE)
		return letter == ' ' ? '#' : (char)(letter - 32);
	if (cell->attr & CM_ATTR_BOLD)
		return letter == ' ' ? '*' : (char)(letter - 32);
	return letter;
}

static char *dump(const struct cm_canvas *canvas)
{
	size_t length;
	char *text;
	FILE *file = open_memstream(&text, &length);
	int y, x;

	assert_non_null(file);
	cm_canvas_write(canvas, file, false);
	for (y = 0; y < canvas->height; y++) {
		int end = canvas->width;

		while (end && attribute_of(cm_canvas_cell(canvas, y, end - 1)) == ' ')
			end--;
		(void)fputc('|', file);
		for (x = 0; x < end; x++)
			(void)fputc(attribute_of(cm_canvas_cell(canvas, y, x)), file);
		(void)fputc('\n', file);
	}
	assert_int_equal(fclose(file), 0);
	return text;
}

static void compare(struct fixture *f, const char *name, int width, int height)
{
	char path[256], expected[65536] = "";
	char *text;
	FILE *file;
	size_t n;

	assert_int_equal(cm_canvas_resize(&f->canvas, height, width), 0);
	f->canvas.ascii = f->top.graph == CM_TOP_GRAPH_ASCII;
	cm_view_draw(&f->top, &f->canvas);
	text = dump(&f->canvas);
	(void)snprintf(path, sizeof(path), "%s/%s.txt", EXPECTED, name);
	file = fopen(path, getenv("CM_UPDATE") ? "w+" : "r");
	assert_non_null(file);
	if (getenv("CM_UPDATE"))
		(void)fputs(text, file);
	rewind(file);
	n = fread(expected, 1, sizeof(expected) - 1, file);
	expected[n] = '\0';
	(void)fclose(file);
	assert_string_equal(text, expected);
	free(text);
}

#define CASE(test) CM_TEST_WITH(test, setup, teardown)

CASE(frames_of_three_sizes)
{
	struct fixture *f = *state;

	fill(f);
	compare(f, "40x6", 40, 6);
	compare(f, "80x24", 80, 24);
	compare(f, "200x60", 200, 60);
}

CASE(frames_in_ascii)
{
	struct fixture *f = *state;

	f->top.graph = CM_TOP_GRAPH_ASCII;
	fill(f);
	compare(f, "80x24-ascii", 80, 24);
	f->top.graph = CM_TOP_GRAPH_BLOCK;
	compare(f, "80x24-block", 80, 24);
}

/* The last line has a process where the screen has its keys. */
CASE(a_frame_that_nobody_types_at_has_no_keys)
{
	struct fixture *f = *state;

	fill(f);
	f->top.batch = true;
	compare(f, "batch", 80, 8);
}

CASE(frames_of_what_lies_over_the_table)
{
	struct fixture *f = *state;

	fill(f);
	f->top.mode = CM_TOP_HELP;
	compare(f, "help", 80, 40);
	compare(f, "help-60", 60, 48);
	compare(f, "help-begun", 80, 24);
	f->top.mode = CM_TOP_MENU_SORT;
	compare(f, "sort", 80, 24);
	f->top.mode = CM_TOP_MENU_COLUMNS;
	compare(f, "columns", 80, 24);
	f->top.menu = 0;
	f->top.mode = CM_TOP_DETAIL;
	cm_top_select(&f->top, 0);
	cm_top_set_detail(&f->top, strdup("first line\nsecond line\nA line that is longer than "
					  "a narrow screen goes on below it.\nlast line\n"));
	compare(f, "detail", 100, 40);
	compare(f, "detail-narrow", 60, 20);
	compare(f, "detail-40", 40, 20);
	f->top.mode = CM_TOP_TYPE_FILTER;
	(void)snprintf(f->top.typed, sizeof(f->top.typed), "ALLC > 3G");
	assert_false(cm_top_set_filter(&f->top, f->top.typed));
	compare(f, "filter", 80, 24);
}

CASE(frames_of_groups_and_many_cards)
{
	struct fixture *f = *state;
	int i;

	fill(f);
	f->top.group_by = CM_TOP_GROUP_USER;
	f->top.exact = f->top.paused = f->top.readonly = true;
	f->top.gpu[1].hidden = true;
	assert_int_equal(cm_top_arrange(&f->top), 0);
	compare(f, "groups", 120, 24);
	f->top.paused = false;
	for (i = 2; i < 12; i++)
		(void)stage_add(f->stage, 70000 + i, "dave", "worker", i);
	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	compare(f, "cards", 80, 24);
}

CASE(frames_of_a_recording)
{
	struct fixture *f = *state;

	fill(f);
	f->top.replay = (struct cm_top_replay){
		.on = true,
		.speed = 10,
		.first_ns = f->top.time_ns - 30 * INT64_C(1000000000),
		.last_ns = f->top.time_ns + 30 * INT64_C(1000000000)};
	compare(f, "recording", 100, 12);
	f->top.mode = CM_TOP_DETAIL;
	f->top.replay.ended = true;
	cm_top_select(&f->top, 0);
	compare(f, "recording-detail", 100, 40);
}

CASE(frames_of_an_idle_machine)
{
	struct fixture *f = *state;

	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	compare(f, "nothing", 80, 10);
	compare(f, "small", 39, 6);
}

CASE(hostile_texts_are_harmless)
{
	struct fixture *f = *state;
	const char *text = "\033[2J\n\xff wide \xe6\xa8\xa1 combining e\xcc\x81";
	struct cm_canvas canvas = {0};
	const size_t i = stage_add(f->stage, 1, "x", text, 0);
	int y, x;

	stage_set(f->stage, i, INT64_MIN, INT64_MAX, -1, INT64_MAX);
	f->stage->device[i].row.total_bytes = UINT64_MAX;
	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	assert_int_equal(cm_canvas_resize(&canvas, 24, 80), 0);
	cm_view_draw(&f->top, &canvas);
	for (y = 0; y < 24; y++)
		for (x = 0; x < 80; x++)
			assert_true(!cm_canvas_cell(&canvas, y, x)->ch ||
				    cm_canvas_cell(&canvas, y, x)->ch >= L' ');
	cm_canvas_fini(&canvas);
}

CASE(half_a_wide_character_is_none)
{
	struct fixture *f = *state;
	const struct cm_pen pen = {0};

	assert_int_equal(cm_canvas_resize(&f->canvas, 1, 5), 0);
	assert_int_equal(
		cm_canvas_text(&f->canvas, 0, 0, 5, pen, "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1"),
		4);
	assert_int_equal(cm_canvas_cell(&f->canvas, 0, 1)->ch, 0);
	cm_canvas_set(&f->canvas, 0, 1, pen, L'x');
	assert_int_equal(cm_canvas_cell(&f->canvas, 0, 0)->ch, L' ');
	cm_canvas_set(&f->canvas, 0, 2, pen, L'y');
	assert_int_equal(cm_canvas_cell(&f->canvas, 0, 3)->ch, L' ');
	cm_canvas_set(&f->canvas, 7, 70, pen, L'z'); /* beyond the canvas: nothing */
}

int main(void)
{
	(void)setenv("TZ", "UTC", 1);
	tzset();
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 1;
	return cm_run_tests(NULL, NULL);
}
