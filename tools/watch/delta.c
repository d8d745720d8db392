/* SPDX-License-Identifier: MIT */
#include "tools/watch/delta.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tools/output/reserve.h"

/* Bits of the number that says which values of a process changed. */
#define DEVICE_CHANGED (UINT64_C(1) << CM_DELTA_VALUE_COUNT)
/* Between two samples this differs by the time that reading took. */
#define BORN_SLACK_NS (2 * UINT64_C(1000000000))

void cm_delta_fini(struct cm_delta *last)
{
	size_t i;

	for (i = 0; i < last->count; i++)
		free(last->process[i].device);
	free(last->process);
	memset(last, 0, sizeof(*last));
}

/* What never changes while a process lives. */
static void write_process(const struct cm_delta_process *to, struct cm_bytes *bytes)
{
	const struct cm_process *process = &to->process;
	uint32_t i;

	cm_bytes_put_number(bytes, (uint64_t)process->pid);
	cm_bytes_put_number(bytes, (uint64_t)to->ns_pid);
	cm_bytes_put_number(bytes, process->uid);
	cm_bytes_put_number(bytes, to->start_time);
	cm_bytes_put_number(bytes, to->born_ns);
	cm_bytes_put_number(bytes, (uint64_t)-process->error);
	cm_bytes_put_text(bytes, process->why);
	cm_bytes_put_text(bytes, process->user);
	cm_bytes_put_text(bytes, process->comm);
	cm_bytes_put_text(bytes, process->command);
	cm_bytes_put_text(bytes, process->path);
	cm_bytes_put_text(bytes, to->version);
	cm_bytes_put_text(bytes, to->identity.container_id);
	cm_bytes_put_text(bytes, to->identity.pod_uid);
	cm_bytes_put_text(bytes, to->identity.slurm_job_id);
	cm_bytes_put_number(bytes, to->devices);
	for (i = 0; i < to->devices; i++)
		cm_delta_device_write(&to->device[i], bytes);
}

static void read_texts(struct cm_bytes_reader *from, struct cm_delta_process *to)
{
	struct cm_process *process = &to->process;
	struct cm_identity *identity = &to->identity;

	cm_bytes_get_text(from, process->why, sizeof(process->why));
	cm_bytes_get_text(from, process->user, sizeof(process->user));
	cm_bytes_get_text(from, process->comm, sizeof(process->comm));
	cm_bytes_get_text(from, process->command, sizeof(process->command));
	cm_bytes_get_text(from, process->path, sizeof(process->path));
	cm_bytes_get_text(from, to->version, sizeof(to->version));
	cm_bytes_get_text(from, identity->container_id, sizeof(identity->container_id));
	cm_bytes_get_text(from, identity->pod_uid, sizeof(identity->pod_uid));
	cm_bytes_get_text(from, identity->slurm_job_id, sizeof(identity->slurm_job_id));
}

/* 0, -ENOMEM. */
static int add_devices(struct cm_delta_process *to, uint32_t devices)
{
	to->device = devices ? calloc(devices, sizeof(*to->device)) : NULL;
	if (devices && !to->device)
		return -ENOMEM;
	to->devices = devices;
	return 0;
}

/* 0, -ENOMEM; what is wrong makes `from` bad. */
static int read_process(struct cm_bytes_reader *from, struct cm_delta_process *to)
{
	struct cm_process *process = &to->process;
	uint32_t i;
	int err;

	process->pid = (pid_t)cm_bytes_get_number(from, INT32_MAX);
	to->ns_pid = (pid_t)cm_bytes_get_number(from, INT32_MAX);
	process->uid = (uid_t)cm_bytes_get_number(from, UINT32_MAX);
	to->start_time = cm_bytes_get_number(from, UINT64_MAX);
	to->born_ns = cm_bytes_get_number(from, UINT64_MAX);
	process->error = -(int)cm_bytes_get_number(from, INT16_MAX);
	read_texts(from, to);
	err = add_devices(to, (uint32_t)cm_bytes_get_number(from, CM_DEVICES_MAX));
	for (i = 0; i < to->devices; i++)
		cm_delta_device_read(from, &to->device[i]);
	return err;
}

