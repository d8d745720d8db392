/* SPDX-License-Identifier: MIT */
/* Recordings: what was recorded is played back, whatever happened to the recorder or the file. */
#include "tools/watch/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/tick.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/tools/top/stage.h"
#include "tools/cli/exits.h"
#include "tools/watch/columns.h"
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

static int setup(void **state)
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

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_complain_to(NULL);
	(void)fclose(f->complaints);
	(void)unlink(f->path);
	free(f->stage);
	free(f);
	return 0;
}

static const char *said(struct fixture *f)
{
	(void)fflush(f->complaints);
	return f->said;
}

static uint32_t random_below(struct fixture *f, uint32_t most)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 17;
	f->seed ^= f->seed << 5;
	return f->seed % most;
}

/* Changes what can change, with numbers of all sizes and signs. */
static void stir(struct fixture *f, size_t i)
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

static void step(struct fixture *f)
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

static void fill_stage(struct fixture *f)
{
	size_t i;

	for (i = 0; i < PROCESSES; i++)
		(void)stage_add(f->stage, 100 + (pid_t)i, "alice", "python3 train.py", i % 2);
}

static struct cm_recorder *open_recorder(struct fixture *f)
{
	struct cm_recorder *recorder;

	assert_int_equal(cm_recorder_open(f->path, &recorder), CM_EXIT_OK);
	return recorder;
}

static void record(struct fixture *f, size_t samples)
{
	struct cm_recorder *recorder = open_recorder(f);

	for (; samples; samples--) {
		step(f);
		assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
	}
	cm_recorder_close(recorder);
}

static void assert_same_values(const struct cm_value *a, const struct cm_value *b, size_t count)
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
static void assert_same_process(const struct cm_watched *a, const struct cm_watched *b)
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

static void assert_same_sample(const struct cm_watch_sample *a, const struct cm_watch_sample *b)
{
	size_t i;

	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->monotonic_ns, b->monotonic_ns);
	assert_int_equal(a->count, b->count);
	for (i = 0; i < a->count; i++)
		assert_same_process(&a->process[i], &b->process[i]);
}

static struct cm_watch_source *open_replay(struct fixture *f)
{
	struct cm_watch_source *source;

	assert_int_equal(cm_watch_replay_open(&f->options, false, &source), CM_EXIT_OK);
	return source;
}

static size_t count_samples(struct fixture *f)
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

static void what_was_recorded_is_played(void **state)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder = open_recorder(f);
	struct cm_watch_source *source = NULL;
	struct cm_watch_sample sample;
	size_t i;

	fill_stage(f);
	(void)snprintf(f->stage->watched[1].identity.slurm_job_id, 21, "4711");
	for (i = 0; i < SAMPLES; i++) {
		if (i == 10) /* one ends, one comes, one becomes another program */
			f->stage->sample.count--;
		if (i == 20)
			(void)stage_add(f->stage, 300, "bob", "./solver", 2);
		if (i == 25)
			(void)snprintf(f->stage->process[0].command, 512, "python3 eval.py");
		step(f);
		assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), 0);
		/* A reader follows the recorder. */
		if (!source)
			source = open_replay(f);
		assert_int_equal(source->take(source, &sample), 0);
		assert_same_sample(&sample, &f->stage->sample);
	}
	assert_int_equal(source->take(source, &sample), -ENODATA);
	cm_watch_close(source);
	cm_recorder_close(recorder);
}

static void what_cannot_be_read_has_its_reason(void **state)
{
	struct fixture *f = *state;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;

	fill_stage(f);
	f->stage->process[2].error = -EACCES;
	f->stage->watched[2].devices = 0;
	(void)snprintf(f->stage->process[2].why, 32, "not yours");
	record(f, 1);
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.process[2].process->error, -EACCES);
	assert_string_equal(sample.process[2].process->why, "not yours");
	assert_null(sample.process[2].process->reader);
	cm_watch_close(source);
}

static void free_memory_is_that_of_the_card(void **state)
{
	struct fixture *f = *state;
	struct cm_watch_source *source;
	struct cm_watch_sample sample;

	fill_stage(f);
	f->stage->device[0].row.free_bytes = 5000;
	f->stage->device[0].row.free_seen_ns = 10;
	f->stage->device[2].row.free_bytes = 7000;
	f->stage->device[2].row.free_seen_ns = 20;
	record(f, 1);
	source = open_replay(f);
	assert_int_equal(source->take(source, &sample), 0);
	assert_int_equal(sample.process[0].device[0].row.free_bytes, 7000);
	assert_int_equal(sample.process[4].device[0].row.free_bytes, 7000);
	assert_true(sample.process[4].device[0].row.free_seen_ns > 0);
	assert_int_equal(sample.process[1].device[0].row.free_seen_ns, 0); /* another card */
	cm_watch_close(source);
}

