/* SPDX-License-Identifier: MIT */
#include "stats/command_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stats/futex.h"
#include "stats/region.h"
#include "stats/region_mode.h"
#include "stats/start_time.h"
#include "stats/tick.h"

#define CHANNEL_OFFSET offsetof(struct cm_header, channel)
#define LOCK_WAIT_NS   5000000 /* between two tries for the lock */
#define HOLD_LOOK_NS   5000000 /* between two checks for an answer without a hold */

/* Opens the region's file again, to write to it and lock it. */
static int reopen(const struct cm_reader *reader, int *ret_fd)
{
	char path[40];
	int fd, err;

	if (reader->owner != geteuid())
		return -EPERM;
	/* By the open file, since the name may mean another file by now. */
	(void)snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", reader->fd);
	fd = cm_region_open_writable(AT_FDCWD, path, 0);
	if (fd < 0)
		return fd;
	/* Touching a page without memory would be SIGBUS if none is left. */
	err = cm_region_back_file(fd, CHANNEL_OFFSET, sizeof(struct cm_channel));
	if (err) {
		(void)close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

static int lock_channel(int fd, uint64_t deadline_ns)
{
	const struct timespec wait = {.tv_nsec = LOCK_WAIT_NS};

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (cm_monotonic_ns() >= deadline_ns)
			return -ETIMEDOUT;
		(void)nanosleep(&wait, NULL);
	}
	return 0;
}

/* Waits until the state is no longer `state`. -ETIMEDOUT. */
static int wait_change(struct cm_channel *channel, uint32_t state, uint64_t deadline_ns)
{
	uint64_t now;

	while (__atomic_load_n(&channel->state, __ATOMIC_ACQUIRE) == state) {
		now = cm_monotonic_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		cm_futex_wait(&channel->state, state, deadline_ns - now);
	}
	return 0;
}

/*
 * Claims the channel and drops the command of a tool that died. Called with the file's lock held:
 * beside us only the owner's thread moves the state, from POSTED to RUNNING to DONE.
 */
static int claim(struct cm_channel *channel, uint64_t deadline_ns)
{
	uint32_t state;
	int err = 0;

	do {
		state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
		if (state == CM_CHANNEL_RUNNING) {
			err = wait_change(channel, state, deadline_ns);
			continue;
		}
		if (cm_channel_move(channel, state, CM_CHANNEL_CLAIMED))
			return 0;
		/* It moved from POSTED meanwhile. */
		if (cm_monotonic_ns() >= deadline_ns)
			err = -ETIMEDOUT;
	} while (!err);
	return err;
}

static void post(struct cm_channel *channel, const struct cm_command *command)
{
	uint64_t start = 0;

	(void)cm_process_start_time((uint32_t)getpid(), &start);
	channel->sender = (uint32_t)getpid();
	channel->sender_start = start;
	channel->command = command->code;
	channel->status = 0;
	memcpy(channel->arg, command->arg, sizeof(channel->arg));
	memset(channel->result, 0, sizeof(channel->result));
	/* Release: an owner that sees POSTED sees the command. */
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)cm_channel_wake(channel);
}

/* Waits for DONE. After the deadline the command is withdrawn, unless the owner already runs it. */
static int wait_answer(struct cm_channel *channel, uint64_t deadline_ns)
{
	uint32_t state;

	for (;;) {
		state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
		if (state == CM_CHANNEL_DONE)
			return 0;
		if (state != CM_CHANNEL_POSTED && state != CM_CHANNEL_RUNNING)
			return -EPROTO;
		if (!wait_change(channel, state, deadline_ns))
			continue;
		if (state == CM_CHANNEL_RUNNING ||
		    cm_channel_move(channel, CM_CHANNEL_POSTED, CM_CHANNEL_IDLE))
			return -ETIMEDOUT;
		/* The owner took it at the last moment. */
	}
}

/* What to do while the process stands still. */
struct holding {
	void (*copy)(void *data);
	void *data;
	bool copied;
};

/*
 * Waits until the process stands still, copies, and lets it go on. An answer that comes first means
 * that it does not stand still, or no longer.
 */
