/* SPDX-License-Identifier: MIT */
/* What top keeps of its samples: rates, histories, order, filter, groups, selection. */
#include "tools/top/model.h"

#include "tests/unit/cmocka_all.h"
#include "tests/unit/tools/top/stage.h"

struct fixture {
	struct stage *stage;
	struct cm_top top;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	cm_top_init(&f->top);
	f->stage = stage_create();
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_top_fini(&f->top);
	free(f->stage);
	free(f);
	return 0;
}

static void update(struct fixture *f)
{
	assert_int_equal(cm_top_update(&f->top, &f->stage->sample), 0);
	stage_tick(f->stage);
}

static const struct cm_value *value_of(const struct fixture *f, size_t line, size_t column)
{
	assert_true(line < f->top.shown_count);
	return &f->top.shown[line]->value[column];
}

#define CASE(test) CM_TEST_WITH(test, setup, teardown)

CASE(rates_need_two_samples)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "alice", "train", 0);

	stage_set(f->stage, i, 4 * STAGE_GIB, 0, 0, 0);
	update(f);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_GROWTH)->kind, CM_VALUE_NONE);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_ALLOC_RATE)->kind, CM_VALUE_NONE);
	stage_set(f->stage, i, 3 * STAGE_GIB, 0, 0, 0);
	stage_traffic(f->stage, i, 500);
	update(f);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_GROWTH)->number, -STAGE_GIB);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_ALLOC_RATE)->number, 500);
	stage_traffic(f->stage, i, 20); /* they were reset */
	update(f);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_ALLOC_RATE)->kind, CM_VALUE_NONE);
}

CASE(a_torn_sample_leaves_no_trace)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "alice", "train", 0);

	stage_set(f->stage, i, 4 * STAGE_GIB, 0, 0, 0);
	update(f);
	stage_set(f->stage, i, 70 * STAGE_GIB, 0, 0, 0);
	f->stage->device[i].torn = true;
	update(f);
	assert_int_equal(value_of(f, 0, CM_WATCH_COLUMN_ALLOC)->number, 4 * STAGE_GIB);
	assert_int_equal(f->top.row[0]->history.count, 1);
	assert_int_equal(cm_top_history_at(&f->top.gpu[0].history, 0, 0)->allocated, 4 * STAGE_GIB);
	assert_int_equal(f->top.torn, 1);
	/* The rate over both intervals is right again. */
	f->stage->device[i].torn = false;
	stage_set(f->stage, i, 8 * STAGE_GIB, 0, 0, 0);
	update(f);
	assert_int_equal(value_of(f, 0, CM_TOP_COLUMN_GROWTH)->number, 2 * STAGE_GIB);
	assert_int_equal(f->top.row[0]->history.count, 2);
}

CASE(a_process_that_died_within_a_change_has_figures)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "alice", "train", 0);

	stage_set(f->stage, i, 4 * STAGE_GIB, 0, 0, 0);
	f->stage->device[i].torn = true;
	f->stage->process[i].life = CM_LIFE_CRASHED;
	update(f);
	assert_int_equal(value_of(f, 0, CM_WATCH_COLUMN_ALLOC)->number, 4 * STAGE_GIB);
	assert_int_equal(f->top.torn, 0);
}

CASE(the_history_has_the_last_600_samples)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "alice", "train", 0);
	int n;

	for (n = 1; n <= 700; n++) {
		stage_set(f->stage, i, n, 0, 0, 0);
		f->stage->device[i].row.scalar[CM_SCALAR_num_ooms] = n >= 650;
		update(f);
	}
	assert_int_equal(cm_top_history_at(&f->top.row[0]->history, 0, 0)->allocated, 700);
	assert_int_equal(cm_top_history_at(&f->top.row[0]->history, 0, 599)->allocated, 101);
	assert_null(cm_top_history_at(&f->top.row[0]->history, 0, 600));
	assert_true(cm_top_history_at(&f->top.row[0]->history, 0, 50)->oom);
	assert_false(cm_top_history_at(&f->top.row[0]->history, 0, 49)->oom);
	assert_true(cm_top_history_at(&f->top.gpu[0].history, 0, 50)->oom);
}

