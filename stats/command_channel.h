/* SPDX-License-Identifier: MIT */
/*
 * The owner's side of the region's command channel: takes one command at a time and answers it.
 * struct cm_channel says which states there are and who moves between them. Tools of the same user
 * write here, so every value may be anything: a command is copied once, and only the copy is used.
 *
 * One thread takes commands. `state` is a futex (stats/futex.h) that both sides sleep on: whoever
 * changes it wakes all.
 */
#ifndef CM_STATS_COMMAND_CHANNEL_H
#define CM_STATS_COMMAND_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"

#define CM_CHANNEL_FOREVER (-1)

struct cm_command {
	uint32_t code; /* any number, enum cm_command_code where it is known */
	uint64_t arg[4];
	int32_t status;
	uint64_t result[4];
};

/* Takes the posted command, if there is one, with an empty answer. Never blocks. */
bool cm_channel_take(struct cm_channel *channel, struct cm_command *ret_command);

/*
 * Publishes the answer and wakes the tool. False: the state was changed meanwhile, so no tool waits
 * for this answer. Never blocks.
 */
bool cm_channel_answer(struct cm_channel *channel, const struct cm_command *command);

/*
 * Sleeps until a command may be posted, cm_channel_wake is called, or `timeout_ms` milliseconds
 * have passed; CM_CHANNEL_FOREVER: without a limit. May return without a reason.
 */
void cm_channel_wait(struct cm_channel *channel, int timeout_ms);

/*
 * Called with all locks of the allocator held: tells the tool that the tables stand still, and
 * blocks until it has copied them, for at most `most_ns` nanoseconds. *ret_ns: how long it took.
 * False: the tool was too slow, and its copy is not consistent.
 */
bool cm_channel_hold(struct cm_channel *channel, uint64_t most_ns, uint64_t *ret_ns);

/*
 * Says that a request ran out of memory, and blocks until a tool has seen the state in which it
 * did, for at most `most_ns` nanoseconds. False: no tool has. Several threads may call it at once.
 */
bool cm_channel_report_oom(struct cm_channel *channel, uint64_t most_ns);

/* Wakes all who sleep on the state; returns how many. Never blocks. */
int cm_channel_wake(struct cm_channel *channel);

/* Moves the state; false: it was not `from`. For both sides of the channel. Never blocks. */
bool cm_channel_move(struct cm_channel *channel, uint32_t from, uint32_t to);

#endif