static void a_second_recorder_goes_on_where_the_first_ended(void **state)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder, *other;
	struct stat st;

	fill_stage(f);
	record(f, 3);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* The first was killed in the middle of a sample. */
	assert_int_equal(truncate(f->path, st.st_size - 5), 0);
	record(f, 4);
	assert_int_equal(count_samples(f), 6);
	recorder = open_recorder(f);
	assert_int_equal(cm_recorder_open(f->path, &other), CM_EXIT_TARGET);
	assert_non_null(strstr(said(f), "another cudamemstat is recording to it"));
	cm_recorder_close(recorder);
}

static void other_files_are_not_written_to(void **state)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder;
	FILE *file = fopen(f->path, "we");
	struct stat st;

	assert_non_null(file);
	(void)fputs("my notes\n", file);
	(void)fclose(file);
	assert_int_equal(cm_recorder_open(f->path, &recorder), CM_EXIT_TARGET);
	assert_non_null(strstr(said(f), "not a recording of 'cudamemstat stat --record'"));
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_size, 9);
	assert_int_equal(cm_recorder_open("/dev/null", &recorder), CM_EXIT_TARGET);
	assert_int_equal(cm_recorder_open("no/such/folder/file", &recorder), CM_EXIT_TARGET);
	(void)unlink(f->path);
	assert_int_equal(symlink("/nowhere", f->path), 0);
	assert_int_equal(cm_recorder_open(f->path, &recorder), CM_EXIT_TARGET);
}

/* Reads a file whole and writes it. */
struct file {
	uint8_t *bytes;
	size_t count;
};

static struct file read_file(const char *path)
{
	struct file file = {calloc(1, 1u << 20), 0};
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 || !file.bytes ? -1 : read(fd, file.bytes, 1u << 20);

	assert_true(n > 0);
	(void)close(fd);
	file.count = (size_t)n;
	return file;
}

static void write_file(const char *path, const void *bytes, size_t count)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	(void)close(fd);
}

static void a_killed_recorder_loses_at_most_the_last_sample(void **state)
{
	struct fixture *f = *state;
	size_t ends[4], length, n = 0;
	struct file file;
	struct stat st;

	fill_stage(f);
	for (n = 0; n < 4; n++) {
		record(f, 1);
		assert_int_equal(stat(f->path, &st), 0);
		ends[n] = (size_t)st.st_size;
	}
	file = read_file(f->path);
	for (length = ends[0]; length <= ends[3]; length++) {
		write_file(f->path, file.bytes, length);
		for (n = 0; n < 4 && ends[n] <= length; n++)
			;
		assert_int_equal(count_samples(f), n);
	}
	/* Zeros, as after a loss of power. */
	memset(file.bytes + ends[2], 0, ends[3] - ends[2]);
	write_file(f->path, file.bytes, file.count);
	assert_int_equal(count_samples(f), 3);
	free(file.bytes);
}

/* Opens a file and reads all that can be read. The number of samples; -1: it is refused. */
static int play(struct fixture *f)
{
	struct cm_watch_source *source;
	struct cm_watch_sample sample;
	int n = 0, err;

	rewind(f->complaints);
	memset(f->said, 0, sizeof(f->said));
	if (cm_watch_replay_open(&f->options, false, &source)) {
		assert_true(*said(f));
		return -1;
	}
	while (!(err = source->take(source, &sample)))
		n++;
	assert_true(err == -ENODATA || err == -EBADMSG);
	if (err == -EBADMSG)
		assert_int_equal(cm_watch_fail(source, err), CM_EXIT_TARGET);
	cm_watch_close(source);
	return n;
}

static void damage_is_found(void **state)
{
	struct fixture *f = *state;
	struct file file;
	size_t i, undetected = 0;

	fill_stage(f);
	record(f, 3);
	file = read_file(f->path);
	for (i = 0; i < file.count; i++) {
		const uint8_t mask = (uint8_t)(1u << i % 8);

		file.bytes[i] ^= mask;
		write_file(f->path, file.bytes, file.count);
		/* The host's name and what is reserved have no check. */
		if (play(f) == 3 && i >= sizeof(struct cm_recording_header))
			undetected++;
		file.bytes[i] ^= mask;
	}
	assert_int_equal(undetected, 0);
	free(file.bytes);
}

