/* SPDX-License-Identifier: MIT */
/*
 * Processes whose figures change, recorded into a file of the test and played back from it.
 */
#ifndef CM_TESTS_UNIT_RECORDING_STAGE_H
#define CM_TESTS_UNIT_RECORDING_STAGE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stats/counters.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/tools/top/stage.h"
#include "tools/cli/exits.h"
#include "tools/watch/columns.h"
#include "tools/watch/recording.h"
#include "tools/watch/replay.h"

#define SAMPLES   40
#define PROCESSES 5
#define BORN_NS   UINT64_C(1600000000000000000)

struct fixture {
	char path[64];
	struct stage *stage;
	struct cm_options options;
	uint32_t seed;
	FILE *complaints;
	char said[512];
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd;

	if (!f)
		return -1;
	*state = f;
	(void)snprintf(f->path, sizeof(f->path), "cudamem-test-XXXXXX");
	fd = mkstemp(f->path);
	if (fd < 0)
		return -1;
	(void)close(fd);
	(void)unlink(f->path);
	f->stage = stage_create();
	f->seed = 1;
	f->options.from = f->path;
	f->complaints = fmemopen(f->said, sizeof(f->said), "w");
	cm_complain_to(f->complaints);
	return f->complaints ? 0 : -1;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	cm_complain_to(NULL);
	(void)fclose(f->complaints);
	(void)unlink(f->path);
	free(f->stage);
	free(f);
	return 0;
}

static inline const char *said(struct fixture *f)
{
	(void)fflush(f->complaints);
	return f->said;
}

static inline uint32_t random_below(struct fixture *f, uint32_t most)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 17;
	f->seed ^= f->seed << 5;
	return f->seed % most;
}

/* Changes what can change, with numbers of all sizes and signs. */
static inline void stir(struct fixture *f, size_t i)
{
	struct cm_device_row *row = &f->stage->device[i].row;
	struct cm_stat_pool *pool = &row->stat[random_below(f, 2) ? CM_POOL_SMALL : CM_POOL_LARGE];
	int64_t *counter[] = {&pool->current[random_below(f, CM_STAT_COUNT)],
			      &pool->freed[CM_STAT_ALLOCATION],
			      &pool->base[CM_STAT_ALLOCATION],
			      &row->stat[CM_POOL_ALL].peak[CM_STAT_ALLOCATED_BYTES],
			      &row->scalar[random_below(f, CM_SCALAR_COUNT)],
			      &row->other_bytes[CM_UNCACHED_ASYNC].current};
	const uint32_t bits = random_below(f, 64);
	int64_t *to = counter[random_below(f, 6)];

	*to = cm_wrap_add(*to, (int64_t)(((uint64_t)f->seed << 32 | f->seed) >> bits));
	f->stage->process[i].life = random_below(f, 8) ? CM_LIFE_RUNNING : CM_LIFE_CRASHED;
	f->stage->device[i].torn = !random_below(f, 9);
	f->stage->watched[i].has_host = random_below(f, 2);
	f->stage->watched[i].host.allocated_bytes.current = random_below(f, 3) * 4096;
}

static inline void step(struct fixture *f)
{
	size_t i;

	stage_tick(f->stage);
	for (i = 0; i < f->stage->sample.count; i++) {
		stir(f, i);
		f->stage->process[i].age_ns = f->stage->process[i].life == CM_LIFE_RUNNING
						      ? f->stage->sample.time_ns - BORN_NS
						      : 0;
	}
}

static inline void fill_stage(struct fixture *f)
{
	size_t i;

	for (i = 0; i < PROCESSES; i++)
		(void)stage_add(f->stage, 100 + (pid_t)i, "alice", "python3 train.py", i % 2);
}

static inline struct cm_recorder *open_recorder(struct fixture *f)
{
	struct cm_recorder *recorder;

	assert_int_equal(cm_recorder_open(f->path, &recorder), CM_EXIT_OK);
	return recorder;
}

static inline void record(struct fixture *f, size_t samples)
{
	struct cm_recorder *recorder = open_recorder(f);

	for (; samples; samples--) {
		step(f);
		assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	}
	cm_recorder_close(recorder);
}

static inline void assert_same_values(const struct cm_value *a, const struct cm_value *b,
				      size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		assert_int_equal(a[i].kind, b[i].kind);
		assert_int_equal(a[i].alarming, b[i].alarming);
		if (a[i].kind == CM_VALUE_TEXT)
			assert_string_equal(a[i].text, b[i].text);
		else if (a[i].kind == CM_VALUE_REAL)
			assert_true(a[i].real == b[i].real);
		else
			assert_int_equal(a[i].number, b[i].number);
	}
}

/* All columns of `ls` and `top` have the same values. */
static inline void assert_same_process(const struct cm_watched *a, const struct cm_watched *b)
{
	struct cm_value first[CM_WATCH_COLUMN_COUNT] = {0}, second[CM_WATCH_COLUMN_COUNT] = {0};
	struct cm_watch_texts texts[2];
	size_t d;

	assert_int_equal(a->start_time, b->start_time);
	assert_int_equal(a->devices, b->devices);
	assert_string_equal(a->identity.slurm_job_id, b->identity.slurm_job_id);
	cm_watch_fill_process(a, first);
	cm_watch_fill_process(b, second);
	for (d = 0; d < a->devices; d++) {
		assert_int_equal(a->device[d].torn, b->device[d].torn);
		cm_watch_fill_device(a, &a->device[d], &texts[0], first);
		cm_watch_fill_device(b, &b->device[d], &texts[1], second);
		assert_int_equal(a->device[d].row.scalar[CM_SCALAR_wait_ns],
				 b->device[d].row.scalar[CM_SCALAR_wait_ns]);
		assert_same_values(first, second, CM_WATCH_COLUMN_COUNT);
	}
}

static inline void assert_same_sample(const struct cm_watch_sample *a,
				      const struct cm_watch_sample *b)
{
	size_t i;

	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->monotonic_ns, b->monotonic_ns);
	assert_int_equal(a->count, b->count);
	for (i = 0; i < a->count; i++)
		assert_same_process(&a->process[i], &b->process[i]);
}

static inline struct cm_watch_source *open_replay(struct fixture *f)
{
	struct cm_watch_source *source;

	assert_int_equal(cm_watch_replay_open(&f->options, false, &source), CM_EXIT_OK);
	return source;
}

static inline size_t count_samples(struct fixture *f)
{
	struct cm_watch_source *source = open_replay(f);
	struct cm_watch_sample sample;
	size_t n = 0;

	while (!source->take(source, &sample))
		n++;
	assert_int_equal(source->take(source, &sample), -ENODATA);
	cm_watch_close(source);
	return n;
}

#endif