CASE(the_parts_of_a_card_add_up)
{
	struct fixture *f = *state;
	size_t i = stage_add(f->stage, 10, "alice", "train", 0);
	struct cm_top_gpu *gpu = &f->top.gpu[0];

	stage_set(f->stage, i, 10 * STAGE_GIB, STAGE_GIB, 2 * STAGE_GIB, 3 * STAGE_GIB);
	f->stage->device[i].row.free_seen_ns = 1;
	f->stage->device[i].row.free_bytes = 50 * (uint64_t)STAGE_GIB;
	i = stage_add(f->stage, 11, "bob", "solve", 0);
	stage_set(f->stage, i, 5 * STAGE_GIB, 0, 0, 0);
	update(f);
	assert_int_equal(f->top.gpus, 1);
	assert_int_equal(gpu->allocated, 15 * STAGE_GIB);
	assert_int_equal(gpu->free, 50 * STAGE_GIB);
	assert_int_equal(gpu->others, 9 * STAGE_GIB);
	assert_int_equal(gpu->allocated + gpu->pending + gpu->fragmented + gpu->releasable +
				 gpu->others + gpu->free,
			 gpu->total);
	/* An answer of the driver that is older than the sums contradicts them. */
	stage_set(f->stage, i, 60 * STAGE_GIB, 0, 0, 0);
	update(f);
	assert_int_equal(gpu->allocated + gpu->pending + gpu->fragmented + gpu->releasable +
				 gpu->others + gpu->free,
			 gpu->total);
	assert_true(gpu->free >= 0 && gpu->others >= 0);
}

CASE(a_crashed_process_holds_no_memory)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "alice", "train", 0);

	stage_set(f->stage, i, 10 * STAGE_GIB, 0, 0, 0);
	f->stage->device[i].row.free_seen_ns = 1;
	f->stage->device[i].row.free_bytes = 50 * (uint64_t)STAGE_GIB;
	update(f);
	assert_int_equal(f->top.gpu[0].others, 20 * STAGE_GIB);
	f->stage->process[i].life = CM_LIFE_CRASHED;
	update(f);
	assert_int_equal(f->top.crashed, 1);
	assert_int_equal(f->top.gpu[0].allocated, 0);
	assert_int_equal(f->top.gpu[0].others, 0);
	assert_int_equal(f->top.gpu[0].free, f->top.gpu[0].total);
	assert_int_equal(f->top.shown_count, 1);
	f->top.no_crashed = true;
	update(f);
	assert_int_equal(f->top.shown_count, 0);
	f->top.no_crashed = false;
	f->stage->process[i].life = CM_LIFE_EXITED;
	update(f);
	assert_int_equal(f->top.rows, 0);
	assert_int_equal(f->top.gpu[0].free, f->top.gpu[0].total);
}

static void three(struct fixture *f)
{
	size_t i = stage_add(f->stage, 10, "alice", "train", 0);

	stage_set(f->stage, i, 10 * STAGE_GIB, 0, 0, 0);
	i = stage_add(f->stage, 11, "bob", "solve", 1);
	stage_set(f->stage, i, 30 * STAGE_GIB, 0, 0, 0);
	i = stage_add(f->stage, 12, "alice", "infer", 0);
	stage_set(f->stage, i, 20 * STAGE_GIB, 0, 0, 0);
	update(f);
}

static void assert_order(const struct fixture *f, int a, int b, int c)
{
	assert_int_equal(f->top.shown_count, 3);
	assert_int_equal(f->top.shown[0]->pid, a);
	assert_int_equal(f->top.shown[1]->pid, b);
	assert_int_equal(f->top.shown[2]->pid, c);
}

CASE(rows_are_sorted_by_what_is_shown)
{
	struct fixture *f = *state;

	three(f);
	assert_order(f, 11, 12, 10);
	f->top.reverse = true;
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_order(f, 10, 12, 11);
	f->top.reverse = false;
	f->top.sort = CM_WATCH_COLUMN_USER; /* equal ones stay in the order before */
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_order(f, 10, 12, 11);
}

CASE(crashed_processes_come_last)
{
	struct fixture *f = *state;

	three(f);
	f->stage->process[1].life = CM_LIFE_CRASHED;
	update(f);
	assert_order(f, 12, 10, 11);
	f->top.reverse = true;
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_order(f, 10, 12, 11);
}

