/* SPDX-License-Identifier: MIT */
/*
 * Who started a process: its container, its Kubernetes pod and its Slurm job, as the paths of its
 * control groups say, or for the job its environment. Not thread-safe.
 */
#ifndef CM_TOOLS_PROCESSES_IDENTITY_H
#define CM_TOOLS_PROCESSES_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/* All "" if there is none; only letters, digits and '-'. */
struct cm_identity {
	char container_id[65]; /* 64 hexadecimal digits */
	char pod_uid[37];      /* with '-', as the Kubernetes API has it */
	char slurm_job_id[21];
};

/* Reads /proc/PID/`name` as far as `bytes` reach, and ends it with a zero byte. The number of bytes
 * before that; 0: nothing may be read. */
size_t cm_proc_read(pid_t pid, const char *name, char *to, size_t bytes);

/* Reads the text of /proc/PID/cgroup, of version 1 or 2. Pure. */
void cm_identity_parse(const char *cgroup, struct cm_identity *ret_identity);

/* Reads it of a process as seen from here; what may not be read is "". */
void cm_identity_read(pid_t pid, struct cm_identity *ret_identity);

/* Whether the process runs as this user, by one of its user ids; true if that is not known. */
bool cm_identity_is_user(pid_t pid, uid_t uid);

#endif
