/* SPDX-License-Identifier: MIT */
/*
 * `trim` and `reset`: commands that change the devices of a process.
 */
#include <inttypes.h>
#include <stdio.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/output/text.h"
#include "tools/processes/command.h"
#include "tools/processes/describe.h"
#include "tools/processes/targets.h"
#include "tools/verbs/verbs.h"

static int send(const struct cm_options *options, struct cm_process *process,
		enum cm_command_code code, uint64_t device)
{
	struct cm_command command = {.code = code, .arg = {device}};

	return cm_command_send(options, process, &command);
}

/* Reports what a command changed on one device. `json` NULL: as a sentence. */
typedef void (*report_fn)(struct cm_json *json, const struct cm_process *process,
			  const struct cm_device_row *before, const struct cm_device_row *after);

/* Sends the command for each chosen device, or as `whole` once for all devices and what else it
 * is for. */
static int change_devices(const struct cm_options *options, struct cm_process *process,
			  enum cm_command_code code, bool whole, report_fn report,
			  struct cm_json *json)
{
	struct cm_device_view before, after;
	uint32_t index = 0;
	int exit = -1, sent;
	bool torn;

	while (cm_process_next_device(options, process, &index, &before)) {
		sent = whole && exit >= 0
			       ? exit
			       : send(options, process, code, whole ? UINT64_MAX : before.index);
		exit = cm_exit_join(exit, sent);
		if (sent)
			break; /* the next command would fail likewise */
		if (!cm_reader_read_device(process->reader, before.index, &after.row, &torn))
			report(json, process, &before.row, &after.row);
	}
	return exit >= 0 ? exit : cm_complain_no_device(options, process);
}

static void put_identity(struct cm_json *json, const char *command,
			 const struct cm_process *process, const struct cm_device_row *row)
{
	char uuid[CM_UUID_TEXT];

	cm_json_object(json, NULL);
	cm_json_text(json, "done", command);
	cm_json_number(json, "pid", process->pid);
	cm_json_number(json, "gpu", row->ordinal);
	cm_json_text(json, "uuid", cm_uuid_format(row->uuid, row->name, uuid));
}

static void report_trim(struct cm_json *json, const struct cm_process *process,
			const struct cm_device_row *before, const struct cm_device_row *after)
{
	const struct cm_summary was = cm_summary_pool(before, CM_POOL_ALL);
	const struct cm_summary is = cm_summary_pool(after, CM_POOL_ALL);
	const int64_t returned = cm_wrap_sub(was.reserved, is.reserved);
	const int64_t frees = cm_wrap_sub(after->scalar[CM_SCALAR_num_device_free],
					  before->scalar[CM_SCALAR_num_device_free]);

	if (json) {
		put_identity(json, "trim", process, after);
		cm_json_number(json, "reserved_bytes_before", was.reserved);
		cm_json_number(json, "reserved_bytes", is.reserved);
		cm_json_number(json, "released_bytes", returned);
		cm_json_number(json, "driver_frees", frees);
		cm_json_number(json, "cached_bytes", is.cached);
		cm_json_end(json);
		return;
	}
	cm_line(stdout, "    ",
		"%d GPU %d: reserved %s -> %s, %s released in %" PRId64
		" driver %s, %s still cached",
		(int)process->pid, (int)after->ordinal, cm_size_format(was.reserved).text,
		cm_size_format(is.reserved).text, cm_size_format(returned).text, frees,
		frees == 1 ? "free" : "frees", cm_size_format(is.cached).text);
}

static void report_peak(struct cm_json *json, const struct cm_process *process,
			const struct cm_device_row *before, const struct cm_device_row *after)
{
	const struct cm_summary was = cm_summary_pool(before, CM_POOL_ALL);
	const struct cm_summary is = cm_summary_pool(after, CM_POOL_ALL);

	if (json) {
		put_identity(json, "reset peak", process, after);
		cm_json_number(json, "peak_allocated_bytes_before", was.peak_allocated);
		cm_json_number(json, "peak_allocated_bytes", is.peak_allocated);
		cm_json_number(json, "peak_reserved_bytes_before", was.peak_reserved);
		cm_json_number(json, "peak_reserved_bytes", is.peak_reserved);
		cm_json_end(json);
		return;
	}
	cm_line(stdout, "    ",
		"%d GPU %d: peaks set to the current values (allocated was %s, now %s)",
		(int)process->pid, (int)after->ordinal, cm_size_format(was.peak_allocated).text,
		cm_size_format(is.peak_allocated).text);
}

static void report_accumulated(struct cm_json *json, const struct cm_process *process,
			       const struct cm_device_row *before,
			       const struct cm_device_row *after)
{
	const struct cm_summary was = cm_summary_pool(before, CM_POOL_ALL);

	if (json) {
		put_identity(json, "reset accumulated", process, after);
		cm_json_number(json, "allocs_total_before", was.allocs);
		cm_json_number(json, "frees_total_before", was.frees);
		cm_json_end(json);
		return;
	}
	cm_line(stdout, "    ",
		"%d GPU %d: sums and event counters set to 0 (there were %" PRId64
		" request%s and %" PRId64 " free%s)",
		(int)process->pid, (int)after->ordinal, was.allocs, was.allocs == 1 ? "" : "s",
		was.frees, was.frees == 1 ? "" : "s");
}

static int trim(const struct cm_options *options, struct cm_process *process, void *data)
{
	return change_devices(options, process, CM_COMMAND_EMPTY_CACHE, false, report_trim, data);
}

/* Unless devices are named, pinned memory is reset, too: `what` says so to programs, `told` to
 * people. */
static int reset_part(const struct cm_options *options, struct cm_process *process,
		      enum cm_command_code code, const char *what, const char *told,
		      report_fn report, struct cm_json *json)
{
	const bool whole = !options->device_count;
	const int exit = change_devices(options, process, code, whole, report, json);

	if (exit || !whole)
		return exit;
	if (json) {
		cm_json_object(json, NULL);
		cm_json_text(json, "done", what);
		cm_json_number(json, "pid", process->pid);
		cm_json_bool(json, "pinned", true);
		cm_json_end(json);
	} else {
		(void)printf("%d pinned memory: %s\n", (int)process->pid, told);
	}
	return exit;
}

static int reset(const struct cm_options *options, struct cm_process *process, void *data)
{
	int exit = CM_EXIT_OK;

	if (options->accumulated)
		exit = reset_part(options, process, CM_COMMAND_RESET_ACCUMULATED,
				  "reset accumulated", "sums and event counters set to 0",
				  report_accumulated, data);
	if (!exit && (options->peak || !options->accumulated))
		exit = reset_part(options, process, CM_COMMAND_RESET_PEAK, "reset peak",
				  "peaks set to the current values", report_peak, data);
	return exit;
}

static int change_processes(const struct cm_options *options, const char *name, cm_work_fn work)
{
	struct cm_json json, *to;
	int exit = cm_check_targets(options);

	if (exit)
		return exit;
	to = cm_json_open_array(options, &json, name, "changes");
	exit = cm_change_processes(options, work, to);
	cm_json_close_array(to);
	return exit;
}

int cm_verb_trim(const struct cm_options *options)
{
	return change_processes(options, "trim", trim);
}

int cm_verb_reset(const struct cm_options *options)
{
	return change_processes(options, "reset", reset);
}
