/* SPDX-License-Identifier: MIT */
#include "stats/command_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats/region.h"
#include "stats/tick.h"

#define MAILBOX_OFFSET ((off_t)offsetof(struct cm_header, channel))
#define LOCK_WAIT_NS   5000000 /* between two tries for the lock */
#define HOLD_LOOK_NS   5000000 /* between two looks whether an answer came in place of the hold */

/* The file again, so that it can be written and locked. */
static int reopen(const struct cm_reader *reader, int *ret_fd)
{
	char path[40];
	int fd, err;

	if (reader->owner != geteuid())
		return -EPERM;
	/* By the open file, not by name: the name may lead elsewhere by now. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", reader->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* A page that has no memory yet would be a signal where none is left. */
	err = posix_fallocate(fd, MAILBOX_OFFSET, sizeof(struct cm_channel));
	if (err) {
		(void)close(fd);
		return -err;
	}
	*ret_fd = fd;
	return 0;
}

static int lock_mailbox(int fd, uint64_t deadline_ns)
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
	struct timespec left;
	uint64_t now;

	while (__atomic_load_n(&channel->state, __ATOMIC_ACQUIRE) == state) {
		now = cm_monotonic_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		left.tv_sec = (time_t)((deadline_ns - now) / CM_NS_PER_S);
		left.tv_nsec = (long)((deadline_ns - now) % CM_NS_PER_S);
		(void)syscall(SYS_futex, &channel->state, FUTEX_WAIT, state, &left, NULL, 0);
	}
	return 0;
}

static bool move_state(struct cm_channel *channel, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&channel->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/*
 * Takes the mailbox, and clears away what a tool that died left in it. Only the owner's thread
 * moves the state beside us, and only from POSTED to RUNNING to DONE.
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
		if (move_state(channel, state, CM_CHANNEL_CLAIMED))
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
	/* Release: who sees POSTED sees the letter. */
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)cm_channel_wake(channel);
}

/* Waits for DONE. After the deadline the letter is withdrawn, unless work on it has begun. */
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
		    move_state(channel, CM_CHANNEL_POSTED, CM_CHANNEL_IDLE))
			return -ETIMEDOUT;
		/* Work began at the last moment: what is left of the deadline is for the answer. */
	}
}

/* What is done while the process stands still. */
struct holding {
	void (*copy)(void *data);
	void *data;
	bool copied;
};

/* Waits until the process stands still, copies, and lets it go on. An answer means it never did, or
 * does no longer. */
static void copy_while_held(struct cm_channel *channel, struct holding *holding,
			    uint64_t deadline_ns)
{
	const struct timespec look = {.tv_nsec = HOLD_LOOK_NS};
	uint32_t held = CM_HOLD_HELD, state;

	while (__atomic_load_n(&channel->hold, __ATOMIC_ACQUIRE) != CM_HOLD_HELD) {
		state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
		if ((state != CM_CHANNEL_POSTED && state != CM_CHANNEL_RUNNING) ||
		    cm_monotonic_ns() >= deadline_ns)
			return;
		(void)syscall(SYS_futex, &channel->hold, FUTEX_WAIT, CM_HOLD_NONE, &look, NULL, 0);
	}
	holding->copy(holding->data);
	holding->copied = __atomic_compare_exchange_n(&channel->hold, &held, CM_HOLD_COPIED, false,
						      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (holding->copied)
		(void)syscall(SYS_futex, &channel->hold, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
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

/* Maps the mailbox, to be written; close_mailbox gives it back. NULL: *ret_err says why. */
static struct cm_channel *open_mailbox(const struct cm_reader *reader, int *ret_fd, int *ret_err)
{
	void *channel;
	int fd = -1, err;

	err = reopen(reader, &fd);
	if (err) {
		*ret_err = err;
		return NULL;
	}
	channel = mmap(NULL, sizeof(struct cm_channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       MAILBOX_OFFSET);
	if (channel == MAP_FAILED) {
		*ret_err = -errno;
		(void)close(fd);
		return NULL;
	}
	*ret_fd = fd;
	return channel;
}

static void close_mailbox(int fd, struct cm_channel *channel)
{
	(void)munmap(channel, sizeof(*channel));
	(void)close(fd); /* a lock falls with it */
}

static int send(struct cm_reader *reader, struct cm_command *command, struct holding *holding,
		uint64_t timeout_ns)
{
	const uint64_t deadline_ns = cm_monotonic_ns() + timeout_ns;
	struct cm_channel *channel;
	int fd = -1, err = 0;

	if (!(reader->header.flags & CM_REGION_CONTROL))
		return -EOPNOTSUPP;
	channel = open_mailbox(reader, &fd, &err);
	if (!channel)
		return err;
	err = lock_mailbox(fd, deadline_ns);
	if (!err)
		err = exchange(channel, command, holding, deadline_ns);
	close_mailbox(fd, channel);
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

	channel = open_mailbox(reader, &fd, &err);
	if (!channel)
		return err;
	__atomic_store_n(&channel->ooms_seen, count, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, &channel->ooms_seen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	close_mailbox(fd, channel);
	return 0;
}
