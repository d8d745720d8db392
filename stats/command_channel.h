/* SPDX-License-Identifier: MIT */
/*
 * The owner's side of the region's mailbox: taking one letter at a time and answering it. What
 * states there are and who moves between them stands with struct cm_channel. Tools of the same user
 * write here, so every value may be anything: a letter is copied out once and judged by its copy.
 *
 * One thread takes letters. `state` is a futex that both sides sleep on: whoever changes it wakes
 * all.
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

/* Takes the letter that is posted, if one is: the answer in *ret_letter is cleared. */
bool cm_channel_take(struct cm_channel *channel, struct cm_command *ret_command);

/* Hands the answer out. False where somebody has moved the state meanwhile: nobody waits for it. */
bool cm_channel_answer(struct cm_channel *channel, const struct cm_command *command);

/*
 * Sleeps until a letter may be posted, cm_channel_wake or the time is over; CM_CHANNEL_FOREVER
 * costs nothing while it lasts. May return without a reason.
 */
void cm_channel_wait(struct cm_channel *channel, int timeout_ms);

/*
 * While everything is held: tells the tool so and waits until it has copied, for at most `most_ns`.
 * *ret_ns is how long it was. False: the tool was too slow, its copy is of no use.
 */
bool cm_channel_hold(struct cm_channel *channel, uint64_t most_ns, uint64_t *ret_ns);

/*
 * Says that a request has failed for want of memory, and waits until a tool has seen the state that
 * it failed in, for at most `most_ns`. False: none has. Several threads may do so at once.
 */
bool cm_channel_report_oom(struct cm_channel *channel, uint64_t most_ns);

/* Wakes who sleeps on the mailbox; returns how many did. */
int cm_channel_wake(struct cm_channel *channel);

#endif
