/* SPDX-License-Identifier: MIT */
#include "stats/peers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "stats/finder.h"
#include "stats/reader.h"
#include "stats/summary.h"
#include "stats/tick.h"

#define ASKED_MAX 16                /* peers asked in one call */
#define COUNT_MAX 256               /* regions read in one call */
#define LEAST_NS  UINT64_C(2000000) /* a peer gets no less time than this */

/* A peer that may have idle memory. */
struct giver {
	char path[sizeof(((struct cm_find *)0)->path)];
	uint32_t device; /* row of its region */
	int64_t idle;    /* bytes of segments without a block in use */
};

/* Not on the stack: the thread that runs out of memory may have a small one. */
struct search {
	const uint8_t *uuid;
	uint64_t end_ns;
	struct cm_peers *found;
	struct giver giver[ASKED_MAX]; /* the largest first */
	uint32_t givers;
	struct cm_device_row row; /* the device's, of the peer that is looked at */
};

static bool is_own(const struct cm_reader *reader)
{
	return reader->pid == getpid();
}

/* The row of the device in the peer's region. */
static bool find_device(struct cm_reader *reader, const uint8_t *uuid, uint32_t *ret_index,
			struct cm_device_row *ret_row)
{
	uint32_t i;
	bool torn;

	for (i = 0; i < CM_DEVICES_MAX && i < reader->header.table[CM_TABLE_DEVICE].rows; i++) {
		if (cm_reader_read_device(reader, i, ret_row, &torn) ||
		    memcmp(ret_row->uuid, uuid, sizeof(ret_row->uuid)) != 0)
			continue;
		*ret_index = i;
		return true;
	}
	return false;
}

/* More than any device has; two such amounts of each peer can be added without overflow. */
#define BYTES_MAX (INT64_MAX / 2 / COUNT_MAX)

/* Clamps a foreign amount to [0, most]; `most` is foreign too. */
static int64_t within(int64_t bytes, uint64_t most)
{
	most = most < BYTES_MAX ? most : BYTES_MAX;
	return bytes < 0 ? 0 : (uint64_t)bytes > most ? (int64_t)most : bytes;
}

static void add_giver(struct search *search, const char *path, uint32_t device, int64_t idle)
{
	uint32_t at = search->givers;

	if (at == ASKED_MAX && search->giver[at - 1].idle >= idle)
		return;
	if (at < ASKED_MAX)
		search->givers++;
	else
		at--;
	for (; at && search->giver[at - 1].idle < idle; at--)
		search->giver[at] = search->giver[at - 1];
	(void)snprintf(search->giver[at].path, sizeof(search->giver[at].path), "%s", path);
	search->giver[at].device = device;
	search->giver[at].idle = idle;
}

static void add_process(struct search *search, struct cm_reader *reader, const char *path)
{
	struct cm_peers *found = search->found;
	struct cm_device_row *row = &search->row;
	struct cm_summary sum;
	enum cm_life life;
	uint32_t device;
	int64_t held, idle;

	life = cm_reader_life(reader);
	if (is_own(reader) || (life != CM_LIFE_RUNNING && life != CM_LIFE_STOPPED) ||
	    !find_device(reader, search->uuid, &device, row))
		return;
	sum = cm_summary_pool(row, CM_POOL_ALL);
	held = within(within(sum.reserved, row->total_bytes) +
			      within(cm_summary_other(row), row->total_bytes),
		      row->total_bytes);
	/* Pending frees may be complete by the time of the request. */
	idle = within(sum.releasable, row->total_bytes) + within(sum.pending, row->total_bytes);
	found->count += held != 0;
	found->held_bytes += held;
	if (held > found->most_bytes) {
		found->most_bytes = held;
		/* The pid in the process's own namespace. */
		found->most_pid = (int32_t)reader->header.pid;
		memcpy(found->most_comm, reader->header.comm, sizeof(found->most_comm));
	}
	if (life == CM_LIFE_RUNNING && idle)
		add_giver(search, path, device, idle);
}

static void visit(void *data, const struct cm_find *find)
{
	char why[CM_READER_WHY_BYTES];
	struct search *search = data;
	struct cm_reader *reader;

	/* Counters of a process that was stopped while it changed them take time to read. */
	if (find->uid != geteuid() || search->found->count == COUNT_MAX ||
	    cm_monotonic_ns() >= search->end_ns || cm_reader_open(find->path, &reader, why))
		return;
	add_process(search, reader, find->path);
	cm_reader_close(reader);
}

/* The bytes that the peer says it has returned. */
static uint64_t ask_peer(const struct giver *giver, uint64_t wanted, uint64_t timeout_ns)
{
	/* Half, so that the answer arrives before our own timeout. */
	struct cm_command command = {.code = CM_COMMAND_GIVE_BACK,
				     .arg = {giver->device, wanted, timeout_ns / 2}};
	char why[CM_READER_WHY_BYTES];
	struct cm_reader *reader;
	uint64_t given = 0;

	if (cm_reader_open(giver->path, &reader, why))
		return 0;
	if (!cm_client_send(reader, &command, timeout_ns))
		given = command.result[0];
	cm_reader_close(reader);
	return given;
}

void cm_peers_ask(const char *dir, const uint8_t uuid[16], uint64_t wanted, uint64_t timeout_ns,
		  struct cm_peers *ret_peers)
{
	static const uint8_t nobody[16];
	const uint64_t end = cm_monotonic_ns() + timeout_ns;
	struct search *search;
	uint64_t given, now;
	uint32_t i;

	*ret_peers = (struct cm_peers){0};
	if (!memcmp(uuid, nobody, sizeof(nobody)))
		return;
	search = calloc(1, sizeof(*search));
	if (!search)
		return;
	search->uuid = uuid;
	search->end_ns = end;
	search->found = ret_peers;
	(void)cm_find_regions(dir, 0, visit, search);
	for (i = 0; i < search->givers && ret_peers->given_bytes < wanted; i++) {
		now = cm_monotonic_ns();
		if (now >= end || (end - now) / 2 < LEAST_NS)
			break;
		ret_peers->asked++;
		given = ask_peer(&search->giver[i], wanted - ret_peers->given_bytes,
				 (end - now) / 2);
		if (given > (uint64_t)INT64_MAX / ASKED_MAX)
			continue; /* no library answers so much */
		ret_peers->given_bytes += given;
		ret_peers->held_bytes -= within((int64_t)given, (uint64_t)ret_peers->held_bytes);
	}
	free(search);
}