/* Bytes that no recorder wrote, behind headers whose checks are right. */
static void hostile_bytes_do_no_harm(void **state)
{
	struct fixture *f = *state;
	struct file file;
	struct cm_recording_frame frame;
	size_t i, round;

	fill_stage(f);
	record(f, 2);
	file = read_file(f->path);
	for (round = 0; round < 3000; round++) {
		struct file copy = {malloc(file.count), file.count};
		const size_t at = sizeof(struct cm_recording_header);

		assert_non_null(copy.bytes);
		memcpy(copy.bytes, file.bytes, file.count);
		for (i = random_below(f, 4) + 1; i; i--)
			copy.bytes[at + sizeof(frame) +
				   random_below(f, (uint32_t)(file.count - at - sizeof(frame)))] =
				(uint8_t)random_below(f, 256);
		/* As if it were not packed, in one half. */
		if (round % 2)
			((struct cm_recording_header *)(void *)copy.bytes)->packing =
				CM_PACKING_NONE;
		memcpy(&frame, copy.bytes + at, sizeof(frame));
		frame.check = cm_recording_check(copy.bytes + at + sizeof(frame), frame.bytes);
		frame.header_check = cm_recording_check(
			&frame, offsetof(struct cm_recording_frame, header_check));
		memcpy(copy.bytes + at, &frame, sizeof(frame));
		write_file(f->path, copy.bytes, copy.count);
		(void)play(f);
		free(copy.bytes);
	}
	free(file.bytes);
}

static void files_are_refused_with_a_reason(void **state)
{
	struct fixture *f = *state;
	struct cm_recording_header *header;
	struct cm_watch_source *source;
	struct file file;

	assert_int_equal(cm_watch_replay_open(&f->options, false, &source), CM_EXIT_TARGET);
	assert_non_null(strstr(said(f), "No such file"));
	fill_stage(f);
	record(f, 1);
	assert_true(cm_recording_is(f->path));
	file = read_file(f->path);
	header = (void *)file.bytes;
	header->version = CM_RECORDING_VERSION + 1;
	write_file(f->path, file.bytes, file.count);
	assert_int_equal(play(f), -1);
	assert_non_null(strstr(said(f), "newer version"));
	header->version = CM_RECORDING_VERSION;
	header->figures = 64;
	write_file(f->path, file.bytes, file.count);
	assert_int_equal(play(f), -1);
	assert_non_null(strstr(said(f), "damaged"));
	write_file(f->path, file.bytes, sizeof(*header));
	assert_int_equal(play(f), -1);
	assert_non_null(strstr(said(f), "damaged"));
	header->figures = CM_FIGURE_COUNT;
	write_file(f->path, file.bytes, sizeof(*header));
	assert_int_equal(play(f), -1);
	assert_non_null(strstr(said(f), "no sample yet"));
	write_file(f->path, "text", 4);
	assert_int_equal(play(f), -1);
	assert_non_null(strstr(said(f), "not a recording"));
	assert_false(cm_recording_is(f->path));
	free(file.bytes);
}

static void any_time_can_be_gone_to(void **state)
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

static void samples_are_due_when_they_were_taken(void **state)
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

static void a_sample_of_a_far_future_is_due_some_day(void **state)
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

static void processes_and_devices_are_selected(void **state)
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

static void states_that_come_back_are_short(void **state)
{
	struct fixture *f = *state;
	size_t few, many;

	(void)stage_add(f->stage, 100, "alice", "python3 train.py", 0);
	few = record_states(f, 40);
	many = record_states(f, 1000000);
	print_message("%zu bytes with 40 states, %zu with new ones\n", few, many);
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

static void a_day_of_100_processes_takes_less_than_50_MB(void **state)
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
	print_message("%zu bytes a day\n", (size_t)st.st_size * 86400 / seconds);
	if (CM_PACKING_OWN != CM_PACKING_NONE)
		assert_true((size_t)st.st_size * 86400 / seconds < 50 * 1000 * 1000);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test_setup_teardown(what_was_recorded_is_played, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_has_its_reason, setup,
						teardown),
		cmocka_unit_test_setup_teardown(free_memory_is_that_of_the_card, setup, teardown),
		cmocka_unit_test_setup_teardown(a_second_recorder_goes_on_where_the_first_ended,
						setup, teardown),
		cmocka_unit_test_setup_teardown(other_files_are_not_written_to, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_recorder_loses_at_most_the_last_sample,
						setup, teardown),
		cmocka_unit_test_setup_teardown(damage_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(hostile_bytes_do_no_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(files_are_refused_with_a_reason, setup, teardown),
		cmocka_unit_test_setup_teardown(any_time_can_be_gone_to, setup, teardown),
		cmocka_unit_test_setup_teardown(samples_are_due_when_they_were_taken, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_sample_of_a_far_future_is_due_some_day, setup,
						teardown),
		cmocka_unit_test_setup_teardown(processes_and_devices_are_selected, setup,
						teardown),
		cmocka_unit_test_setup_teardown(states_that_come_back_are_short, setup, teardown),
		cmocka_unit_test_setup_teardown(a_day_of_100_processes_takes_less_than_50_MB, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("tools/watch/recording", cases, NULL, NULL);
}
