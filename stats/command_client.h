/* SPDX-License-Identifier: MIT */
/*
 * Sending a command to the process that owns a region, by the mailbox of stats/layout.h.
 *
 * Tools keep out of each other's way by flock(2) on the file, which the kernel undoes when a tool
 * dies; the holder clears away what a dead one left. Only the mailbox's page is mapped, and only of
 * a file of the calling user.
 */
#ifndef CM_STATS_COMMAND_CLIENT_H
#define CM_STATS_COMMAND_CLIENT_H

#include <stdint.h>

#include "stats/command_channel.h"
#include "stats/reader.h"

/*
 * Sends the letter and waits for the answer, at most timeout_ns. 0: done, status and results are
 * filled in.
 * -EPERM: the region is another user's. -EOPNOTSUPP: the process answers no commands.
 * -ETIMEDOUT: no answer; the letter was withdrawn unless it was being worked on. Else the negative
 * errno that the process answered with, or that of a system call.
 */
int cm_client_send(struct cm_reader *reader, struct cm_command *command, uint64_t timeout_ns);

/*
 * Has the process stand still while copy(data) runs, a millisecond at most, and says in *ret_ns for
 * how long it did. copy must neither block nor allocate. -ETIME: it took too long, what it copied
 * is not of one moment. -EPROTO: it answered without standing still. Else as cm_client_send.
 */
int cm_client_hold(struct cm_reader *reader, void (*copy)(void *data), void *data,
		   uint64_t timeout_ns, uint64_t *ret_ns);

/*
 * Lets go on whose requests failed for want of memory, up to number `count` (cm_channel, ooms);
 * CM_OOMS_ALL: and those to come for a long time. -EPERM, and what system calls give.
 */
#define CM_OOMS_ALL(count) ((count) + (uint32_t)INT32_MAX)
int cm_client_oom_seen(struct cm_reader *reader, uint32_t count);

#endif
