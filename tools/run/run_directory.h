/* SPDX-License-Identifier: MIT */
/*
 * The directory that a run creates for the regions of its program. The run holds a lock on it,
 * which the kernel releases when the run ends, in every PID namespace: a later run removes the
 * directory of a killed one.
 */
#ifndef CM_TOOLS_RUN_RUN_DIRECTORY_H
#define CM_TOOLS_RUN_RUN_DIRECTORY_H

#define CM_RUN_DIRECTORY_PREFIX "cudamem-run."

struct cm_run_directory {
	char path[64];
	int fd;
};

/* Sets the path to the template for mkdtemp(3). */
void cm_run_directory_init(struct cm_run_directory *directory);

/* Creates and locks the directory. 0, or -errno. */
int cm_run_directory_create(struct cm_run_directory *directory);

/* Moves a region, by its file name, to where those of all processes are. Nothing is moved if that
 * fails. */
void cm_run_directory_keep(const struct cm_run_directory *directory, const char *name);

/* Removes the regions in the directory, and the directory if it is empty then. Does nothing if
 * it was not created. */
void cm_run_directory_remove(struct cm_run_directory *directory);

/* Removes the directories of this user's killed runs, except for regions of running processes. */
void cm_run_directory_sweep(void);

#endif
