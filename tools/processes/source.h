/* SPDX-License-Identifier: MIT */
/*
 * What the verbs about snapshots read: a process, a region file or a saved snapshot, as the command
 * line names it, with names for its stacks.
 */
#ifndef CM_TOOLS_PROCESSES_SOURCE_H
#define CM_TOOLS_PROCESSES_SOURCE_H

#include "tools/cli/options.h"
#include "tools/snapshot/snapshot.h"
#include "tools/snapshot/symbols.h"

struct cm_source {
	struct cm_image *image;
	struct cm_snapshot *snapshot;
	struct cm_symbols_report symbols;
	char comm[64]; /* clean, like all text here */
	char command[512];
	char user[64];
	pid_t pid;
};

/*
 * Reads the process or file that `target` names, or --region. 0, or an exit code after a complaint;
 * what is doubtful (a torn copy, segments left out) is said too.
 */
int cm_source_open(const struct cm_options *options, const char *target,
		   struct cm_source *ret_source);
void cm_source_close(struct cm_source *source);

/* Saves an image as a whole or not at all. 0, or an exit code after a complaint. */
int cm_save(const struct cm_image *image, const char *path, bool force, int64_t *ret_bytes);

#endif
