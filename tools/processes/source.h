/* SPDX-License-Identifier: MIT */
/*
 * The source of the snapshot verbs: a process, a region file or a saved snapshot, as the command
 * line names it, read into memory, with names for its stacks.
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
	char comm[64]; /* free of control characters, like all texts here */
	char command[512];
	char user[64];
	pid_t pid;
	bool uncached;      /* PyTorch's formats have memory outside the cache, too */
	char left_out[256]; /* by the options, in words; empty: nothing */
};

/*
 * Reads the process or file that `target` or --region names, without what --last, --since,
 * --min-size and --device leave out. Says what was left out, and warns about a torn copy. 0,
 * or an exit code after a complaint.
 */
int cm_source_open(const struct cm_options *options, const char *target,
		   struct cm_source *ret_source);
/* Sums up all stacks but the --top ones as one, and says so. 0, or an exit code after a
 * complaint. */
int cm_source_sum_up(const struct cm_options *options, struct cm_source *source);
void cm_source_close(struct cm_source *source);

/* Saves an image; on failure `path` is as before. 0, or an exit code after a complaint. */
int cm_save(const struct cm_image *image, const char *path, bool force, int64_t *ret_bytes);

#endif