/* Copies what a sample says of a process. 0, -ENOMEM. */
static int copy_process(const struct cm_watched *watched, uint64_t time_ns, uint32_t devices,
			struct cm_delta_process *to)
{
	const struct cm_process *process = watched->process;
	uint32_t i;
	int err;

	to->process = *process;
	to->process.reader = NULL;
	to->identity = watched->identity;
	to->ns_pid = watched->ns_pid;
	to->start_time = watched->start_time;
	to->born_ns = process->age_ns && process->age_ns < time_ns ? time_ns - process->age_ns : 0;
	memcpy(to->version, watched->version, sizeof(to->version));
	err = add_devices(to, devices);
	for (i = 0; i < to->devices; i++)
		cm_delta_device_fill(&to->device[i], &watched->device[i]);
	return err;
}

static bool is_same_text(const struct cm_delta_process *old, const struct cm_watched *watched)
{
	const struct cm_process *a = &old->process, *b = watched->process;

	return !strcmp(a->path, b->path) && !strcmp(a->command, b->command) &&
	       !strcmp(a->comm, b->comm) && !strcmp(a->user, b->user) && !strcmp(a->why, b->why) &&
	       !strcmp(old->version, watched->version) &&
	       !strcmp(old->identity.container_id, watched->identity.container_id) &&
	       !strcmp(old->identity.pod_uid, watched->identity.pod_uid) &&
	       !strcmp(old->identity.slurm_job_id, watched->identity.slurm_job_id);
}

/* Whether only what may change while a process lives is different. */
static bool is_same_process(const struct cm_delta_process *old, const struct cm_watched *watched,
			    uint64_t time_ns, uint32_t devices)
{
	const struct cm_process *process = watched->process;
	const uint64_t born = time_ns - process->age_ns;
	uint32_t i;

	if (old->process.pid != process->pid || old->start_time != watched->start_time ||
	    old->ns_pid != watched->ns_pid || old->process.uid != process->uid ||
	    old->process.error != process->error || old->devices != devices ||
	    !is_same_text(old, watched))
		return false;
	/* The wall clock may have been set meanwhile. */
	if (process->age_ns && process->age_ns < time_ns &&
	    born - old->born_ns + BORN_SLACK_NS > 2 * BORN_SLACK_NS)
		return false;
	for (i = 0; i < devices; i++)
		if (!cm_delta_device_is(&old->device[i], &watched->device[i]))
			return false;
	return true;
}

/* The place of a process in the last sample; its count: it was not there. */
static size_t find_old(const struct cm_delta *last, const struct cm_watched *watched,
		       uint64_t time_ns, uint32_t devices, size_t place)
{
	size_t i, at;

	/* Most processes are where they were. */
	for (i = 0; i < last->count; i++) {
		at = (place + i) % last->count;
		if (is_same_process(&last->process[at], watched, time_ns, devices))
			return at;
	}
	return last->count;
}

/* Takes over a process of the last sample; each can be taken once. */
static struct cm_delta_process take_old(struct cm_delta *last, size_t place)
{
	const struct cm_delta_process old = last->process[place];

	last->process[place].device = NULL;
	last->process[place].devices = 0;
	last->process[place].process.pid = -1;
	return old;
}

const struct cm_delta_card *cm_delta_find_card(const struct cm_delta *last, const uint8_t uuid[16])
{
	size_t i;

	for (i = 0; i < last->cards; i++)
		if (!memcmp(last->card[i].uuid, uuid, sizeof(last->card[i].uuid)))
			return &last->card[i];
	return NULL;
}

/* Lists the cards of the processes. Cards that were there before keep their free bytes. */
static void list_cards(struct cm_delta *last)
{
	const struct cm_delta old = *last;
	const struct cm_delta_card *known;
	size_t i, d;

	last->cards = 0;
	for (i = 0; i < last->count; i++) {
		const struct cm_delta_device *device = last->process[i].device;
		const size_t devices = device ? last->process[i].devices : 0;

		for (d = 0; d < devices && last->cards < CM_DELTA_CARDS_MAX; d++) {
			const uint8_t *uuid = device[d].uuid;

			if (cm_delta_find_card(last, uuid))
				continue;
			known = cm_delta_find_card(&old, uuid);
			last->card[last->cards].free = known ? known->free : -1;
			memcpy(last->card[last->cards++].uuid, uuid, sizeof(known->uuid));
		}
	}
}

