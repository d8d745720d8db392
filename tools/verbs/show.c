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
#include "tools/cli/width.h"
#include "tools/output/bars.h"
#include "tools/output/emit.h"
#include "tools/output/map.h"
#include "tools/output/size.h"
#include "tools/output/text.h"
#include "tools/processes/describe.h"
#include "tools/processes/service.h"
#include "tools/processes/smi_index.h"
#include "tools/processes/targets.h"
#include "tools/processes/uncached.h"
#include "tools/verbs/verbs.h"

#define OPTIONS_MAX    64
#define SENTENCE_BYTES 4096

/* A sentence that is put together piece by piece; what has no room is cut off. */
struct sentence {
	char text[SENTENCE_BYTES];
	size_t used;
};

#define ADD(to, ...) \
	((to)->used = cm_text_append((to)->text, SENTENCE_BYTES, (to)->used, __VA_ARGS__))

/* The options that do not have their default value. */
static void print_settings(const struct cm_process *process)
{
	const uint32_t rows = process->reader->header.table[CM_TABLE_OPTION].rows;
	struct sentence sentence = {.used = 0};
	struct cm_option_row option;
	char name[sizeof(option.name)], value[sizeof(option.value)];
	uint32_t i;

	for (i = 0; i < rows && i < OPTIONS_MAX; i++) {
		if (cm_reader_read_option(process->reader, i, &option) ||
		    !strcmp(option.value, option.fallback))
			continue;
		cm_text_clean(name, sizeof(name), option.name);
		cm_text_clean(value, sizeof(value), option.value);
		ADD(&sentence, "%s%s:%s", sentence.used ? ", " : "conf ", name, value);
	}
	if (sentence.used)
		cm_line(stdout, "     ", "%s", sentence.text);
}

/* Every counter by its number in the region, those of blocks first. */
static const char *const stat_names[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) returned,
#include "stats/counters.def"
};
static const char *const stat1_names[] = {
#define CM_STAT1(ENUM, name, unit, help) name,
#include "stats/counters.def"
};
static const char *const scalar_names[] = {
#define CM_SCALAR(field, pytorch, help) #field,
#include "stats/counters.def"
};

/* Adds the counters from number `has` on: the library of the process is too old to have them. */
static void add_lacking(struct sentence *sentence, uint32_t has, const char *const names[],
			uint32_t count)
{
	for (; has < count; has++)
		ADD(sentence, "%s%s",
		    sentence->used ? ", " : "The library is older than this tool, and has no ",
		    names[has]);
}

/* What library and tool lack of each other, if they are not of one age. */
static void print_ages(const struct cm_header *header)
{
	struct sentence sentence = {.used = 0};

	if (header->minor > CM_LAYOUT_MINOR)
		cm_line(stdout, "",
			"The library is newer than this tool, which reads layout %d.%d: what it "
			"adds is not shown.",
			CM_LAYOUT_MAJOR, CM_LAYOUT_MINOR);
	add_lacking(&sentence, header->stat_count, stat_names, CM_STAT_COUNT);
	add_lacking(&sentence, header->stat1_count, stat1_names, CM_STAT1_COUNT);
	add_lacking(&sentence, header->scalar_count, scalar_names, CM_SCALAR_COUNT);
	if (sentence.used)
		cm_line(stdout, "", "%s: these are shown as 0.", sentence.text);
}

static void print_identity(const struct cm_process *process)
{
	const struct cm_header *header = &process->reader->header;
	const bool runs = process->age_ns > 0;

	cm_line(stdout, "    ", "pid %d  %s  %s", (int)process->pid, process->user,
		process->command);
	cm_line(stdout, "    ", "%s%s%s   libcudamem %s   layout %u.%u",
		cm_life_name(process->life), runs ? ", up " : "",
		runs ? cm_duration_format(process->age_ns).text : "", header->version,
		header->major, header->minor);
	print_settings(process);
	print_ages(header);
	if (process->life == CM_LIFE_CRASHED)
		cm_line(stdout, "",
			"The process crashed, was killed or called _exit(). These are its last "
			"counters, from %s",
			process->path);
}

