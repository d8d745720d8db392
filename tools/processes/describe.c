/* SPDX-License-Identifier: MIT */
#include "tools/processes/describe.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stats/text.h"
#include "tools/output/text.h"
#include "tools/processes/smi_index.h"
#include "tools/processes/uncached.h"

void cm_json_open_document(struct cm_json *json, const char *name)
{
	char text[CM_TIME_TEXT], host[256] = "";

	cm_json_init(json, stdout);
	cm_json_object(json, NULL);
	(void)snprintf(text, sizeof(text), CM_PROGRAM "/%s/1", name);
	cm_json_text(json, "schema", text);
	cm_json_text(json, "time", cm_time_format(cm_time_now()).text);
	(void)gethostname(host, sizeof(host) - 1);
	cm_json_text(json, "host", host);
}

struct cm_json *cm_json_open_array(const struct cm_options *options, struct cm_json *json,
				   const char *name, const char *array)
{
	if (options->form != CM_FORM_JSON)
		return NULL;
	cm_json_open_document(json, name);
	cm_json_array(json, array);
	return json;
}

void cm_json_close_array(struct cm_json *json)
{
	if (!json)
		return;
	cm_json_end(json);
	cm_json_end(json);
}

void cm_json_identity(struct cm_json *json, const struct cm_process *process)
{
	const struct cm_header *header;
	char text[CM_TIME_TEXT];

	cm_json_number(json, "pid", process->pid);
	cm_json_number(json, "uid", (int64_t)process->uid);
	cm_json_text(json, "user", process->user);
	cm_json_text(json, "command", process->command);
	cm_json_text(json, "region", process->path);
	cm_json_text(json, "state", cm_life_name(process->life));
	if (!process->reader) {
		cm_json_text(json, "error", process->why);
		return;
	}
	header = &process->reader->header;
	cm_json_number(json, "ns_pid", header->pid);
	cm_json_text(json, "comm", process->comm);
	cm_json_text(json, "version", header->version);
	(void)snprintf(text, sizeof(text), "%u.%u", header->major, header->minor);
	cm_json_text(json, "layout", text);
	if (process->age_ns)
		cm_json_real(json, "up_seconds", (double)process->age_ns / 1e9);
	else
		cm_json_null(json, "up_seconds");
}

static void put_rate(struct cm_json *json, const char *key, double rate)
{
	if (rate < 0)
		cm_json_null(json, key);
	else
		cm_json_real(json, key, 100 * rate);
}

/* The figures of a pool that come from the counters. */
static const struct figure {
	const char *key;
	const char *old_key; /* of the last release, written too; NULL: none */
	size_t offset;       /* in struct cm_summary */
} figures[] = {
#define FIGURE(key, old_key, field)                              \
	{                                                        \
		key, old_key, offsetof(struct cm_summary, field) \
	}
	FIGURE("allocated_bytes", NULL, allocated),
	FIGURE("requested_bytes", NULL, requested),
	FIGURE("reserved_bytes", NULL, reserved),
	FIGURE("cached_bytes", NULL, cached),
	FIGURE("fragmented_bytes", "held_bytes", fragmented),
	FIGURE("pending_free_bytes", "waiting_bytes", pending),
	FIGURE("releasable_bytes", "trimmable_bytes", releasable),
	FIGURE("peak_allocated_bytes", NULL, peak_allocated),
	FIGURE("peak_reserved_bytes", NULL, peak_reserved),
	FIGURE("blocks", NULL, blocks),
	FIGURE("segments", NULL, segments),
	FIGURE("allocs_total", NULL, allocs),
	FIGURE("frees_total", NULL, frees),
#undef FIGURE
};

/* `found` NULL: the block table was not read. */
static void put_pool(struct cm_json *json, const struct cm_device_row *row, enum cm_pool pool,
		     const struct cm_survey_pool *found)
{
	const struct cm_summary sum = cm_summary_pool(row, pool);
	size_t i;

	for (i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		int64_t value;

		memcpy(&value, (const char *)&sum + figures[i].offset, sizeof(value));
		cm_json_number(json, figures[i].key, value);
		if (figures[i].old_key)
			cm_json_number(json, figures[i].old_key, value);
	}
	if (!found)
		return;
	cm_json_unsigned(json, "largest_free_bytes", found->largest_free);
	cm_json_unsigned(json, "free_blocks", found->free_blocks);
	cm_json_unsigned(json, "pending_free_blocks", found->pending_blocks);
	cm_json_unsigned(json, "waiting_blocks", found->pending_blocks);
	put_rate(json, "fragmentation_percent", cm_fragmentation(found));
}

