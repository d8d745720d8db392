/* SPDX-License-Identifier: MIT */
/* What keys and clicks do; and that no sequence of keys, sizes and samples does harm. */
#include "tools/top/keys.h"

#include <locale.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/tools/top/stage.h"
#include "tools/top/view.h"

#define RANDOM_KEYS 10000

struct fixture {
	struct stage *stage;
	struct cm_top top;
	struct cm_canvas canvas;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int i;

	if (!f)
		return -1;
	*state = f;
	cm_top_init(&f->top);
	f->stage = stage_create();
	for (i = 0; i < 30; i++) {
		(void)stage_add(f->stage, 100 + i, i % 3 ? "alice" : "bob",
				i % 2 ? "train" : "solve \xe6\xa8\xa1", i % 4);
		f->stage->process[i].uid = geteuid();
		stage_set(f->stage, (size_t)i, (30 - i) * STAGE_GIB / 10, 0, 0, 0);
	}
	return cm_top_update(&f->top, &f->stage->sample) || cm_canvas_resize(&f->canvas, 24, 80);
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

static enum cm_top_next press(struct fixture *f, int key)
{
	const enum cm_top_next next = cm_top_key(&f->top, key);

	cm_view_draw(&f->top, &f->canvas);
	return next;
}

static void type(struct fixture *f, const char *text)
{
	for (; *text; text++)
		(void)press(f, *text);
}

#define CASE(test) CM_TEST_WITH(test, setup, teardown)

CASE(arrows_select_and_pages_scroll)
{
	struct fixture *f = *state;

	cm_view_draw(&f->top, &f->canvas);
	(void)press(f, CM_KEY_DOWN);
	(void)press(f, 'j');
	assert_int_equal(f->top.selected->pid, 102);
	(void)press(f, CM_KEY_PAGE_DOWN);
	assert_true(f->top.first > 0);
	(void)press(f, 'G');
	assert_int_equal(f->top.selected->pid, 129);
	(void)press(f, CM_KEY_DOWN);
	assert_int_equal(f->top.selected->pid, 129);
	(void)press(f, 'g');
	assert_int_equal(f->top.selected->pid, 100);
	assert_int_equal(f->top.first, 0);
}

CASE(the_sort_column_moves)
{
	struct fixture *f = *state;

	cm_view_draw(&f->top, &f->canvas);
	(void)press(f, '<');
	assert_int_equal(f->top.sort, CM_WATCH_COLUMN_GPU);
	(void)press(f, '>');
	(void)press(f, '>');
	assert_int_equal(f->top.sort, CM_WATCH_COLUMN_RESERVED);
	(void)press(f, 'r');
	assert_int_equal(f->top.shown[0]->pid, 129);
	(void)press(f, 's');
	(void)press(f, CM_KEY_HOME);
	(void)press(f, CM_KEY_ENTER);
	assert_int_equal(f->top.sort, CM_WATCH_COLUMN_PID);
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
}

CASE(a_filter_is_typed_and_taken_away)
{
	struct fixture *f = *state;

	(void)press(f, 'f');
	type(f, "PID > 1x");
	(void)press(f, CM_KEY_ENTER);
	assert_int_equal(f->top.mode, CM_TOP_TYPE_FILTER); /* it is wrong: one can mend it */
	(void)press(f, CM_KEY_ERASE);
	type(f, "20");
	(void)press(f, CM_KEY_ENTER);
	assert_int_equal(f->top.shown_count, 9);
	assert_int_equal(press(f, CM_KEY_ESCAPE), CM_TOP_NEXT_NOTHING);
	assert_int_equal(f->top.shown_count, 30);
	assert_int_equal(press(f, CM_KEY_ESCAPE), CM_TOP_NEXT_QUIT);
}

CASE(a_search_selects_as_one_types)
{
	struct fixture *f = *state;

	(void)press(f, '/');
	type(f, "train");
	assert_int_equal(f->top.selected->pid, 101);
	(void)press(f, CM_KEY_DOWN);
	assert_int_equal(f->top.selected->pid, 103);
	(void)press(f, CM_KEY_ENTER);
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
}

CASE(actions_are_asked_twice)
{
	struct fixture *f = *state;
	static const int keys[] = {'T', 'R', 'H', 'X'};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		assert_int_equal(press(f, keys[i]), CM_TOP_NEXT_NOTHING);
		assert_int_equal(press(f, 'y'), CM_TOP_NEXT_NOTHING);
		assert_int_equal(press(f, 'y'), CM_TOP_NEXT_ACT);
		assert_int_equal(f->top.request.pid, 100);
		(void)press(f, keys[i]);
		(void)press(f, 'y');
		assert_int_equal(press(f, CM_KEY_ENTER), CM_TOP_NEXT_NOTHING);
		assert_int_equal(f->top.mode, CM_TOP_TABLE);
	}
}