CASE(the_selection_follows_its_process)
{
	struct fixture *f = *state;

	three(f);
	cm_top_select(&f->top, 1);
	assert_int_equal(f->top.selected->pid, 12);
	stage_set(f->stage, 2, STAGE_GIB, 0, 0, 0);
	update(f);
	assert_order(f, 11, 10, 12);
	assert_int_equal(f->top.selected->pid, 12);
	/* Its process is gone: the line stays. */
	f->stage->sample.count = 2;
	update(f);
	assert_int_equal(f->top.selected->pid, 10);
}

CASE(following_keeps_it_in_view)
{
	struct fixture *f = *state;

	three(f);
	f->top.page = 1;
	cm_top_select(&f->top, 0);
	f->top.follow = true;
	stage_set(f->stage, 1, 1, 0, 0, 0);
	update(f);
	assert_int_equal(f->top.shown[f->top.first]->pid, 11);
}

CASE(the_filter_is_that_of_where)
{
	struct fixture *f = *state;

	three(f);
	assert_true(cm_top_set_filter(&f->top, "ALLOC > 15G && USER == alice"));
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_int_equal(f->top.shown_count, 1);
	assert_int_equal(f->top.shown[0]->pid, 12);
	assert_false(cm_top_set_filter(&f->top, "ALLC > 15G"));
	assert_non_null(strstr(f->top.message, "ALLOC"));
	assert_string_equal(f->top.filter, "ALLOC > 15G && USER == alice");
	assert_true(cm_top_set_filter(&f->top, ""));
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_int_equal(f->top.shown_count, 3);
}

CASE(groups_come_with_their_sums)
{
	struct fixture *f = *state;

	f->top.group_by = CM_TOP_GROUP_USER;
	three(f);
	assert_int_equal(f->top.shown_count, 5);
	assert_true(f->top.shown[0]->is_group);
	assert_int_equal(value_of(f, 0, CM_WATCH_COLUMN_ALLOC)->number, 30 * STAGE_GIB);
	assert_int_equal(f->top.shown[0]->members + f->top.shown[0]->members, 2);
	assert_int_equal(value_of(f, 2, CM_WATCH_COLUMN_ALLOC)->number, 30 * STAGE_GIB);
	assert_true(f->top.shown[2]->is_group);
	assert_int_equal(f->top.shown[2]->members, 2);
	assert_int_equal(value_of(f, 0, CM_WATCH_COLUMN_PID)->kind, CM_VALUE_NONE);
	f->top.group_by = CM_TOP_GROUP_JOB;
	assert_int_equal(cm_top_arrange(&f->top), 0);
	assert_int_equal(f->top.shown_count, 4);
	assert_string_equal(f->top.shown[0]->comm, "(no job)");
}

CASE(a_pause_holds_the_display_alone)
{
	struct fixture *f = *state;
	uint64_t time;

	three(f);
	time = f->top.time_ns;
	f->top.paused = true;
	stage_set(f->stage, 0, 70 * STAGE_GIB, 0, 0, 0);
	update(f);
	assert_int_equal(f->top.time_ns, time);
	assert_order(f, 11, 12, 10);
	assert_int_equal(f->top.row[0]->history.count, 2);
	assert_int_equal(cm_top_history_at(&f->top.row[0]->history, f->top.held, 0)->allocated,
			 10 * STAGE_GIB);
	/* The cards' too: 10 and 20 GiB on the first, and now 70 and 20. */
	assert_int_equal(cm_top_history_at(&f->top.gpu[0].history, f->top.held, 0)->allocated,
			 30 * STAGE_GIB);
	assert_int_equal(cm_top_history_at(&f->top.gpu[0].history, 0, 0)->allocated,
			 90 * STAGE_GIB);
	f->top.paused = false;
	update(f);
	assert_order(f, 10, 11, 12);
	assert_int_equal(f->top.row[0]->history.count, 3);
}

CASE(a_process_without_figures_has_a_line)
{
	struct fixture *f = *state;
	const size_t i = stage_add(f->stage, 10, "carol", "secret", 0);

	f->stage->process[i].error = -13;
	f->stage->watched[i].devices = 0;
	update(f);
	assert_int_equal(f->top.unreadable, 1);
	assert_int_equal(value_of(f, 0, CM_WATCH_COLUMN_ALLOC)->kind, CM_VALUE_NONE);
	assert_int_equal(f->top.gpus, 0);
}
