/* SPDX-License-Identifier: MIT */
#include "tools/processes/source.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/exits.h"
#include "tools/output/output.h"
#include "tools/processes/collect.h"
#include "tools/snapshot/consistent.h"
#include "tools/snapshot/saved.h"

static int complain(const struct cm_process *process, const char *why)
{
	return cm_fail(CM_EXIT_TARGET, "%s: %s", process->path, why);
}

/* Warns about what limits the figures. */
static void warn(const struct cm_source *source)
{
	const struct cm_saved *saved = &source->image->saved;

	assert(source->image);
	if (saved->moment == CM_MOMENT_TORN)
		cm_advise("the process %s while it was copied: its tables may not agree",
			  saved->life == CM_LIFE_RUNNING ? "went on"
							 : "had stopped during a change");
	if (source->snapshot->broken_segments)
		cm_advise("%zu segments are left out: their blocks do not tile them",
			  source->snapshot->broken_segments);
	if (source->snapshot->broken_stacks)
		cm_advise("%zu stacks are left out: they claim more frames than the table can hold",
			  source->snapshot->broken_stacks);
	if (source->snapshot->events &&
	    !cm_image_time(source->image, source->image->header.tick_base))
		cm_advise("the times of events are unknown: the clock of another machine or "
			  "boot cannot be converted");
	if (source->symbols.missing)
		cm_advise(
			"missing or changed: %u of %u objects on the stacks; their functions have "
			"no names",
			source->symbols.missing, source->symbols.modules);
	if (source->symbols.lacks)
		cm_advise("functions have no names: this build lacks %s", source->symbols.lacks);
}

static int load(const struct cm_options *options, const struct cm_process *process,
		struct cm_source *source)
{
	const struct cm_symbols_from from = {options->debug_path, process->reader->owner};
	char why[CM_READER_WHY_BYTES];
	int err;

	err = cm_image_take(process->reader, options->timeout_ns, &source->image, why);
	if (err)
		return complain(process, why);
	err = cm_symbols_add(source->image, &from, &source->symbols);
	if (!err)
		err = cm_snapshot_create(source->image, options->hide, &source->snapshot);
	if (err) {
		cm_image_free(source->image);
		return complain(process, strerror(-err));
	}
	if (source->image->saved.moment == CM_MOMENT_STILL &&
	    !cm_snapshot_is_consistent(source->snapshot))
		source->image->saved.moment = CM_MOMENT_TORN;
	source->pid = process->pid;
	(void)snprintf(source->comm, sizeof(source->comm), "%s", process->comm);
	(void)snprintf(source->command, sizeof(source->command), "%s", process->command);
	(void)snprintf(source->user, sizeof(source->user), "%s", process->user);
	return 0;
}

int cm_source_open(const struct cm_options *options, const char *target,
		   struct cm_source *ret_source)
{
	struct cm_source source = {0};
	struct cm_processes found;
	int exit;

	exit = cm_collect(options, options->region ? NULL : target, &found);
	if (exit)
		return exit;
	if (found.count > 1) {
		cm_complain("'%s' means %zu processes; name one by its pid", target, found.count);
		exit = CM_EXIT_USAGE;
	} else if (!found.count || !found.item[0].reader) {
		exit = found.count ? cm_process_complain(&found.item[0]) : CM_EXIT_TARGET;
	} else {
		exit = load(options, &found.item[0], &source);
	}
	cm_processes_free(&found);
	if (exit)
		return exit;
	warn(&source);
	*ret_source = source;
	return 0;
}

void cm_source_close(struct cm_source *source)
{
	cm_snapshot_destroy(source->snapshot);
	cm_image_free(source->image);
	memset(source, 0, sizeof(*source));
}

static int complain_write(int err)
{
	if (err == -ENOSYS)
		return cm_fail(
			CM_EXIT_TARGET,
			"this build has no zstd, which snapshots need; '%s export' reads the "
			"process directly",
			CM_PROGRAM);
	return cm_fail_memory();
}

int cm_save(const struct cm_image *image, const char *path, bool force, int64_t *ret_bytes)
{
	struct cm_output output;
	int exit, err;

	exit = cm_output_open(&output, path, CM_OUTPUT_PRIVATE, force);
	if (exit)
		return exit;
	/* Without a path the output is an open descriptor or a device. */
	err = cm_saved_write(image, output.file, output.path != NULL, ret_bytes);
	/* cm_output_close() reports write errors. */
	if (err && err != -EIO) {
		(void)cm_output_close(&output, false);
		return complain_write(err);
	}
	return cm_output_close(&output, true);
}
