/* SPDX-License-Identifier: MIT */
/*
 * The processes that a verb is about: found, opened, described.
 */
#ifndef CM_TOOLS_PROCESSES_COLLECT_H
#define CM_TOOLS_PROCESSES_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stats/finder.h"
#include "stats/reader.h"
#include "tools/cli/options.h"

struct cm_process {
	struct cm_reader *reader; /* NULL: not to be read, see error and why */
	int error;
	char why[CM_READER_WHY_BYTES];
	char path[sizeof(((struct cm_find *)0)->path)];
	pid_t pid; /* as seen from here, or as the file's name says */
	uid_t uid; /* owner of the region */
	char user[64];
	char comm[64]; /* clean, like all text here */
	char command[512];
	enum cm_life life; /* where the region can't be read, running or crashed by its name */
	uint64_t age_ns;   /* since the process started; 0: dead, or it can't be told */
};

struct cm_processes {
	struct cm_process *item; /* the running ones first, then by pid */
	size_t count;
};

/* "running", "stopped", "exited", "crashed", "saved". */
const char *cm_life_name(enum cm_life life);
bool cm_process_is_dead(const struct cm_process *process);

/* Whether an argument names a file: a word with a slash, or that ends in .cudamem. */
bool cm_is_file_name(const char *word);

/*
 * Every process with a region that `target` means: digits a pid, other text a part of the command
 * line, NULL all; an argument (not what -p has) may name a file.
 * --region and --dir are followed. Unreadable regions are among them.
 * 0, or an exit code after a complaint: nothing to be found is one only where a target was named.
 */
int cm_collect(const struct cm_options *options, const char *target,
	       struct cm_processes *ret_processes);
void cm_processes_free(struct cm_processes *processes);

/* What /proc says of a process that has no region. */
void cm_process_describe(pid_t pid, struct cm_process *ret_process);

/* Complains that there is no process with a region. Returns the exit code. */
int cm_complain_nobody(const struct cm_options *options);

/* Complains that the process has no memory on the devices that are meant. Returns the exit code. */
int cm_complain_no_device(const struct cm_options *options, const struct cm_process *process);

/* Complains that the region can't be read. Returns the exit code. */
int cm_process_complain(const struct cm_process *process);

/*
 * Calls `work` for each process that the arguments name (or --region), one after the other, and
 * joins the exit codes. Processes that can't be read are complained about.
 */
int cm_for_processes(const struct cm_options *options,
		     int (*work)(const struct cm_options *options, struct cm_process *process,
				 void *data),
		     void *data);

struct cm_device_view {
	uint32_t index; /* row of the region */
	bool torn;
	struct cm_device_row row;
};

/*
 * The next device of the process that -d lets pass; *index starts as 0. False: no more.
 */
bool cm_process_next_device(const struct cm_options *options, const struct cm_process *process,
			    uint32_t *index, struct cm_device_view *ret_view);

#endif
