/* SPDX-License-Identifier: MIT */
#include "tools/watch/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/output/moment.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"
#include "tools/watch/live.h"
#include "tools/watch/recording.h"

/* A pause in which nothing was recorded is played as one of this length. */
#define PAUSE_NS CM_NS_PER_S
/* At the end of a recording, how often it is checked for new samples. */
#define GROWS_NS CM_NS_PER_S

/* The longest wait for a sample: the times in a recording are foreign data. */
#define WAIT_MOST_NS (CM_NS_PER_S * 24 * 3600)

#define MINUTE_NS (60 * CM_NS_PER_S)

struct replay {
	struct cm_watch_source source;
	const struct cm_options *options;
	struct cm_recording *recording;
	size_t next; /* the sample that is taken next */
	struct cm_watched *watched;
	size_t watched_room;
	struct cm_device_view *devices; /* of all */
	size_t devices_room;
};

/* For the views, the driver said at the time of the sample what is free on a card. */
static void fill_free(const struct replay *replay, struct cm_device_row *row)
{
	const struct cm_delta_card *card = cm_delta_find_card(&replay->recording->last, row->uuid);

	if (!card || card->free < 0)
		return;
	row->free_bytes = (uint64_t)card->free;
	row->free_seen_ns = 1;
}

/* Appends the devices of a process that -d selects to those that are filled already. */
static bool fill_devices(struct replay *replay, const struct cm_delta_process *from, size_t *count)
{
	struct cm_device_view *view;
	uint32_t i;

	for (i = 0; i < from->devices; i++) {
		const struct cm_delta_device *device = &from->device[i];

		if (!cm_reserve(&replay->devices, &replay->devices_room, *count + 1))
			return false;
		view = &replay->devices[*count];
		memset(view, 0, sizeof(*view));
		view->index = device->index;
		view->torn = device->figure[CM_FIGURE_TORN] != 0;
		view->row.flags = device->flags;
		view->row.ordinal = device->ordinal;
		memcpy(view->row.uuid, device->uuid, sizeof(view->row.uuid));
		memcpy(view->row.name, device->name, sizeof(view->row.name));
		view->row.total_bytes = device->total_bytes;
		cm_figures_write(device->figure, &view->row);
		fill_free(replay, &view->row);
		*count += cm_device_is_chosen(replay->options, &view->row);
	}
	return true;
}

static void fill_process(struct cm_delta_process *from, uint64_t time_ns, struct cm_watched *to)
{
	struct cm_process *process = &from->process;

	process->life = (enum cm_life)from->value[CM_DELTA_LIFE];
	process->age_ns = from->born_ns && from->born_ns < time_ns && !cm_process_is_dead(process)
				  ? time_ns - from->born_ns
				  : 0;
	memset(to, 0, sizeof(*to));
	to->process = process;
	to->ns_pid = from->ns_pid;
	to->start_time = from->start_time;
	memcpy(to->version, from->version, sizeof(to->version));
	to->identity = from->identity;
	to->has_host = from->value[CM_DELTA_HAS_HOST] != 0;
	to->host.allocated_bytes.current = from->value[CM_DELTA_HOST_BYTES];
}

/* Makes a sample of the frame that was read. 0, -ENOMEM. */
static int fill(struct replay *replay, uint64_t time_ns, struct cm_watch_sample *ret_sample)
{
	struct cm_delta *frame = &replay->recording->last;
	size_t count = 0, devices = 0, first, i;

	if (!cm_reserve(&replay->watched, &replay->watched_room, frame->count + 1) ||
	    !cm_reserve(&replay->devices, &replay->devices_room, 1))
		return -ENOMEM;
	for (i = 0; i < frame->count; i++) {
		if (!cm_process_is_wanted(replay->options, &frame->process[i].process))
			continue;
		first = devices;
		fill_process(&frame->process[i], time_ns, &replay->watched[count]);
		if (!fill_devices(replay, &frame->process[i], &devices))
			return -ENOMEM;
		replay->watched[count++].devices = devices - first;
	}
	/* The array has its place only now. */
	for (i = 0, devices = 0; i < count; i++) {
		replay->watched[i].device = replay->devices + devices;
		devices += replay->watched[i].devices;
	}
	*ret_sample = (struct cm_watch_sample){time_ns, frame->monotonic_ns, replay->watched,
					       count};
	return 0;
}

/* When the sample after number `taken` is due. */
static void set_due(struct replay *replay, size_t taken)
{
	const struct cm_recording_place *place = replay->recording->place;
	struct cm_watch_source *source = &replay->source;
	const uint64_t now = cm_monotonic_ns();
	uint64_t gap;
	double wait;

	if (taken + 1 >= replay->recording->count || source->speed <= 0) {
		source->due_ns = now;
		return;
	}
	gap = place[taken + 1].time_ns - place[taken].time_ns;
	if (place[taken + 1].flags & CM_RECORDING_START && gap > PAUSE_NS)
		gap = PAUSE_NS;
	wait = (double)gap / source->speed;
	wait = wait < (double)WAIT_MOST_NS ? wait : (double)WAIT_MOST_NS;
	/* Counted from the time at which this one was due, so that small delays do not add up. */
	if (!source->due_ns || (now > source->due_ns && now - source->due_ns > (uint64_t)wait))
		source->due_ns = now;
	source->due_ns += (uint64_t)wait;
}

