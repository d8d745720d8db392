/* SPDX-License-Identifier: MIT */
/* How many bytes a sample takes in a recording. */
#include "tools/watch/delta.h"

#include <sys/stat.h>

#include "tests/unit/tools/watch/recording_stage.h"

/* A program in one of so many states, a few requests later than in the last sample. */
static void enter_state(struct fixture *f, uint32_t states)
{
	const uint32_t state = random_below(f, states), seed = f->seed;

	f->seed = 77 + state;
	(void)random_below(f, 2);
	stage_set(f->stage, 0, 4096 * (int64_t)random_below(f, 1000000),
		  512 * (int64_t)random_below(f, 100000), 512 * (int64_t)random_below(f, 100000),
		  0);
	f->stage->device[0].row.stat[CM_POOL_LARGE].current[CM_STAT_REQUESTED_BYTES] = random_below(
		f, 1000000);
	f->seed = seed;
	stage_traffic(f->stage, 0, (int64_t)(f->stage->sample.time_ns / 10000000));
	stage_tick(f->stage);
	f->stage->process[0].age_ns = f->stage->sample.time_ns - BORN_NS;
}

static size_t record_states(struct fixture *f, uint32_t states)
{
	struct cm_recorder *recorder;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;
	struct stat st;
	int i;

	(void)unlink(f->path);
	recorder = open_recorder(f);
	for (i = 0; i < 300; i++) {
		enter_state(f, states);
		assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	}
	cm_recorder_close(recorder);
	source = open_replay(f);
	assert_int_equal(source->seek(source, INT64_MAX, 0), 0);
	assert_int_equal(source->take(source, &sample), 0);
	assert_same_sample(&sample, &f->stage->sample);
	cm_watch_close(source);
	assert_int_equal(stat(f->path, &st), 0);
	return (size_t)st.st_size;
}

CM_TEST_WITH(states_that_come_back_are_short, setup, teardown)
{
	struct fixture *f = *state;
	size_t few, many;

	(void)stage_add(f->stage, 100, "alice", "python3 train.py", 0);
	few = record_states(f, 40);
	many = record_states(f, 1000000);
	print_message("# %zu bytes with 40 states, %zu with new ones\n", few, many);
	assert_true(few < many * 9 / 10);
}

/* A third trains, a third serves requests, a third is idle. */
static void let_work(struct fixture *f, size_t i)
{
	struct cm_device_row *row = &f->stage->device[i].row;
	const int64_t kib = 1024, busy = 40 * STAGE_GIB;
	int64_t allocated, pending;

	if (i % 3 == 2)
		return;
	row->stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION] += 400 + random_below(f, 60);
	row->scalar[CM_SCALAR_cache_hits] = row->stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION];
	if (i % 3)
		return;
	allocated = (int64_t)random_below(f, 40 * 1024) * 1024 * kib;
	pending = (int64_t)random_below(f, 2 * 1024) * kib;
	stage_set(f->stage, i, allocated, pending, busy - allocated - pending, 0);
	row->stat[CM_POOL_LARGE].current[CM_STAT_REQUESTED_BYTES] = allocated + pending -
								    random_below(f, 500000);
}

CM_TEST_WITH(a_day_of_100_processes_takes_less_than_50_MB, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder = open_recorder(f);
	const size_t seconds = 1200;
	struct stat st;
	size_t s, i;

	for (i = 0; i < 100; i++)
		(void)stage_add(f->stage, 1000 + (pid_t)i, "alice", "python3 train.py", i % 8);
	for (s = 0; s < seconds; s++) {
		stage_tick(f->stage);
		for (i = 0; i < 100; i++) {
			f->stage->process[i].age_ns += UINT64_C(1000000000);
			let_work(f, i);
		}
		assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	}
	cm_recorder_close(recorder);
	assert_int_equal(stat(f->path, &st), 0);
	print_message("# %zu bytes a day\n", (size_t)st.st_size * 86400 / seconds);
	if (CM_PACKING_OWN != CM_PACKING_NONE)
		assert_true((size_t)st.st_size * 86400 / seconds < 50 * 1000 * 1000);
}
