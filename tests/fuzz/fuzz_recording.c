/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a recording: it is refused, or played, without harm.
 *
 * The first byte chooses what is read, by its lowest two bits. 0: what follows is a file. 1: it is
 * samples, of which each begins with its length in a byte; they come in frames whose checks are
 * right. 2: the same, all samples in one frame.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/cli/exits.h"
#include "tools/watch/columns.h"
#include "tools/watch/recording.h"
#include "tools/watch/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

#define SAMPLES_MAX 200

static void put(int fd, const void *bytes, size_t count)
{
	MUST(write(fd, bytes, count) == (ssize_t)count);
}

static void put_frame(int fd, const uint8_t *data, size_t bytes, bool first)
{
	struct cm_recording_frame frame = {.bytes = (uint32_t)bytes,
					   .flags = first ? CM_RECORDING_KEY : 0,
					   .time_ns = 1000,
					   .check = cm_recording_check(data, bytes)};

	frame.header_check = cm_recording_check(&frame,
						offsetof(struct cm_recording_frame, header_check));
	put(fd, &frame, sizeof(frame));
	put(fd, data, bytes);
}

static void put_frames(int fd, const uint8_t *data, size_t bytes, bool all_in_one)
{
	const struct cm_recording_header header = {.magic = CM_RECORDING_MAGIC,
						   .version = CM_RECORDING_VERSION,
						   .header_bytes = sizeof(header),
						   .figures = CM_FIGURE_COUNT};
	bool first = true;
	size_t length;

	put(fd, &header, sizeof(header));
	for (; bytes; data += length, bytes -= length) {
		length = all_in_one ? bytes : *data;
		if (!all_in_one) {
			data++;
			bytes--;
		}
		length = length < bytes ? length : bytes;
		if (length)
			put_frame(fd, data, length, first);
		first = false;
	}
}

static void show(const struct cm_watch_sample *sample)
{
	struct cm_value values[CM_WATCH_COLUMN_COUNT] = {0};
	struct cm_watch_texts texts;
	size_t i, d;

	for (i = 0; i < sample->count; i++) {
		cm_watch_fill_process(&sample->process[i], values);
		for (d = 0; d < sample->process[i].devices; d++)
			cm_watch_fill_device(&sample->process[i], &sample->process[i].device[d],
					     &texts, values);
	}
}

static void play(const struct cm_options *options)
{
	struct cm_watch_source *source;
	struct cm_watch_sample sample;
	int i;

	if (cm_watch_replay_open(options, false, &source))
		return;
	for (i = 0; i < SAMPLES_MAX && !source->take(source, &sample); i++)
		show(&sample);
	(void)source->seek(source, -(int64_t)500, 3);
	if (!source->take(source, &sample))
		show(&sample);
	source->close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct cm_options options = {0};
	FILE *nowhere = fopen("/dev/null", "we");
	char path[32];

	MUST(fd >= 0 && nowhere);
	if (bytes && (data[0] & 3) == 0)
		put(fd, data + 1, bytes - 1);
	else if (bytes)
		put_frames(fd, data + 1, bytes - 1, data[0] & 2);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	options.from = path;
	cm_complain_to(nowhere);
	play(&options);
	cm_complain_to(NULL);
	(void)fclose(nowhere);
	(void)close(fd);
	return 0;
}