CASE(a_snapshot_is_named_first)
{
	struct fixture *f = *state;

	(void)press(f, 'S');
	assert_int_equal(f->top.mode, CM_TOP_TYPE_FILE);
	(void)press(f, 'U' - '@');
	type(f, "mine.cudamem");
	(void)press(f, CM_KEY_ENTER);
	(void)press(f, 'y');
	assert_int_equal(press(f, 'y'), CM_TOP_NEXT_ACT);
	assert_string_equal(f->top.request.file, "mine.cudamem");
	assert_int_equal(f->top.request.action, CM_TOP_ACTION_SNAPSHOT);
}

CASE(actions_are_off_where_they_must)
{
	struct fixture *f = *state;

	f->top.readonly = true;
	(void)press(f, 'X');
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
	assert_true(f->top.alarming);
	f->top.readonly = false;
	f->top.selected->uid = geteuid() + 1;
	(void)press(f, 'T');
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
	assert_non_null(strstr(f->top.message, "another user"));
	f->top.selected->uid = geteuid();
	f->top.selected->life = CM_LIFE_CRASHED;
	(void)press(f, 'T');
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
}

CASE(a_recording_is_moved_in)
{
	static const struct {
		int key;
		int seconds;
	} moves[] = {{'[', -60}, {']', 60}, {'{', -3600}, {'}', 3600}};
	struct fixture *f = *state;
	const uint64_t interval = f->top.interval_ns;
	size_t i;

	assert_int_equal(press(f, '['), CM_TOP_NEXT_NOTHING); /* of what runs now */
	f->top.replay = (struct cm_top_replay){.on = true, .speed = 1};
	for (i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		assert_int_equal(press(f, moves[i].key), CM_TOP_NEXT_SEEK);
		assert_int_equal(f->top.replay.seek_ns, moves[i].seconds * INT64_C(1000000000));
	}
	(void)press(f, '+');
	assert_true(f->top.replay.speed == 2);
	for (i = 0; i < 20; i++)
		(void)press(f, '-');
	assert_true(f->top.replay.speed == 0.1);
	assert_int_equal(f->top.interval_ns, interval);
	(void)press(f, 'T');
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
	assert_non_null(strstr(f->top.message, "a recording"));
	(void)press(f, CM_KEY_ENTER);
	assert_int_equal(f->top.mode, CM_TOP_DETAIL);
	assert_int_equal(press(f, ']'), CM_TOP_NEXT_SEEK);
}

/* What the last line offers does something: so the table's keys are not offered elsewhere. */
CASE(the_details_have_help_and_offer_their_own_keys)
{
	struct fixture *f = *state;
	const struct cm_zone *zone;
	int x;

	(void)press(f, CM_KEY_ENTER);
	for (x = 0; x < f->canvas.width; x++) {
		zone = cm_canvas_at(&f->canvas, f->canvas.height - 1, x);
		if (zone && zone->kind == CM_ZONE_KEY)
			assert_null(strchr("qsf/ to", (int)zone->value));
	}
	(void)press(f, '?');
	assert_int_equal(f->top.mode, CM_TOP_HELP);
	(void)press(f, '?');
	assert_int_equal(f->top.mode, CM_TOP_TABLE);
}

/* What is selected stays so, and the graphs begin anew. */
CASE(another_time_of_a_recording_is_shown)
{
	struct fixture *f = *state;
	pid_t pid;

	cm_top_select(&f->top, 7);
	pid = f->top.selected->pid;
	cm_top_forget(&f->top);
	assert_null(f->top.selected);
	cm_view_draw(&f->top, &f->canvas);
	stage_tick(f->stage);
	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	assert_int_equal(f->top.selected->pid, pid);
	assert_int_equal(f->top.selected->history.count, 1);
	assert_int_equal(f->top.gpu[0].history.count, 1);
}

CASE(columns_come_and_go)
{
	struct fixture *f = *state;
	size_t before;

	cm_view_draw(&f->top, &f->canvas);
	before = f->top.columns;
	(void)press(f, 'o');
	(void)press(f, CM_KEY_DOWN);
	(void)press(f, CM_KEY_DOWN); /* STATE */
	(void)press(f, ' ');
	assert_int_equal(f->top.columns, before + 1);
	assert_int_equal(f->top.column[f->top.columns - 1], CM_WATCH_COLUMN_COMMAND);
	(void)press(f, ' ');
	assert_int_equal(f->top.columns, before);
	(void)press(f, CM_KEY_ESCAPE);
	(void)press(f, CM_KEY_RIGHT);
	assert_int_equal(f->top.first_column, 1);
	(void)press(f, CM_KEY_LEFT);
	(void)press(f, CM_KEY_LEFT);
	assert_int_equal(f->top.first_column, 0);
}