static int take_sample(struct cm_watch_source *source, struct cm_watch_sample *ret_sample)
{
	struct replay *replay = (struct replay *)source;
	struct cm_recording *recording = replay->recording;
	char why[CM_RECORDING_WHY_BYTES];
	int err;

	if (replay->next >= recording->count)
		(void)cm_recording_scan(recording, why); /* what is there can still be played */
	if (replay->next >= recording->count) {
		source->due_ns = cm_monotonic_ns() + GROWS_NS;
		return -ENODATA;
	}
	source->last_ns = recording->place[recording->count - 1].time_ns;
	err = cm_recording_read(recording, replay->next);
	if (!err)
		err = fill(replay, recording->place[replay->next].time_ns, ret_sample);
	if (err)
		return err;
	set_due(replay, replay->next++);
	return 0;
}

static size_t seek(struct cm_watch_source *source, int64_t by_ns, size_t before)
{
	struct replay *replay = (struct replay *)source;
	const struct cm_recording *recording = replay->recording;
	const size_t last = replay->next ? replay->next - 1 : 0;
	const uint64_t now = recording->place[last].time_ns;
	const uint64_t back = by_ns < 0 ? -(uint64_t)by_ns : 0;
	uint64_t to;

	if (by_ns < 0)
		to = now > back ? now - back : 0;
	else if (__builtin_add_overflow(now, (uint64_t)by_ns, &to))
		to = UINT64_MAX;
	replay->next = cm_recording_find(recording, to);
	if (by_ns < 0 && replay->next && replay->next >= last)
		replay->next = last - (last > 0); /* at least one sample back */
	if (before > replay->next)
		before = replay->next;
	replay->next -= before;
	source->due_ns = 0;
	return before;
}

static void close_replay(struct cm_watch_source *source)
{
	struct replay *replay = (struct replay *)source;

	cm_recording_close(replay->recording);
	free(replay->watched);
	free(replay->devices);
	free(replay);
}

/* Goes to the time of --at. 0, or an exit code after a complaint. */
static int go_to(struct replay *replay, const char *at)
{
	const struct cm_watch_source *source = &replay->source;
	uint64_t time_ns;

	if (cm_moment_parse(at, source->first_ns, source->last_ns, &time_ns))
		return cm_fail(CM_EXIT_USAGE,
			       "--at '%s' is no time; want +15m after the begin, -15m before the "
			       "end, 14:05, 14:05:30 or '2026-03-04 14:05'",
			       at);
	/* A time without seconds means any sample within its minute. */
	if (time_ns > source->last_ns + CM_NS_PER_S ||
	    (time_ns < source->first_ns && source->first_ns - time_ns > MINUTE_NS))
		return cm_fail(CM_EXIT_USAGE, "--at '%s' is outside the recording, from %s to %s",
			       at, cm_time_format(source->first_ns).text,
			       cm_time_format(source->last_ns).text);
	replay->next = cm_recording_find(replay->recording, time_ns);
	return CM_EXIT_OK;
}

static int open_recording(struct replay *replay, const char *path, bool at_end)
{
	struct cm_recording *recording;
	char why[CM_RECORDING_WHY_BYTES];

	if (cm_recording_open(path, &replay->recording, why))
		return cm_fail(CM_EXIT_TARGET, "%s: %s", path, why);
	recording = replay->recording;
	if (!recording->count)
		return cm_fail(CM_EXIT_TARGET, "%s: the recording has no sample yet", path);
	replay->source.first_ns = recording->place[0].time_ns;
	replay->source.last_ns = recording->place[recording->count - 1].time_ns;
	replay->source.host = recording->header.host;
	replay->source.file = path;
	replay->next = at_end ? recording->count - 1 : 0;
	return replay->options->at ? go_to(replay, replay->options->at) : CM_EXIT_OK;
}

int cm_watch_replay_open(const struct cm_options *options, bool at_end,
			 struct cm_watch_source **ret_source)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	int exit;

	if (!replay)
		return cm_fail_memory();
	replay->source.take = take_sample;
	replay->source.seek = seek;
	replay->source.close = close_replay;
	replay->source.speed = options->speed;
	replay->options = options;
	exit = open_recording(replay, options->from, at_end);
	if (exit) {
		close_replay(&replay->source);
		return exit;
	}
	*ret_source = &replay->source;
	return CM_EXIT_OK;
}

int cm_watch_open(const struct cm_options *options, bool at_end,
		  struct cm_watch_source **ret_source)
{
	return options->from ? cm_watch_replay_open(options, at_end, ret_source)
			     : cm_watch_live_open(options, ret_source);
}

int cm_watch_fail(const struct cm_watch_source *source, int err)
{
	const struct replay *replay = (const struct replay *)source;

	if (err == -ENOMEM)
		return cm_fail_memory();
	if (!source->file)
		return cm_fail(CM_EXIT_TARGET, "%s", strerror(-err));
	if (err != -EBADMSG || replay->next >= replay->recording->count)
		return cm_fail(CM_EXIT_TARGET, "%s: %s", source->file, strerror(-err));
	return cm_fail(
		CM_EXIT_TARGET, "%s: the recording is damaged at %s; --at goes to a later time",
		source->file, cm_time_format(replay->recording->place[replay->next].time_ns).text);
}

void cm_watch_sleep_until(uint64_t monotonic_ns)
{
	const struct timespec until = {(time_t)(monotonic_ns / CM_NS_PER_S),
				       (long)(monotonic_ns % CM_NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		continue;
}
