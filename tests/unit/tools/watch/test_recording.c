/* SPDX-License-Identifier: MIT */
/* Recordings: what was recorded is played back, whatever happened to the recorder or the file. */
#include "tools/watch/recording.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/tools/watch/recording_stage.h"

CM_TEST_WITH(what_was_recorded_is_played, setup, teardown)
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

CM_TEST_WITH(what_cannot_be_read_has_its_reason, setup, teardown)
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

CM_TEST_WITH(free_memory_is_that_of_the_card, setup, teardown)
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

CM_TEST_WITH(a_second_recorder_goes_on_where_the_first_ended, setup, teardown)
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

CM_TEST_WITH(other_files_are_not_written_to, setup, teardown)
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

/* Cut last: a file that is emptied and written anew has ext4 wait for the disk, each time. */
static void write_file(const char *path, const void *bytes, size_t count)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	assert_int_equal(ftruncate(fd, (off_t)count), 0);
	(void)close(fd);
}

CM_TEST_WITH(a_killed_recorder_loses_at_most_the_last_sample, setup, teardown)
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

CM_TEST_WITH(a_full_disk_takes_no_earlier_sample, setup, teardown)
{
	struct fixture *f = *state;
	struct cm_recorder *recorder;
	struct rlimit whole, full;
	struct stat before, after;

	fill_stage(f);
	record(f, 3);
	assert_int_equal(stat(f->path, &before), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
	full = (struct rlimit){.rlim_cur = (rlim_t)before.st_size + 5, .rlim_max = whole.rlim_max};
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)alarm(60); /* one that tries again for ever */
	recorder = open_recorder(f);
	step(f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	assert_int_equal(cm_recorder_add(recorder, &f->stage->sample), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
	(void)alarm(0);
	cm_recorder_close(recorder);
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	record(f, 1);
	assert_int_equal(count_samples(f), 4);
}

CM_TEST_WITH(damage_is_found, setup, teardown)
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
CM_TEST_WITH(hostile_bytes_do_no_harm, setup, teardown)
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

CM_TEST_WITH(files_are_refused_with_a_reason, setup, teardown)
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