CASE(cards_can_be_hidden)
{
	struct fixture *f = *state;

	(void)press(f, '1');
	assert_int_equal(f->top.shown_count, 22);
	(void)press(f, '9'); /* there is none */
	(void)press(f, '0');
	assert_int_equal(f->top.shown_count, 30);
	(void)press(f, 'd');
	assert_int_equal(cm_view_gpus_height(&f->top, 24), 0);
}

static const struct cm_zone *find_zone(const struct fixture *f, enum cm_zone_kind kind,
				       size_t value)
{
	size_t i;

	for (i = 0; i < f->canvas.zones; i++)
		if (f->canvas.zone[i].kind == kind && f->canvas.zone[i].value == value)
			return &f->canvas.zone[i];
	return NULL;
}

static enum cm_top_next click(struct fixture *f, enum cm_zone_kind kind, size_t value)
{
	const struct cm_zone *zone;

	cm_view_draw(&f->top, &f->canvas);
	zone = find_zone(f, kind, value);
	assert_non_null(zone);
	return cm_top_click(&f->top, &f->canvas, zone->y, zone->x);
}

CASE(clicks_do_what_is_under_them)
{
	struct fixture *f = *state;

	(void)click(f, CM_ZONE_HEADING, CM_WATCH_COLUMN_PID);
	assert_int_equal(f->top.sort, CM_WATCH_COLUMN_PID);
	assert_int_equal(f->top.shown[0]->pid, 129);
	(void)click(f, CM_ZONE_HEADING, CM_WATCH_COLUMN_PID);
	assert_int_equal(f->top.shown[0]->pid, 100);
	(void)click(f, CM_ZONE_LINE, 3);
	assert_int_equal(f->top.selected->pid, 103);
	(void)click(f, CM_ZONE_LINE, 3);
	assert_int_equal(f->top.mode, CM_TOP_DETAIL);
	assert_true(f->top.wants_detail);
	(void)press(f, CM_KEY_ESCAPE);
	assert_int_equal(click(f, CM_ZONE_KEY, 'q'), CM_TOP_NEXT_QUIT);
	(void)click(f, CM_ZONE_GPU, 0);
	assert_true(f->top.gpu[0].hidden);
	assert_int_equal(cm_top_click(&f->top, &f->canvas, 500, 500), CM_TOP_NEXT_NOTHING);
}

/* Marsaglia's xorshift: the same keys in every run. */
static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static int random_key(uint32_t *seed)
{
	const uint32_t kind = next_random(seed) % 8;

	if (kind < 3)
		return CM_KEY_UP + (int)(next_random(seed) % (CM_KEY_COUNT - CM_KEY_UP));
	if (kind == 3)
		return (int)(next_random(seed) % 0x110000);
	if (kind == 4)
		return "\n\033\177 yy"[next_random(seed) % 6];
	return (int)(' ' + next_random(seed) % 95);
}

static void change_sample(struct fixture *f, uint32_t *seed)
{
	const size_t i = next_random(seed) % 30;

	f->stage->sample.count = next_random(seed) % 31;
	f->stage->process[i].life = (enum cm_life)(next_random(seed) % CM_LIFE_SAVED);
	f->stage->device[i].torn = next_random(seed) % 2;
	stage_set(f->stage, i, (int64_t)next_random(seed) << next_random(seed) % 31,
		  next_random(seed) % 100, (int64_t)next_random(seed) << 20, -5);
	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	stage_tick(f->stage);
}

CASE(no_keys_or_sizes_do_harm)
{
	struct fixture *f = *state;
	uint32_t seed = 20240229;
	int n;

	for (n = 0; n < RANDOM_KEYS; n++) {
		switch (next_random(&seed) % 12) {
		case 0:
			assert_int_equal(cm_canvas_resize(&f->canvas,
							  (int)(next_random(&seed) % 70),
							  (int)(next_random(&seed) % 220)),
					 0);
			break;
		case 1:
			change_sample(f, &seed);
			f->top.replay.on = next_random(&seed) % 2;
			if (!(next_random(&seed) % 8)) {
				cm_top_forget(&f->top);
				change_sample(f, &seed);
			}
			break;
		case 2:
			(void)cm_top_click(&f->top, &f->canvas, (int)(next_random(&seed) % 70),
					   (int)(next_random(&seed) % 220));
			break;
		default:
			(void)cm_top_key(&f->top, random_key(&seed));
			break;
		}
		if (f->top.wants_detail)
			cm_top_set_detail(&f->top, strdup("a text\nof two lines"));
		cm_view_draw(&f->top, &f->canvas);
		assert_true(!f->top.shown_count || f->top.selected);
		assert_true(f->top.columns > 0 || f->canvas.width < CM_VIEW_MIN_WIDTH ||
			    f->canvas.height < CM_VIEW_MIN_HEIGHT);
	}
}

int main(void)
{
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	return cm_run_tests(NULL, NULL);
}
