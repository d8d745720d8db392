/* SPDX-License-Identifier: MIT */
/*
 * The folder that a run makes for the regions of its program. The kernel drops the lock on it with
 * the run, in every PID namespace: what a killed run has left is removed by a later one.
 */
#ifndef CM_TOOLS_RUN_RUN_DIRECTORY_H
#define CM_TOOLS_RUN_RUN_DIRECTORY_H

#define CM_RUN_DIRECTORY_PREFIX "cudamem-run."

struct cm_run_directory {
	char path[64];
	int fd;
};

/* The name that any has, in the words of mkdtemp(3). */
void cm_run_directory_init(struct cm_run_directory *folder);

/* Makes it. 0, or -errno. */
int cm_run_directory_create(struct cm_run_directory *folder);

/* Removes what regions lie in it, and itself unless something else does. Nothing where it was not
 * made. */
void cm_run_directory_remove(struct cm_run_directory *folder);

/* Removes what this user's killed runs have left, but for the regions of processes that live. */
void cm_run_directory_sweep(void);

#endif
