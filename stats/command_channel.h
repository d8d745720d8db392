/* SPDX-License-Identifier: MIT */
/*
 * The owner's side of the region's mailbox: taking one letter at a time and answering it. What
 * states there are and who moves between them stands with struct cm_mailbox. Tools of the same user
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

#define CM_MAIL_FOREVER (-1)

struct cm_letter {
	uint32_t command; /* any number, enum cm_command where it is known */
	uint64_t arg[4];
	int32_t status;
	uint64_t result[4];
};

/* Takes the letter that is posted, if one is: the answer in *ret_letter is cleared. */
bool cm_mailbox_take(struct cm_mailbox *mailbox, struct cm_letter *ret_letter);

/* Hands the answer out. False where somebody has moved the state meanwhile: nobody waits for it. */
bool cm_mailbox_answer(struct cm_mailbox *mailbox, const struct cm_letter *letter);

/*
 * Sleeps until a letter may be posted, cm_mailbox_nudge or the time is over; CM_MAIL_FOREVER costs
 * nothing while it lasts. May return without a reason.
 */
void cm_mailbox_wait(struct cm_mailbox *mailbox, int timeout_ms);

/*
 * While everything is held: tells the tool so and waits until it has copied, for at most `most_ns`.
 * *ret_ns is how long it was. False: the tool was too slow, its copy is of no use.
 */
bool cm_mailbox_hold(struct cm_mailbox *mailbox, uint64_t most_ns, uint64_t *ret_ns);

/*
 * Says that a request has failed for want of memory, and waits until a tool has seen the state that
 * it failed in, for at most `most_ns`. False: none has. Several threads may do so at once.
 */
bool cm_mailbox_show_oom(struct cm_mailbox *mailbox, uint64_t most_ns);

/* Wakes who sleeps on the mailbox; returns how many did. */
int cm_mailbox_nudge(struct cm_mailbox *mailbox);

#endif
