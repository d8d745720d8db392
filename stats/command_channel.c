/* SPDX-License-Identifier: MIT */
#include "stats/command_channel.h"

#include <string.h>

#include "stats/futex.h"
#include "stats/tick.h"

bool cm_channel_move(struct cm_channel *channel, uint32_t from, uint32_t to)
{
	/* Release: a tool that sees DONE sees the answer. Acquire: POSTED brings the command. */
	return __atomic_compare_exchange_n(&channel->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

bool cm_channel_take(struct cm_channel *channel, struct cm_command *ret_command)
{
	if (!cm_channel_move(channel, CM_CHANNEL_POSTED, CM_CHANNEL_RUNNING))
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
	moved = cm_channel_move(channel, CM_CHANNEL_RUNNING, CM_CHANNEL_DONE);
	(void)cm_channel_wake(channel);
	return moved;
}

void cm_channel_wait(struct cm_channel *channel, int timeout_ms)
{
	const uint32_t state = __atomic_load_n(&channel->state, __ATOMIC_RELAXED);

	if (state != CM_CHANNEL_POSTED)
		cm_futex_wait(&channel->state, state,
			      timeout_ms == CM_CHANNEL_FOREVER ? CM_FUTEX_FOREVER
							       : (uint64_t)timeout_ms * 1000000);
}

int cm_channel_wake(struct cm_channel *channel)
{
	return cm_futex_wake(&channel->state);
}

bool cm_channel_report_oom(struct cm_channel *channel, uint64_t most_ns)
{
	/* Release: a tool that sees the number sees what the request left. */
	const uint32_t mine = __atomic_add_fetch(&channel->ooms, 1, __ATOMIC_RELEASE);
	const uint64_t start = cm_monotonic_ns();
	uint32_t seen;
	uint64_t ns;

	for (;;) {
		seen = __atomic_load_n(&channel->ooms_seen, __ATOMIC_ACQUIRE);
		/* The numbers may wrap: `mine` is at most `seen` where the difference is small. */
		if (seen - mine <= INT32_MAX)
			return true;
		ns = cm_monotonic_ns() - start;
		if (ns >= most_ns)
			return false;
		cm_futex_wait(&channel->ooms_seen, seen, most_ns - ns);
	}
}

bool cm_channel_hold(struct cm_channel *channel, uint64_t most_ns, uint64_t *ret_ns)
{
	const uint64_t start = cm_monotonic_ns();
	uint32_t seen = CM_HOLD_HELD;
	uint64_t ns;
	bool over;

	__atomic_store_n(&channel->hold, CM_HOLD_HELD, __ATOMIC_RELEASE);
	(void)cm_futex_wake(&channel->hold);
	while ((ns = cm_monotonic_ns() - start) < most_ns &&
	       __atomic_load_n(&channel->hold, __ATOMIC_ACQUIRE) == CM_HOLD_HELD)
		cm_futex_wait(&channel->hold, CM_HOLD_HELD, most_ns - ns);
	/* ENDED before the tables change: a tool that finds it knows its copy is not consistent. */
	over = __atomic_compare_exchange_n(&channel->hold, &seen, CM_HOLD_ENDED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	*ret_ns = cm_monotonic_ns() - start;
	return !over && seen == CM_HOLD_COPIED;
}