/* Takes over a new list of processes. */
static void replace(struct cm_delta *last, struct cm_delta *next)
{
	size_t i;

	for (i = 0; i < last->count; i++)
		free(last->process[i].device);
	free(last->process);
	last->process = next->process;
	last->count = next->count;
	last->room = next->room;
	list_cards(last);
}

/* The devices of a process that are recorded. */
static uint32_t devices_of(const struct cm_watched *watched, uint32_t *left)
{
	const uint32_t devices = watched->devices < *left ? (uint32_t)watched->devices : *left;

	*left -= devices;
	return devices;
}

static bool is_same_list(const struct cm_delta *last, const struct cm_watch_sample *sample,
			 size_t count)
{
	uint32_t left = CM_DELTA_DEVICES_MAX;
	size_t i;

	if (count != last->count)
		return false;
	for (i = 0; i < count; i++)
		if (!is_same_process(&last->process[i], &sample->process[i], sample->time_ns,
				     devices_of(&sample->process[i], &left)))
			return false;
	return true;
}

/* Writes which processes there are. 0, -ENOMEM. */
static int write_list(struct cm_delta *last, const struct cm_watch_sample *sample, size_t count,
		      struct cm_bytes *bytes)
{
	struct cm_delta next = {0};
	uint32_t left = CM_DELTA_DEVICES_MAX, devices;
	size_t place;
	int err = 0;

	cm_bytes_put_number(bytes, count);
	if (!cm_reserve(&next.process, &next.room, count))
		return -ENOMEM;
	for (; !err && next.count < count; next.count++) {
		const struct cm_watched *watched = &sample->process[next.count];

		devices = devices_of(watched, &left);
		place = find_old(last, watched, sample->time_ns, devices, next.count);
		if (place < last->count) {
			cm_bytes_put_number(bytes, place + 1);
			next.process[next.count] = take_old(last, place);
			continue;
		}
		err = copy_process(watched, sample->time_ns, devices, &next.process[next.count]);
		cm_bytes_put_number(bytes, 0);
		if (!err)
			write_process(&next.process[next.count], bytes);
	}
	replace(last, &next);
	return err;
}

static bool has_device_changed(const struct cm_delta_process *to, const struct cm_watched *watched)
{
	uint32_t i;

	for (i = 0; i < to->devices; i++)
		if (cm_delta_device_has_changed(&to->device[i], &watched->device[i]))
			return true;
	return false;
}

static void write_values(struct cm_delta_process *to, const struct cm_watched *watched,
			 struct cm_bytes *bytes)
{
	const int64_t value[CM_DELTA_VALUE_COUNT] = {
		[CM_DELTA_LIFE] = watched->process->life,
		[CM_DELTA_HAS_HOST] = watched->has_host,
		[CM_DELTA_HOST_BYTES] = watched->has_host ? watched->host.allocated_bytes.current
							  : 0,
	};
	const bool any = has_device_changed(to, watched);
	uint32_t i;

	cm_bytes_put_number(bytes, cm_changes_find(to->value, value, CM_DELTA_VALUE_COUNT) |
					   (any ? DEVICE_CHANGED : 0));
	cm_changes_write(to->value, value, CM_DELTA_VALUE_COUNT, bytes);
	for (i = 0; any && i < to->devices; i++)
		cm_delta_device_write_changes(&to->device[i], &watched->device[i], bytes);
}

/* What the driver last told a process of this sample about what is free on a card; -1: nothing. */
static int64_t free_of(const struct cm_watch_sample *sample, size_t count, const uint8_t uuid[16])
{
	uint64_t seen_ns = 0;
	int64_t free = -1;
	size_t i, d;

	for (i = 0; i < count; i++) {
		for (d = 0; d < sample->process[i].devices; d++) {
			const struct cm_device_row *row = &sample->process[i].device[d].row;

			if (row->free_seen_ns <= seen_ns ||
			    memcmp(row->uuid, uuid, sizeof(row->uuid)) != 0)
				continue;
			seen_ns = row->free_seen_ns;
			free = (int64_t)row->free_bytes;
		}
	}
	return free;
}