/* The lines of a device's memory. They add up to the memory of the device, or to what is known
 * of it. */
static size_t fill_bars(const struct cm_device_row *row, const struct cm_summary *sum,
			struct cm_bar bars[CM_BARS_MAX])
{
	const int64_t uncached = cm_summary_other(row);
	const int64_t rest = (int64_t)(row->total_bytes - (uint64_t)sum->reserved -
				       (uint64_t)uncached);
	int64_t outside = 0;
	size_t n = 0;

	bars[n++] = (struct cm_bar){"allocated", sum->allocated, false};
	bars[n++] = (struct cm_bar){"cached, pending free", sum->pending, true};
	bars[n++] = (struct cm_bar){"cached, releasable", sum->releasable, false};
	bars[n++] = (struct cm_bar){"cached, fragmented", sum->fragmented, false};
	bars[n++] = (struct cm_bar){"uncached", uncached, true};
	if (!row->total_bytes)
		return n;
	if (cm_summary_outside(row, &outside)) {
		bars[n++] = (struct cm_bar){"contexts, libraries, others", outside, false};
		/* What the process has taken since the driver was asked is free no more. */
		bars[n++] = (struct cm_bar){"free on the device",
					    (int64_t)((uint64_t)rest - (uint64_t)outside), false};
	} else {
		bars[n++] = (struct cm_bar){"free, or used by others", rest, false};
	}
	return n;
}

enum pool_column {
#define CM_COLUMN(ID, name, usual, ALIGN, width) POOL_##ID,
#include "tools/verbs/pool_columns.def"
	POOL_COLUMNS
};

