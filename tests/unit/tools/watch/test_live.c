/* SPDX-License-Identifier: MIT */
/* Samples of the processes that run: what changes between two of them, and what ends. */
#include "tools/watch/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/counters.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"
#include "tools/cli/exits.h"

#define GONE 5000001 /* beyond the largest pid that Linux gives out */

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	char gone[96]; /* the file of a process that is not there */
	struct cm_region *region;
	struct cm_device_row *row;
	struct cm_options options;
	struct cm_watch_source *source;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	if (own_region_make(f->dir, (struct cm_region_params){0}, &f->region) ||
	    cm_region_commit(f->region, CM_TABLE_DEVICE, 1))
		return -1;
	f->row = cm_region_row(f->region, CM_TABLE_DEVICE, 0);
	f->row->flags = CM_DEVICE_USED;
	f->region->header->state = CM_REGION_LIVE;
	f->options.dir = f->dir;
	(void)snprintf(f->gone, sizeof(f->gone), "%s/" CM_REGION_PREFIX "%u.%d.4242", f->dir,
		       (unsigned)geteuid(), GONE);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_watch_close(f->source);
	(void)unlink(f->gone);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

static struct cm_watch_sample take(struct fixture *f)
{
	struct cm_watch_sample sample;

	if (!f->source)
		assert_int_equal(cm_watch_live_open(&f->options, &f->source), CM_EXIT_OK);
	assert_int_equal(f->source->take(f->source, &sample), 0);
	return sample;
}

CM_TEST_WITH(a_sample_has_the_figures_of_its_time, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_sample sample = take(f);
	uint64_t before = sample.monotonic_ns;

	assert_int_equal(sample.count, 1);
	assert_int_equal(sample.process[0].process->pid, getpid());
	assert_int_equal(sample.process[0].devices, 1);
	assert_null(sample.process[0].survey);
	cm_counters_alloc(f->row, CM_POOL_LARGE, 4096, 4000);
	sample = take(f);
	assert_true(sample.monotonic_ns > before);
	assert_int_equal(cm_summary_pool(&sample.process[0].device[0].row, CM_POOL_ALL).allocated,
			 4096);
	f->source->want_survey = true;
	sample = take(f);
	assert_non_null(sample.process[0].survey);
}

CM_TEST_WITH(a_change_under_way_is_told, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_sample sample;

	cm_counters_begin(f->row);
	sample = take(f);
	assert_true(sample.process[0].device[0].torn);
	cm_counters_end(f->row);
	sample = take(f);
	assert_false(sample.process[0].device[0].torn);
}

CM_TEST_WITH(a_process_that_ends_is_told, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_sample sample = take(f);

	assert_int_equal(sample.process[0].process->life, CM_LIFE_RUNNING);
	f->region->header->state = CM_REGION_EXITED;
	sample = take(f);
	assert_int_equal(sample.process[0].process->life, CM_LIFE_EXITED);
}

CM_TEST_WITH(a_new_region_is_found, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_sample sample = take(f);
	int tries;

	assert_int_equal(link(f->region->path, f->gone), 0);
	for (tries = 0; tries < 100 && sample.count < 2; tries++) {
		(void)usleep(50000);
		sample = take(f);
	}
	assert_int_equal(sample.count, 2);
}

CM_TEST_WITH(only_those_that_are_named_are_watched, setup, teardown)
{
	struct fixture *f = *state;
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	f->options.pid = pid;
	assert_int_equal(take(f).count, 1);
	cm_watch_close(f->source);
	f->source = NULL;
	f->options.pid = "no such command";
	assert_int_equal(cm_watch_live_open(&f->options, &f->source), CM_EXIT_NO);
}
