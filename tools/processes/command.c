/* SPDX-License-Identifier: MIT */
#include "tools/processes/command.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/cli/exits.h"

static int complain_stopped(pid_t pid)
{
	cm_complain("process %d is stopped and takes no command until it goes on (kill -CONT %d)",
		    (int)pid, (int)pid);
	cm_advise("the counters are still readable: %s show %d", CM_PROGRAM, (int)pid);
	return CM_EXIT_TIMEOUT;
}

static int complain_timeout(const struct cm_options *options, const struct cm_process *process)
{
	const int pid = (int)process->pid;
	const double seconds = (double)options->timeout_ns / 1e9;
	const enum cm_life life = cm_reader_life(process->reader);

	if (life == CM_LIFE_EXITED || life == CM_LIFE_CRASHED)
		return cm_fail(CM_EXIT_TARGET, "process %d has ended (%s) before it answered", pid,
			       cm_life_name(life));
	if (life == CM_LIFE_STOPPED)
		return complain_stopped(process->pid);
	cm_complain("process %d did not answer in %g s", pid, seconds);
	cm_advise("the counters are still readable: %s show %d", CM_PROGRAM, pid);
	return CM_EXIT_TIMEOUT;
}

/* Explains why the command failed. Returns the exit code. */
static int complain_failure(const struct cm_options *options, const struct cm_process *process,
			    const struct cm_command *command, int err)
{
	const int pid = (int)process->pid;

	switch (err) {
	case -ETIMEDOUT:
		return complain_timeout(options, process);
	case -EPERM:
	case -EACCES:
		return cm_fail(
			CM_EXIT_TARGET,
			"process %d belongs to %s, who alone may control it: not even root may",
			pid, process->user);
	case -EOPNOTSUPP:
		return cm_fail(CM_EXIT_TARGET,
			       "process %d does not take this command (control:off in its "
			       "configuration, or an older library)",
			       pid);
	case -EBUSY:
		return cm_fail(
			CM_EXIT_NO,
			"process %d is capturing a CUDA graph, during which no memory can be "
			"released; try again later",
			pid);
	case -ETIME:
		return cm_fail(CM_EXIT_NO,
			       "process %d has work on the device that does not end, and releasing "
			       "memory would wait for it; try again later",
			       pid);
	case -ENOSPC:
		return cm_fail(CM_EXIT_TARGET,
			       "process %d cannot do this: no space is left for its region %s", pid,
			       process->path);
	case -ESHUTDOWN:
		return cm_fail(CM_EXIT_TARGET, "process %d is ending", pid);
	case -EIO:
		return cm_fail(CM_EXIT_TARGET,
			       "process %d: its CUDA driver reported error %" PRIu64, pid,
			       command->result[1]);
	default:
		return cm_fail(CM_EXIT_TARGET, "process %d: %s", pid, strerror(-err));
	}
}

int cm_command_send(const struct cm_options *options, struct cm_process *process,
		    struct cm_command *command)
{
	int err;

	if (process->life == CM_LIFE_SAVED)
		return cm_fail(CM_EXIT_TARGET, "%s: a snapshot can only be read", process->path);
	if (cm_process_is_dead(process))
		return cm_fail(CM_EXIT_TARGET,
			       "process %d has ended (%s); what is left of it can only be read",
			       (int)process->pid, cm_life_name(process->life));
	if (process->life == CM_LIFE_STOPPED)
		return complain_stopped(process->pid);
	err = cm_client_send(process->reader, command, options->timeout_ns);
	return err ? complain_failure(options, process, command, err) : CM_EXIT_OK;
}