static const struct cm_column pool_columns[POOL_COLUMNS] = {
#define CM_COLUMN(ID, name, usual, ALIGN, width) \
	[POOL_##ID] = {name, name, usual, CM_ALIGN_##ALIGN, width, "", NULL, NULL},
#include "tools/verbs/pool_columns.def"
};

static const struct cm_column_set pool_set = {"pools", "pools", pool_columns, POOL_COLUMNS, true};

static void emit_pool(struct cm_emit *emit, const char *name, const struct cm_summary *sum,
		      const struct cm_survey_pool *found)
{
	struct cm_value values[POOL_COLUMNS] = {
		[POOL_NAME] = cm_value_text(name),
		[POOL_SEGMENTS] = cm_value_number(sum->segments),
		[POOL_BLOCKS] = cm_value_number(sum->blocks),
		[POOL_ALLOC] = cm_value_bytes(sum->allocated),
		[POOL_RESERVED] = cm_value_bytes(sum->reserved),
		[POOL_PEAK] = cm_value_bytes(sum->peak_allocated),
		[POOL_ALLOCS] = cm_value_number(sum->allocs),
	};

	if (found)
		values[POOL_LARGEST] = cm_value_bytes((int64_t)found->largest_free);
	cm_emit_row(emit, values);
}

static void print_pools(const struct cm_options *options, const struct cm_device_view *view,
			const struct cm_survey *survey)
{
	static const char *const names[CM_POOL_COUNT] = {"all", "small", "large"};
	static const enum cm_pool order[] = {CM_POOL_SMALL, CM_POOL_LARGE, CM_POOL_ALL};
	struct cm_emit *emit;
	size_t i;
	int exit;

	(void)putchar('\n');
	if (cm_emit_open(&pool_set, options, &emit, &exit))
		return;
	for (i = 0; i < CM_POOL_COUNT; i++) {
		const struct cm_summary sum = cm_summary_pool(&view->row, order[i]);

		emit_pool(emit, names[order[i]], &sum,
			  survey ? &survey->pool[view->index][order[i]] : NULL);
	}
	(void)cm_emit_close(emit, CM_EXIT_OK);
}

static void print_counters(const struct cm_device_row *row)
{
	const int64_t *scalar = row->scalar;
	const double hits = cm_hit_rate(scalar[CM_SCALAR_cache_hits],
					scalar[CM_SCALAR_cache_misses]);

	char rate[64] = "";

	if (hits >= 0)
		(void)snprintf(rate, sizeof(rate), "; cache hits: %.1f%% of the requests",
			       floor(1000 * hits) / 10);
	(void)putchar('\n');
	cm_line(stdout, "        ", "driver: %s, %s%s",
		cm_count_of(scalar[CM_SCALAR_num_device_alloc], "allocation").text,
		cm_count_of(scalar[CM_SCALAR_num_device_free], "free").text, rate);
	if (scalar[CM_SCALAR_num_ooms] || scalar[CM_SCALAR_num_alloc_retries])
		cm_line(stdout, "        ",
			"out of memory: failed requests: %s; retries after emptying the cache: %s",
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
	cm_line(stdout, "        ",
		"released to the driver: %s after idling, %s for peer processes; by peer "
		"processes for this one: %s",
		cm_size_format(scalar[CM_SCALAR_decay_bytes]).text,
		cm_size_format(scalar[CM_SCALAR_peer_bytes_given]).text,
		cm_size_format(scalar[CM_SCALAR_peer_bytes_got]).text);
}

/* What show says of a process beside its counters. */
struct findings {
	struct cm_survey *survey; /* NULL: the tables cannot be read */
	struct cm_causes causes;
};

static void find_service(const struct cm_process *process, const struct findings *findings,
			 uint32_t device, struct cm_service *ret_service)
{
	const struct cm_survey *survey = findings->survey;

	cm_service_find(process, device, survey ? survey->named_bytes[device] : 0, ret_service);
}

static void print_service(const struct cm_process *process, const struct findings *findings,
			  uint32_t device)
{
	struct cm_service service;

	find_service(process, findings, device, &service);
	cm_service_print(&service, &findings->causes);
}

static void put_services(struct cm_json *json, const struct cm_options *options,
			 const struct cm_process *process, const struct findings *findings)
{
	struct cm_device_view view;
	struct cm_service service;
	uint32_t index = 0;

	cm_json_array(json, "services");
	while (cm_process_next_device(options, process, &index, &view)) {
		find_service(process, findings, view.index, &service);
		cm_json_object(json, NULL);
		cm_json_number(json, "gpu", view.row.ordinal);
		cm_service_json(json, &service, &findings->causes);
		cm_json_end(json);
	}
	cm_json_end(json);
}

/* What tells the card from others of the machine. */
static void print_card(const struct cm_device_row *row)
{
	const int smi = cm_smi_index(row->pci);
	char pci[sizeof(row->pci)], uuid[CM_UUID_TEXT], number[32] = "";

	cm_text_clean(pci, sizeof(pci), row->pci);
	if (smi >= 0)
		(void)snprintf(number, sizeof(number), "  nvidia-smi %d", smi);
	cm_line(stdout, "       ", "       %s%s%s%s", pci, *pci ? "  " : "",
		cm_uuid_format(row->uuid, row->name, uuid), number);
}

static void print_device(const struct cm_options *options, const struct cm_process *process,
			 const struct cm_device_view *view, const struct findings *findings)
{
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	char model[sizeof(view->row.name)];
	struct cm_bar bars[CM_BARS_MAX];
	size_t n;

	cm_text_clean(model, sizeof(model), view->row.name);
	(void)putchar('\n');
	cm_line(stdout, "    ", "GPU %d  %s  %s%s", (int)view->row.ordinal, model,
		cm_size_format((int64_t)view->row.total_bytes).text,
		view->row.flags & CM_DEVICE_SIMULATED ? "  (simulated)" : "");
	print_card(&view->row);
	if (view->torn)
		cm_line(stdout, "",
			"The counters changed while they were read: they may differ by the "
			"requests in flight.");
	n = fill_bars(&view->row, &sum, bars);
	cm_bars_print(bars, n, options->ascii);
	if (sum.rounding > 0)
		(void)printf("\nRounding: the blocks are %s larger than requested.\n",
			     cm_size_format(sum.rounding).text);
	print_pools(options, view, findings->survey);
	cm_uncached_print(options, &view->row);
	print_counters(&view->row);
	print_released(&view->row);
	print_service(process, findings, view->index);
	if (options->map != CM_MAP_NONE)
		cm_map_print(process->reader, view->index, options->map == CM_MAP_ALL);
}

static void print_host(const struct cm_process *process)
{
	char ranges[CM_UNITS_BYTES + 16] = "";
	struct cm_host_row row;
	bool torn;

	if (cm_reader_read_host(process->reader, &row, &torn) ||
	    (!row.reserved_bytes.current && !row.registered_bytes.current))
		return;
	(void)putchar('\n');
	if (row.registered.current)
		(void)snprintf(ranges, sizeof(ranges), " in %s ranges",
			       cm_count_format(row.registered.current).text);
	cm_line(stdout, "    ",
		"pinned host memory: %s allocated, %s reserved, %s registered by the program%s",
		cm_size_format(row.allocated_bytes.current).text,
		cm_size_format(row.reserved_bytes.current).text,
		cm_size_format(row.registered_bytes.current).text, ranges);
}

static void print_process(const struct cm_options *options, const struct cm_process *process,
			  const struct findings *findings)
{
	struct cm_device_view view;
	uint32_t index = 0;
	bool any = false;

	print_identity(process);
	while (cm_process_next_device(options, process, &index, &view)) {
		print_device(options, process, &view, findings);
		any = true;
	}
	if (!any)
		(void)printf("\nno device memory was requested yet\n");
	print_host(process);
}

struct showing {
	struct cm_json *json; /* NULL: text */
	bool has_one;         /* process printed */
};

static int show(const struct cm_options *options, struct cm_process *process, void *data)
{
	struct cm_command checkpoint = {.code = CM_COMMAND_CHECKPOINT};
	struct showing *showing = data;
	struct cm_json *json = showing->json;
	struct findings findings = {.survey = NULL};
	struct cm_device_view view;
	uint32_t index = 0;

	if (options->fresh && !cm_process_is_dead(process) &&
	    cm_client_send(process->reader, &checkpoint, options->timeout_ns))
		cm_complain("process %d did not update its counters; they are shown as they are",
			    (int)process->pid);
	(void)cm_reader_refresh(process->reader);
	if (options->device_count && !cm_process_next_device(options, process, &index, &view))
		return cm_complain_no_device(options, process);
	if (cm_survey_create(process->reader, &findings.survey) ||
	    cm_causes_read(process->reader, options->hide, &findings.causes))
		cm_complain("the tables of process %d cannot be read", (int)process->pid);
	if (json) {
		cm_json_object(json, NULL);
		cm_json_identity(json, process);
		cm_json_host(json, process);
		cm_json_devices(json, options, process, findings.survey);
		put_services(json, options, process, &findings);
		cm_json_end(json);
	} else {
		if (showing->has_one)
			(void)putchar('\n');
		print_process(options, process, &findings);
	}
	showing->has_one = true;
	cm_survey_destroy(findings.survey);
	cm_causes_free(&findings.causes);
	return CM_EXIT_OK;
}

int cm_verb_show(const struct cm_options *options)
{
	struct cm_json json;
	struct showing showing = {cm_json_open_array(options, &json, "show", "processes"), false};
	const int exit = cm_for_processes(options, show, &showing);

	cm_json_close_array(showing.json);
	return exit;
}
