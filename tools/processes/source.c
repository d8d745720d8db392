/* SPDX-License-Identifier: MIT */
#include "tools/processes/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/moment.h"
#include "tools/output/output.h"
#include "tools/processes/collect.h"
#include "tools/snapshot/consistent.h"
#include "tools/snapshot/cut.h"
#include "tools/snapshot/saved.h"

static int complain(const struct cm_process *process, const char *why)
{
	return cm_fail(CM_EXIT_TARGET, "%s: %s", process->path, why);
}

/* Warns about what limits the figures. */
static void warn(const struct cm_source *source)
{
	const struct cm_saved *saved = &source->image->saved;

	if (saved->moment == CM_MOMENT_TORN)
		cm_advise("the process %s while it was copied: its tables may not agree",
			  saved->life == CM_LIFE_RUNNING ? "went on"
							 : "had stopped during a change");
	if (source->snapshot->broken_segments)
		cm_advise("left out: %s (the blocks in each do not tile it)",
			  cm_count_of((int64_t)source->snapshot->broken_segments, "segment").text);
	if (source->snapshot->broken_stacks)
		cm_advise("left out: %s (each claims more frames than the table can hold)",
			  cm_count_of((int64_t)source->snapshot->broken_stacks, "stack").text);
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

static int load_process(const struct cm_options *options, const struct cm_process *process,
			struct cm_source *source)
{
	const struct cm_symbols_from from = {.debug_path = options->debug_path,
					     .owner = process->reader->owner};
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

/* Empties the devices that --device does not name; it names no pinned memory. False: it names none
 * of the snapshot. */
static bool choose_devices(const struct cm_options *options, struct cm_snapshot *snapshot,
			   unsigned *ret_dropped)
{
	bool any = !options->device_count;
	unsigned dropped = 0;
	size_t i;

	for (i = 0; i < snapshot->devices && options->device_count; i++) {
		struct cm_snap_device *device = &snapshot->device[i];

		if (device->row && cm_device_is_chosen(options, device->row)) {
			any = true;
			continue;
		}
		dropped += cm_snap_device_is_used(snapshot, device);
		device->segments = device->events = device->lost = 0;
	}
	*ret_dropped = dropped;
	return any;
}

/* Adds "3 stacks summed up" to what was left out. */
static void tell(struct cm_source *source, uint64_t count, const char *one, const char *many)
{
	const size_t used = strlen(source->left_out);

	if (count)
		(void)snprintf(source->left_out + used, sizeof(source->left_out) - used, "%s%s %s",
			       used ? ", " : "", cm_count_format((int64_t)count).text,
			       count == 1 ? one : many);
}

static int cut(const struct cm_options *options, struct cm_source *source)
{
	struct cm_cut cut = {.last = options->last, .min_size_bytes = options->min_size_bytes};
	struct cm_cut_report report;
	uint64_t first, last;
	unsigned dropped;
	int err;

	if (options->since) {
		cm_snapshot_times(source->snapshot, &first, &last);
		if (cm_moment_parse(options->since, first, last, &cut.since_ns))
			return cm_fail(
				CM_EXIT_USAGE,
				"--since '%s' is invalid, want a time such as -90, -5m or -2h "
				"before the last event, 14:05, or '2026-01-31 14:05'",
				options->since);
	}
	if (!choose_devices(options, source->snapshot, &dropped))
		return cm_fail(CM_EXIT_USAGE, "process %d has no memory on the devices named",
			       (int)source->pid);
	tell(source, dropped, "device", "devices");
	err = cm_snapshot_cut(source->snapshot, &cut, &report);
	if (err)
		return cm_fail_memory();
	tell(source, report.old_events, "older event", "older events");
	tell(source, report.small_events, "event of a smaller allocation",
	     "events of smaller allocations");
	tell(source, report.small_blocks, "smaller block", "smaller blocks");
	if (*source->left_out)
		cm_advise("left out: %s", source->left_out);
	return 0;
}

int cm_source_sum_up(const struct cm_options *options, struct cm_source *source)
{
	const struct cm_cut cut = {.stacks = options->top};
	struct cm_cut_report report;

	if (cm_snapshot_cut(source->snapshot, &cut, &report))
		return cm_fail_memory();
	tell(source, report.stacks, "stack summed up", "stacks summed up as one");
	if (report.stacks)
		cm_advise("summed up as one: %" PRIu64 " stacks with less memory", report.stacks);
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
		exit = load_process(options, &found.item[0], &source);
	}
	cm_processes_free(&found);
	if (exit || !source.image)
		return exit;
	warn(&source);
	exit = cut(options, &source);
	if (exit) {
		cm_source_close(&source);
		return exit;
	}
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
