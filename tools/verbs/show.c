/* SPDX-License-Identifier: MIT */
/*
 * `show`: where the memory of a process is, per device.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stats/command_client.h"
#include "stats/summary.h"
#include "stats/text.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/bars.h"
#include "tools/output/map.h"
#include "tools/output/text.h"
#include "tools/processes/collect.h"
#include "tools/processes/describe.h"
#include "tools/processes/uncached.h"
#include "tools/verbs/verbs.h"

#define FRESH_NS    UINT64_C(1000000000)
#define OPTIONS_MAX 64

/* The options that do not have their default value. */
static void print_settings(const struct cm_process *process)
{
	const uint32_t rows = process->reader->header.table[CM_TABLE_OPTION].rows;
	struct cm_option_row option;
	char name[sizeof(option.name)], value[sizeof(option.value)];
	const char *before = "   conf ";
	uint32_t i;

	for (i = 0; i < rows && i < OPTIONS_MAX; i++) {
		if (cm_reader_read_option(process->reader, i, &option) ||
		    !strcmp(option.value, option.fallback))
			continue;
		cm_text_clean(name, sizeof(name), option.name);
		cm_text_clean(value, sizeof(value), option.value);
		(void)printf("%s%s:%s", before, name, value);
		before = ",";
	}
}

/* Every counter by its number in the region, those of blocks first. */
static const char *const stat_names[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) returned,
#include "stats/counters.def"
};
static const char *const scalar_names[] = {
#define CM_SCALAR(field, pytorch, help) #field,
#include "stats/counters.def"
};

/* Counters from number `has` on: the library of the process is too old to have them. */
static const char *print_lacking(uint32_t has, const char *const names[], uint32_t count,
				 const char *before)
{
	for (; has < count; has++) {
		(void)printf("%s%s", before, names[has]);
		before = ", ";
	}
	return before;
}

/* What library and tool lack of each other, if they are not of one age. */
static void print_ages(const struct cm_header *header)
{
	const char *const first = "The library is older than this tool, and has no ";
	const char *next = first;

	if (header->minor > CM_LAYOUT_MINOR)
		(void)printf("The library is newer than this tool, which reads layout %d.%d: what "
			     "it adds is not shown.\n",
			     CM_LAYOUT_MAJOR, CM_LAYOUT_MINOR);
	next = print_lacking(header->stat_count, stat_names, CM_STAT_COUNT, next);
	next = print_lacking(header->scalar_count, scalar_names, CM_SCALAR_COUNT, next);
	if (next != first)
		(void)puts(": these are shown as 0.");
}

static void print_identity(const struct cm_process *process)
{
	const struct cm_header *header = &process->reader->header;

	(void)printf("pid %d  %s  %s\n%s", (int)process->pid, process->user, process->command,
		     cm_life_name(process->life));
	if (process->age_ns)
		(void)printf(", up %s", cm_duration_format(process->age_ns).text);
	(void)printf("   libcudamem %s   layout %u.%u", header->version, header->major,
		     header->minor);
	print_settings(process);
	(void)putchar('\n');
	print_ages(header);
	if (process->life == CM_LIFE_CRASHED)
		(void)printf(
			"The process crashed or was killed. These are its last counters, from %s\n",
			process->path);
}

/* The lines of a device's memory. They add up to the memory of the device, or to what is known
 * of it. */
static size_t fill_bars(const struct cm_device_row *row, const struct cm_summary *sum,
			struct cm_bar bars[CM_BARS_MAX])
{
	const int64_t uncached = cm_summary_other(row);
	int64_t outside = 0;
	size_t n = 0;