static void copy_while_held(struct cm_channel *channel, struct holding *holding,
			    uint64_t deadline_ns)
{
	uint32_t held = CM_HOLD_HELD, state;

	while (__atomic_load_n(&channel->hold, __ATOMIC_ACQUIRE) != CM_HOLD_HELD) {
		state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
		if ((state != CM_CHANNEL_POSTED && state != CM_CHANNEL_RUNNING) ||
		    cm_monotonic_ns() >= deadline_ns)
			return;
		cm_futex_wait(&channel->hold, CM_HOLD_NONE, HOLD_LOOK_NS);
	}
	holding->copy(holding->data);
	holding->copied = __atomic_compare_exchange_n(&channel->hold, &held, CM_HOLD_COPIED, false,
						      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (holding->copied)
		(void)cm_futex_wake(&channel->hold);
}

static int exchange(struct cm_channel *channel, struct cm_command *command, struct holding *holding,
		    uint64_t deadline_ns)
{
	int err;

	err = claim(channel, deadline_ns);
	if (err)
		return err;
	if (holding) /* what a damaged file or a dead process left */
		__atomic_store_n(&channel->hold, CM_HOLD_NONE, __ATOMIC_RELEASE);
	post(channel, command);
	if (holding)
		copy_while_held(channel, holding, deadline_ns);
	err = wait_answer(channel, deadline_ns);
	if (err)
		return err;
	command->status = channel->status;
	memcpy(command->result, channel->result, sizeof(command->result));
	__atomic_store_n(&channel->state, CM_CHANNEL_IDLE, __ATOMIC_RELEASE);
	return command->status > 0 ? -EPROTO : command->status;
}

/* Maps the channel for writing; close_channel unmaps it. NULL: *ret_err says why. */
static struct cm_channel *open_channel(const struct cm_reader *reader, int *ret_fd, int *ret_err)
{
	void *channel;
	int fd = -1, err;

	err = reopen(reader, &fd);
	if (err) {
		*ret_err = err;
		return NULL;
	}
	channel = mmap(NULL, sizeof(struct cm_channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       (off_t)CHANNEL_OFFSET);
	if (channel == MAP_FAILED) {
		*ret_err = -errno;
		(void)close(fd);
		return NULL;
	}
	*ret_fd = fd;
	return channel;
}

static void close_channel(int fd, struct cm_channel *channel)
{
	(void)munmap(channel, sizeof(*channel));
	(void)close(fd); /* releases the lock */
}

static int send(struct cm_reader *reader, struct cm_command *command, struct holding *holding,
		uint64_t timeout_ns)
{
	const uint64_t deadline_ns = cm_monotonic_ns() + timeout_ns;
	struct cm_channel *channel;
	int fd = -1, err = 0;

	if (!(reader->header.flags & CM_REGION_CONTROL))
		return -EOPNOTSUPP;
	channel = open_channel(reader, &fd, &err);
	if (!channel)
		return err;
	err = lock_channel(fd, deadline_ns);
	if (!err)
		err = exchange(channel, command, holding, deadline_ns);
	close_channel(fd, channel);
	return err;
}

int cm_client_send(struct cm_reader *reader, struct cm_command *command, uint64_t timeout_ns)
{
	return send(reader, command, NULL, timeout_ns);
}

int cm_client_hold(struct cm_reader *reader, void (*copy)(void *data), void *data,
		   uint64_t timeout_ns, uint64_t *ret_ns)
{
	struct cm_command command = {.code = CM_COMMAND_SNAPSHOT, .arg = {CM_HOLD_NS_MAX}};
	struct holding holding = {.copy = copy, .data = data};
	int err;

	err = send(reader, &command, &holding, timeout_ns);
	if (!err && !holding.copied)
		err = -EPROTO;
	if (!err)
		*ret_ns = command.result[0];
	return err;
}

int cm_client_oom_seen(struct cm_reader *reader, uint32_t count)
{
	struct cm_channel *channel;
	int fd = -1, err = 0;

	channel = open_channel(reader, &fd, &err);
	if (!channel)
		return err;
	__atomic_store_n(&channel->ooms_seen, count, __ATOMIC_RELEASE);
	(void)cm_futex_wake(&channel->ooms_seen);
	close_channel(fd, channel);
	return 0;
}
