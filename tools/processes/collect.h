/* SPDX-License-Identifier: MIT */
/*
 * The processes that a command line names: finds their regions, opens and describes them.
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
	struct cm_reader *reader; /* NULL: the region cannot be read, see error and why */
	int error;
	char why[CM_READER_WHY_BYTES];
	char path[sizeof(((struct cm_find *)0)->path)];
	pid_t pid; /* as seen from here, or from the name of the file */
	bool held; /* the region of the running process `pid`, by its name or its open files */
	uid_t uid; /* owner of the region */
	char user[64];
	char comm[64]; /* free of control characters, like all texts here */
	char command[512];
	enum cm_life life; /* if the region cannot be read, running or crashed, by its name */
	uint64_t age_ns;   /* since the process started; 0: dead or unknown */
};

struct cm_processes {
	struct cm_process *item; /* running ones first, then by pid */
	size_t count;
	size_t room; /* for items */
};

/* "running", "stopped", "exited", "crashed", "saved". */
const char *cm_life_name(enum cm_life life);
bool cm_process_is_dead(const struct cm_process *process);

/* Does the argument name a file? It has a slash or ends in .cudamem. */
bool cm_is_file_name(const char *word);

/*
 * Finds the processes with a region that `target` names: digits are a pid, other text is a part of
 * the command line, NULL means all. An argument, but not the value of -p, may also name a file.
 * Follows --region and --dir. Processes whose region cannot be read are included. 0, or an exit
 * code after a complaint; finding nothing is an error only if there is a target.
 */
int cm_collect(const struct cm_options *options, const char *target,
	       struct cm_processes *ret_processes);
void cm_processes_free(struct cm_processes *processes);
/*
 * Raises this process's limit of open files to the most that it may have. Each region is an open
 * file while it is read, and the usual limit, which is low for the sake of select(2), is less than
 * a busy node has processes.
 */
void cm_allow_files(void);

/* Describes a process without a region, from /proc. */
void cm_process_describe(pid_t pid, struct cm_process *ret_process);

/* Whether processes and their regions can be found at all: not without /proc. */
bool cm_processes_can_be_seen(void);

/* Complains that no process has a region, or that this cannot be known. Returns the exit code. */
int cm_complain_nobody(const struct cm_options *options);

/* Complains that the process has no memory on the chosen devices. Returns the exit code. */
int cm_complain_no_device(const struct cm_options *options, const struct cm_process *process);

/* Complains that the region cannot be read. Returns the exit code. */
int cm_process_complain(const struct cm_process *process);

/* Whether --pid means the process: its number, or a part of its command line. */
bool cm_process_is_wanted(const struct cm_options *options, const struct cm_process *process);
/* Whether -d means the device. */
bool cm_device_is_chosen(const struct cm_options *options, const struct cm_device_row *row);

struct cm_device_view {
	uint32_t index; /* row of the region */
	bool torn;
	struct cm_device_row row;
};

/* Reads the next device of the process that -d selects; *index starts as 0. False: no more. */
bool cm_process_next_device(const struct cm_options *options, const struct cm_process *process,
			    uint32_t *index, struct cm_device_view *ret_view);

#endif
