/* SPDX-License-Identifier: MIT */
/* A recording as a source of samples: which ones it gives, and when. */
#include "tools/watch/replay.h"

#include "stats/tick.h"
#include "tests/unit/tools/watch/recording_stage.h"

CM_TEST_WITH(any_time_can_be_gone_to, setup, teardown)
{
	struct fixture *f = *state;
	const uint64_t second = UINT64_C(1000000000);
	struct cm_watch_source *source;
	struct cm_watch_sample sample;
	uint64_t first;

	fill_stage(f);
	record(f, 700); /* more than one frame needs none before it */
	source = open_replay(f);
	first = source->first_ns;
	assert_int_equal(source->last_ns - first, 699 * second);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, first);
	assert_int_equal(source->seek(source, (int64_t)(650 * second), 0), 0);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, first + 650 * second);
	assert_int_equal(source->seek(source, -(int64_t)(60 * second), 5), 5);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, first + 585 * second);
	/* Beyond the ends it stays there. */
	assert_int_equal(source->seek(source, INT64_MIN, 5), 0);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, first);
	assert_int_equal(source->seek(source, INT64_MAX, 0), 0);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, source->last_ns);
	assert_same_sample(&sample, &f->stage->sample);
	cm_watch_close(source);
	f->options.at = "-10";
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.time_ns, first + 689 * second);
	cm_watch_close(source);
	f->options.at = "noon";
	assert_int_equal(cm_watch_replay_open(&f->options, false, &source), CM_EXIT_USAGE);
}

CM_TEST_WITH(samples_are_due_when_they_were_taken, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;
	uint64_t due;

	fill_stage(f);
	record(f, 3);
	f->stage->sample.time_ns += UINT64_C(3600000000000); /* nothing was recorded for an hour */
	record(f, 1);
	f->options.speed = 10;
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	due = source->due_ns;
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(source->due_ns - due, 100000000);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(source->due_ns - due, 200000000);
	cm_watch_close(source);
}

CM_TEST_WITH(a_sample_of_a_far_future_is_due_some_day, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;

	fill_stage(f);
	recorder = open_recorder(f);
	step(f);
	assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	f->stage->sample.time_ns = UINT64_MAX;
	assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	cm_recorder_close(recorder);
	f->options.speed = 0.1;
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_true(source->due_ns > cm_monotonic_ns() + UINT64_C(3600000000000));
	assert_true(source->due_ns < cm_monotonic_ns() + UINT64_C(864000000000000));
	cm_watch_close(source);
}

CM_TEST_WITH(processes_and_devices_are_selected, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;

	fill_stage(f);
	(void)stage_add(f->stage, 300, "bob", "./solver", 2);
	record(f, 1);
	f->options.pid = "solver";
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.count, 1);
	assert_int_equal(sample.process[0].process->pid, 300);
	cm_watch_close(source);
	f->options.pid = "101";
	f->options.devices[0] = "0"; /* it is on device 1 */
	f->options.device_count = 1;
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.count, 1);
	assert_int_equal(sample.process[0].devices, 0);
	cm_watch_close(source);
}
