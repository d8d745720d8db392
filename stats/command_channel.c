/* SPDX-License-Identifier: MIT */
#include "stats/command_channel.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats/tick.h"

static bool move(struct cm_channel *channel, uint32_t from, uint32_t to)
{
	/* Release: who sees DONE sees the answer. Acquire: who took POSTED sees the letter. */
	return __atomic_compare_exchange_n(&channel->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

bool cm_channel_take(struct cm_channel *channel, struct cm_command *ret_command)
{
	if (!move(channel, CM_CHANNEL_POSTED, CM_CHANNEL_RUNNING))
		return false;
	memset(ret_command, 0, sizeof(*ret_command));
	ret_command->code = channel->command;
	memcpy(ret_command->arg, channel->arg, sizeof(ret_command->arg));
	return true;
}

bool cm_channel_answer(struct cm_channel *channel, const struct cm_command *command)
{
	bool moved;

	channel->status = command->status;
	memcpy(channel->result, command->result, sizeof(channel->result));
	moved = move(channel, CM_CHANNEL_RUNNING, CM_CHANNEL_DONE);
	(void)cm_channel_wake(channel);
	return moved;
}

void cm_channel_wait(struct cm_channel *channel, int timeout_ms)
{
	const struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	uint32_t state = __atomic_load_n(&channel->state, __ATOMIC_RELAXED);

	/* Not FUTEX_PRIVATE_FLAG: the other side is another process. */
	if (state != CM_CHANNEL_POSTED)
		(void)syscall(SYS_futex, &channel->state, FUTEX_WAIT, state,
			      timeout_ms == CM_CHANNEL_FOREVER ? NULL : &timeout, NULL, 0);
}

int cm_channel_wake(struct cm_channel *channel)
{
	long woken = syscall(SYS_futex, &channel->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);

	return woken > 0 ? (int)woken : 0;
}

bool cm_channel_report_oom(struct cm_channel *channel, uint64_t most_ns)
{
	/* Release: who sees the number sees what the request left. */
	const uint32_t mine = __atomic_add_fetch(&channel->ooms, 1, __ATOMIC_RELEASE);
	const uint64_t start = cm_monotonic_ns();
	struct timespec left;
	uint32_t seen;
	uint64_t ns;

	for (;;) {
		seen = __atomic_load_n(&channel->ooms_seen, __ATOMIC_ACQUIRE);
		/* Numbers that may wrap: those up to `seen` are behind it. */
		if (seen - mine <= INT32_MAX)
			return true;
		ns = cm_monotonic_ns() - start;
		if (ns >= most_ns)
			return false;
		left.tv_sec = (time_t)((most_ns - ns) / CM_NS_PER_S);
		left.tv_nsec = (long)((most_ns - ns) % CM_NS_PER_S);
		(void)syscall(SYS_futex, &channel->ooms_seen, FUTEX_WAIT, seen, &left, NULL, 0);
	}
}

bool cm_channel_hold(struct cm_channel *channel, uint64_t most_ns, uint64_t *ret_ns)
{
	const uint64_t start = cm_monotonic_ns();
	struct timespec left = {0};
	uint32_t seen = CM_HOLD_HELD;
	uint64_t ns;
	bool over;

	__atomic_store_n(&channel->hold, CM_HOLD_HELD, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, &channel->hold, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	while ((ns = cm_monotonic_ns() - start) < most_ns &&
	       __atomic_load_n(&channel->hold, __ATOMIC_ACQUIRE) == CM_HOLD_HELD) {
		left.tv_nsec = (long)(most_ns - ns);
		(void)syscall(SYS_futex, &channel->hold, FUTEX_WAIT, CM_HOLD_HELD, &left, NULL, 0);
	}
	/* Before anything changes: a tool that finds it so has copied more than one moment. */
	over = __atomic_compare_exchange_n(&channel->hold, &seen, CM_HOLD_ENDED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	*ret_ns = cm_monotonic_ns() - start;
	return !over && seen == CM_HOLD_COPIED;
}