static void write_cards(struct cm_delta *last, const struct cm_watch_sample *sample,
			struct cm_bytes *bytes)
{
	struct cm_bytes_recent recent = {0};
	size_t i;

	for (i = 0; i < last->cards; i++) {
		const int64_t free = free_of(sample, last->count, last->card[i].uuid);

		cm_bytes_put_change(bytes, cm_wrap_sub(free, last->card[i].free), &recent);
		last->card[i].free = free;
	}
}

int cm_delta_write(struct cm_delta *last, const struct cm_watch_sample *sample,
		   struct cm_bytes *bytes)
{
	const size_t count = sample->count < CM_DELTA_PROCESSES_MAX ? sample->count
								    : CM_DELTA_PROCESSES_MAX;
	const bool same = is_same_list(last, sample, count);
	size_t i;
	int err = 0;

	cm_bytes_put_change(bytes, (int64_t)(sample->monotonic_ns - last->monotonic_ns),
			    &(struct cm_bytes_recent){0});
	last->monotonic_ns = sample->monotonic_ns;
	cm_bytes_put_number(bytes, !same);
	if (!same)
		err = write_list(last, sample, count, bytes);
	for (i = 0; !err && i < count; i++)
		write_values(&last->process[i], &sample->process[i], bytes);
	if (!err)
		write_cards(last, sample, bytes);
	if (!err && !bytes->bad)
		return 0;
	cm_delta_fini(last);
	return -ENOMEM;
}

/* Reads which processes there are. 0, -ENOMEM; what is wrong makes `from` bad. */
static int read_list(struct cm_delta *last, struct cm_bytes_reader *from)
{
	const size_t count = (size_t)cm_bytes_get_number(from, CM_DELTA_PROCESSES_MAX);
	struct cm_delta next = {0};
	uint64_t devices = 0, place;
	int err = 0;

	if (!cm_reserve(&next.process, &next.room, count))
		return -ENOMEM;
	for (; !err && !from->bad && next.count < count; next.count++) {
		place = cm_bytes_get_number(from, last->count);
		if (place && last->process[place - 1].process.pid < 0)
			from->bad = true; /* taken already */
		else if (place)
			next.process[next.count] = take_old(last, (size_t)place - 1);
		else
			err = read_process(from, &next.process[next.count]);
		devices += next.process[next.count].devices;
		from->bad |= devices > CM_DELTA_DEVICES_MAX;
	}
	replace(last, &next);
	return err;
}

static void read_values(struct cm_delta_process *to, uint32_t figures, struct cm_bytes_reader *from)
{
	const uint64_t changed = cm_bytes_get_number(from, 2 * DEVICE_CHANGED - 1);
	uint32_t i;

	cm_changes_read(from, changed, to->value, CM_DELTA_VALUE_COUNT, CM_DELTA_VALUE_COUNT);
	from->bad |= to->value[CM_DELTA_LIFE] < 0 || to->value[CM_DELTA_LIFE] >= CM_LIFE_COUNT;
	for (i = 0; changed & DEVICE_CHANGED && i < to->devices; i++)
		cm_delta_device_read_changes(&to->device[i], figures, from);
}

static void read_cards(struct cm_delta *last, struct cm_bytes_reader *from)
{
	struct cm_bytes_recent recent = {0};
	size_t i;

	for (i = 0; i < last->cards; i++)
		last->card[i].free = cm_wrap_add(last->card[i].free,
						 cm_bytes_get_change(from, &recent));
}

int cm_delta_read(struct cm_delta *last, uint32_t figures, const void *data, size_t count)
{
	struct cm_bytes_reader from = {.data = data, .left = count};
	size_t i;
	int err = 0;

	last->monotonic_ns += (uint64_t)cm_bytes_get_change(&from, &(struct cm_bytes_recent){0});
	if (cm_bytes_get_number(&from, 1))
		err = read_list(last, &from);
	for (i = 0; !err && !from.bad && i < last->count; i++)
		read_values(&last->process[i], figures, &from);
	if (!err)
		read_cards(last, &from);
	if (!err && (from.bad || from.left))
		err = -EBADMSG;
	if (err)
		cm_delta_fini(last);
	return err;
}
