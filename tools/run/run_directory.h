/* SPDX-License-Identifier: MIT */
/*
 * The folder that a run makes for the regions of its program. The kernel drops the lock on it with
 * the run, in every PID namespace: what a killed run has left is removed by a later one.
 */
#ifndef CM_TOOLS_RUN_RUN_DIRECTORY_H
#define CM_TOOLS_RUN_RUN_DIRECTORY_H

#define CM_FOLDER_PREFIX "cudamem-run."

struct cm_folder {
	char path[64];
	int fd;
};

/* The name that any has, in the words of mkdtemp(3). */
void cm_folder_init(struct cm_folder *folder);

/* Makes it. 0, or -errno. */
int cm_folder_create(struct cm_folder *folder);

/* Removes what regions lie in it, and itself unless something else does. Nothing where it was not
 * made. */
void cm_folder_remove(struct cm_folder *folder);

/* Removes what this user's killed runs have left, but for the regions of processes that live. */
void cm_folder_sweep(void);

#endif
