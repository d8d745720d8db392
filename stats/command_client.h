/* SPDX-License-Identifier: MIT */
/*
 * Sends a command to the process that owns a region, through the command channel of stats/layout.h.
 *
 * Tools exclude each other by flock(2) on the file, which the kernel releases when a tool dies; the
 * next holder drops the dead tool's command. Only the page of the channel is mapped, and only if
 * the calling user owns the file. Thread-safe for different readers. Times are in nanoseconds.
 */
#ifndef CM_STATS_COMMAND_CLIENT_H
#define CM_STATS_COMMAND_CLIENT_H

#include <stdint.h>

#include "stats/command_channel.h"
#include "stats/reader.h"

/*
 * Sends the command and blocks until the answer, for at most timeout_ns. 0: done, status and
 * results are filled in. -EPERM: another user owns the region. -EOPNOTSUPP: the process answers no
 * commands. -ETIMEDOUT: no answer; the command was withdrawn unless it was already running.
 * -EPROTO: an answer that no library gives. Else the negative errno that the process answered with,
 * or that of a system call.
 */
int cm_client_send(struct cm_reader *reader, struct cm_command *command, uint64_t timeout_ns);

/*
 * Makes the process stand still while copy(data) runs, for at most CM_HOLD_NS_MAX, and says in
 * *ret_ns for how long it did. copy must neither block nor allocate. -ETIME: copy took too long,
 * and the copy is not consistent. -EPROTO: the process answered without standing still. Else as
 * cm_client_send.
 */
int cm_client_hold(struct cm_reader *reader, void (*copy)(void *data), void *data,
		   uint64_t timeout_ns, uint64_t *ret_ns);

/*
 * Releases the requests that wait in cm_channel_report_oom, up to number `count` of
 * cm_channel.ooms; CM_OOMS_ALL(count): and the next two thousand million. Never blocks. -EPERM, or
 * the negative errno of a system call.
 */
#define CM_OOMS_ALL(count) ((count) + (uint32_t)INT32_MAX)
int cm_client_oom_seen(struct cm_reader *reader, uint32_t count);

#endif