	bars[n++] = (struct cm_bar){"allocated", sum->allocated, false};
	bars[n++] = (struct cm_bar){"pending free", sum->pending, true};
	bars[n++] = (struct cm_bar){"cached, releasable", sum->releasable, false};
	bars[n++] = (struct cm_bar){"cached, fragmented", sum->fragmented, false};
	bars[n++] = (struct cm_bar){"uncached", uncached, true};
	if (!row->total_bytes)
		return n;
	if (cm_summary_outside(row, &outside)) {
		bars[n++] = (struct cm_bar){"contexts, libraries, others", outside, false};
		bars[n++] = (struct cm_bar){"free on the device", (int64_t)row->free_bytes, false};
	} else {
		outside = (int64_t)(row->total_bytes - (uint64_t)sum->reserved -
				    (uint64_t)uncached);
		bars[n++] = (struct cm_bar){"free, or used by others", outside, false};
	}
	return n;
}

#define POOL_LINE "%-5s %8s %9s %8s %8s %8s %13s %13s" /* within 80 columns */

static void print_pool(const char *name, const struct cm_summary *sum,
		       const struct cm_survey_pool *found)
{
	(void)printf(POOL_LINE "\n", name, cm_count_format(sum->segments).text,
		     cm_count_format(sum->blocks).text, cm_bytes_format(sum->allocated).text,
		     cm_bytes_format(sum->reserved).text, cm_bytes_format(sum->peak_allocated).text,
		     found ? cm_bytes_format((int64_t)found->largest_free).text : "-",
		     cm_count_format(sum->allocs).text);
}

static void print_pools(const struct cm_device_view *view, const struct cm_survey *survey)
{
	static const char *const names[CM_POOL_COUNT] = {"all", "small", "large"};
	static const enum cm_pool order[] = {CM_POOL_SMALL, CM_POOL_LARGE, CM_POOL_ALL};
	size_t i;

	(void)printf("\n" POOL_LINE "\n", "pool", "segments", "blocks", "alloc", "reserved", "peak",
		     "largest free", "requests");
	for (i = 0; i < CM_POOL_COUNT; i++) {
		const struct cm_summary sum = cm_summary_pool(&view->row, order[i]);

		print_pool(names[order[i]], &sum,
			   survey ? &survey->pool[view->index][order[i]] : NULL);
	}
}

static void print_counters(const struct cm_device_row *row)
{
	const int64_t *scalar = row->scalar;
	const double hits = cm_hit_rate(scalar[CM_SCALAR_cache_hits],
					scalar[CM_SCALAR_cache_misses]);

	(void)printf("\ndriver: %s %s, %s %s",
		     cm_count_format(scalar[CM_SCALAR_num_device_alloc]).text,
		     scalar[CM_SCALAR_num_device_alloc] == 1 ? "allocation" : "allocations",
		     cm_count_format(scalar[CM_SCALAR_num_device_free]).text,
		     scalar[CM_SCALAR_num_device_free] == 1 ? "free" : "frees");
	if (hits >= 0)
		(void)printf("; cache hits: %.1f%% of the requests", floor(1000 * hits) / 10);
	(void)putchar('\n');
	if (scalar[CM_SCALAR_num_ooms] || scalar[CM_SCALAR_num_alloc_retries])
		(void)printf("out of memory: failed requests: %s; retries after emptying the "
			     "cache: %s\n",
			     cm_count_format(scalar[CM_SCALAR_num_ooms]).text,
			     cm_count_format(scalar[CM_SCALAR_num_alloc_retries]).text);
}

/* Memory released by decay and on request of peer processes; prints nothing if there was none. */
static void print_released(const struct cm_device_row *row)
{
	const int64_t *scalar = row->scalar;

	if (!scalar[CM_SCALAR_decay_bytes] && !scalar[CM_SCALAR_peer_bytes_given] &&
	    !scalar[CM_SCALAR_peer_asks])
		return;
	(void)printf("released to the driver: %s after idling, %s for peer processes; by peer "
		     "processes for this one: %s\n",
		     cm_bytes_format(scalar[CM_SCALAR_decay_bytes]).text,
		     cm_bytes_format(scalar[CM_SCALAR_peer_bytes_given]).text,
		     cm_bytes_format(scalar[CM_SCALAR_peer_bytes_got]).text);
}