void cm_json_device(struct cm_json *json, const struct cm_device_row *row)
{
	/* The row may be of a snapshot, whose texts need not end. */
	char model[sizeof(row->name)], pci[sizeof(row->pci)], uuid[CM_UUID_TEXT];
	int smi;

	cm_text_clean(model, sizeof(model), row->name);
	cm_text_clean(pci, sizeof(pci), row->pci);
	smi = cm_smi_index(pci);
	cm_json_text(json, "uuid", cm_uuid_format(row->uuid, model, uuid));
	cm_json_text(json, "model", model);
	cm_json_bool(json, "mig", cm_is_mig(model));
	if (*pci)
		cm_json_text(json, "pci", pci);
	else
		cm_json_null(json, "pci");
	if (smi >= 0)
		cm_json_number(json, "smi_index", smi);
	else
		cm_json_null(json, "smi_index");
}

static void put_device(struct cm_json *json, const struct cm_device_view *view,
		       const struct cm_survey *survey)
{
	static const char *const pools[CM_POOL_COUNT] = {
		[CM_POOL_SMALL] = "small_pool",
		[CM_POOL_LARGE] = "large_pool",
	};
	const struct cm_survey_pool *found = survey ? survey->pool[view->index] : NULL;
	const struct cm_device_row *row = &view->row;
	uint32_t pool;

	cm_json_object(json, NULL);
	cm_json_number(json, "gpu", row->ordinal);
	cm_json_device(json, row);
	cm_json_bool(json, "simulated", row->flags & CM_DEVICE_SIMULATED);
	cm_json_bool(json, "torn", view->torn);
	cm_json_unsigned(json, "total_bytes", row->total_bytes);
	if (row->free_seen_ns)
		cm_json_unsigned(json, "device_free_bytes", row->free_bytes);
	else
		cm_json_null(json, "device_free_bytes");
	put_pool(json, row, CM_POOL_ALL, found ? &found[CM_POOL_ALL] : NULL);
	cm_json_number(json, "uncached_bytes", cm_summary_other(row));
	cm_json_number(json, "other_bytes", cm_summary_other(row));
	cm_uncached_json(json, row);
	put_rate(json, "hit_percent",
		 cm_hit_rate(row->scalar[CM_SCALAR_cache_hits],
			     row->scalar[CM_SCALAR_cache_misses]));
	cm_json_number(json, "cache_hits_total", row->scalar[CM_SCALAR_cache_hits]);
	cm_json_number(json, "driver_allocs_total", row->scalar[CM_SCALAR_num_device_alloc]);
	cm_json_number(json, "driver_frees_total", row->scalar[CM_SCALAR_num_device_free]);
	cm_json_number(json, "ooms_total", row->scalar[CM_SCALAR_num_ooms]);
	cm_json_number(json, "retries_total", row->scalar[CM_SCALAR_num_alloc_retries]);
	for (pool = CM_POOL_SMALL; survey && pool < CM_POOL_COUNT; pool++) {
		cm_json_object(json, pools[pool]);
		put_pool(json, row, pool, found ? &found[pool] : NULL);
		cm_json_end(json);
	}
	cm_json_end(json);
}

size_t cm_json_devices(struct cm_json *json, const struct cm_options *options,
		       const struct cm_process *process, const struct cm_survey *survey)
{
	struct cm_device_view view;
	uint32_t index = 0;
	size_t count = 0;

	cm_json_array(json, "devices");
	while (process->reader && cm_process_next_device(options, process, &index, &view)) {
		put_device(json, &view, survey);
		count++;
	}
	cm_json_end(json);
	return count;
}

void cm_json_host(struct cm_json *json, const struct cm_process *process)
{
	struct cm_host_row row;
	bool torn;

	if (cm_reader_read_host(process->reader, &row, &torn)) {
		cm_json_null(json, "host_memory");
		return;
	}
	cm_json_object(json, "host_memory");
	cm_json_bool(json, "torn", torn);
	cm_json_number(json, "allocated_bytes", row.allocated_bytes.current);
	cm_json_number(json, "reserved_bytes", row.reserved_bytes.current);
	cm_json_number(json, "peak_allocated_bytes", row.allocated_bytes.peak);
	cm_json_number(json, "registered_bytes", row.registered_bytes.current);
	cm_json_number(json, "peak_registered_bytes", row.registered_bytes.peak);
	cm_json_number(json, "registered_count", row.registered.current);
	cm_json_number(json, "blocks", row.allocated.current);
	cm_json_number(json, "segments", row.segment.current);
	cm_json_end(json);
}
