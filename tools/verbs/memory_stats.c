/* SPDX-License-Identifier: MIT */
/*
 * `memory-stats`: PyTorch's memory statistics of each device.
 */
#include <stdio.h>

#include "stats/memory_stats.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/text.h"
#include "tools/processes/describe.h"
#include "tools/processes/targets.h"
#include "tools/verbs/verbs.h"

#define KEY_WIDTH   44
#define VALUE_WIDTH 20 /* at most */

struct printing {
	struct cm_json *json; /* NULL: text */
	bool headed;          /* something was printed: leave a line free */
	int width;            /* of a value */
};

static void print_entry(void *data, const char *key, int64_t value)
{
	const int *width = data;

	(void)printf("%-*s %*lld\n", KEY_WIDTH, key, *width, (long long)value);
}

static void put_entry(void *data, const char *key, int64_t value)
{
	cm_json_number(data, key, value);
}

static void print_heading(struct printing *printing, const struct cm_process *process,
			  const char *what)
{
	(void)fputs(printing->headed ? "\n" : "", stdout);
	cm_line(stdout, "# ", "# pid %d  %s  %s", (int)process->pid, what, process->command);
	printing->headed = true;
}

static void print_device(const struct cm_process *process, const struct cm_device_view *view,
			 struct printing *printing)
{
	struct cm_json *json = printing->json;
	char what[32 + CM_UUID_TEXT], uuid[CM_UUID_TEXT];

	(void)cm_uuid_format(view->row.uuid, view->row.name, uuid);
	if (!json) {
		(void)snprintf(what, sizeof(what), "GPU %d  %s", (int)view->row.ordinal, uuid);
		print_heading(printing, process, what);
		cm_memory_stats_each(&view->row, print_entry, &printing->width);
		return;
	}
	cm_json_object(json, NULL);
	cm_json_number(json, "gpu", view->row.ordinal);
	cm_json_text(json, "uuid", uuid);
	cm_json_bool(json, "torn", view->torn);
	cm_json_object(json, "stats");
	cm_memory_stats_each(&view->row, put_entry, json);
	cm_json_end(json);
	cm_json_end(json);
}

static int print_devices(const struct cm_options *options, struct cm_process *process,
			 struct printing *printing)
{
	struct cm_device_view view;
	uint32_t index = 0;
	bool any = false;

	if (printing->json)
		cm_json_array(printing->json, "devices");
	for (; cm_process_next_device(options, process, &index, &view); any = true)
		print_device(process, &view, printing);
	if (printing->json)
		cm_json_end(printing->json);
	return any ? CM_EXIT_OK : cm_complain_no_device(options, process);
}

static int print_host(struct cm_process *process, struct printing *printing)
{
	struct cm_host_row row;
	bool torn;

	if (cm_reader_read_host(process->reader, &row, &torn))
		return cm_fail(CM_EXIT_TARGET, "%s: it cannot be read", process->path);
	if (printing->json) {
		cm_json_bool(printing->json, "torn", torn);
		cm_json_object(printing->json, "host_stats");
		cm_host_memory_stats_each(&row, put_entry, printing->json);
		cm_json_end(printing->json);
	} else {
		print_heading(printing, process, "pinned host memory");
		cm_host_memory_stats_each(&row, print_entry, &printing->width);
	}
	return CM_EXIT_OK;
}

static int print_process(const struct cm_options *options, struct cm_process *process, void *data)
{
	struct printing *printing = data;
	struct cm_json *json = printing->json;
	int exit;

	if (json) {
		cm_json_object(json, NULL);
		cm_json_identity(json, process);
	}
	exit = options->host ? print_host(process, printing)
			     : print_devices(options, process, printing);
	if (json)
		cm_json_end(json);
	return exit;
}

int cm_verb_memory_stats(const struct cm_options *options)
{
	const int room = (int)cm_line_width(stdout) - KEY_WIDTH - 1;
	struct printing printing = {.width = room < VALUE_WIDTH ? room : VALUE_WIDTH};
	struct cm_json json;
	int exit;

	printing.json = cm_json_open_array(options, &json, "memory-stats", "processes");
	exit = cm_for_processes(options, print_process, &printing);
	cm_json_close_array(printing.json);
	return exit;
}