static void print_device(const struct cm_options *options, const struct cm_process *process,
			 const struct cm_device_view *view, const struct cm_survey *survey)
{
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	char uuid[CM_UUID_TEXT], model[sizeof(view->row.name)];
	struct cm_bar bars[CM_BARS_MAX];
	size_t n;

	cm_text_clean(model, sizeof(model), view->row.name);
	(void)printf("\nGPU %d  %s  %s  %s%s\n", (int)view->row.ordinal, model,
		     cm_bytes_format((int64_t)view->row.total_bytes).text,
		     cm_uuid_format(view->row.uuid, uuid),
		     view->row.flags & CM_DEVICE_SIMULATED ? "  (simulated)" : "");
	if (view->torn)
		(void)printf("The counters changed while they were read: they may differ by the "
			     "requests in flight.\n");
	n = fill_bars(&view->row, &sum, bars);
	cm_bars_print(bars, n, options->ascii);
	if (sum.rounding > 0)
		(void)printf("\nRounding: the blocks are %s larger than requested.\n",
			     cm_bytes_format(sum.rounding).text);
	print_pools(view, survey);
	cm_uncached_print(&view->row);
	print_counters(&view->row);
	print_released(&view->row);
	if (options->map != CM_MAP_NONE)
		cm_map_print(process->reader, view->index, options->map == CM_MAP_ALL);
}

static void print_host(const struct cm_process *process)
{
	struct cm_host_row row;
	bool torn;

	if (cm_reader_read_host(process->reader, &row, &torn) ||
	    (!row.reserved_bytes.current && !row.registered_bytes.current))
		return;
	(void)printf(
		"\npinned host memory: %s allocated, %s reserved, %s registered by the program",
		cm_bytes_format(row.allocated_bytes.current).text,
		cm_bytes_format(row.reserved_bytes.current).text,
		cm_bytes_format(row.registered_bytes.current).text);
	if (row.registered.current)
		(void)printf(" in %s ranges", cm_count_format(row.registered.current).text);
	(void)putchar('\n');
}

static void print_process(const struct cm_options *options, const struct cm_process *process,
			  const struct cm_survey *survey)
{
	struct cm_device_view view;
	uint32_t index = 0;
	bool any = false;

	print_identity(process);
	while (cm_process_next_device(options, process, &index, &view)) {
		print_device(options, process, &view, survey);
		any = true;
	}
	if (!any)
		(void)printf("\nno device memory was requested%s\n",
			     options->device_count ? " on the devices named" : " yet");
	print_host(process);
}

static int show(const struct cm_options *options, struct cm_process *process, void *data)
{
	struct cm_command checkpoint = {.code = CM_COMMAND_CHECKPOINT};
	struct cm_json *json = data; /* NULL: text */
	struct cm_survey *survey = NULL;

	if (options->fresh && !cm_process_is_dead(process) &&
	    cm_client_send(process->reader, &checkpoint, FRESH_NS))
		cm_complain("process %d did not update its counters; they are shown as they are",
			    (int)process->pid);
	(void)cm_reader_refresh(process->reader);
	if (cm_survey_create(process->reader, &survey))
		cm_complain("the tables of process %d cannot be read", (int)process->pid);
	if (json) {
		cm_json_object(json, NULL);
		cm_json_identity(json, process);
		cm_json_host(json, process);
		cm_json_devices(json, options, process, survey);
		cm_json_end(json);
	} else {
		print_process(options, process, survey);
	}
	cm_survey_destroy(survey);
	return CM_EXIT_OK;
}

int cm_verb_show(const struct cm_options *options)
{
	struct cm_json json, *to = cm_json_open_array(options, &json, "show", "processes");
	const int exit = cm_for_processes(options, show, to);

	cm_json_close_array(to);
	return exit;
}
