/* SPDX-License-Identifier: MIT */
#include "tools/watch/columns.h"

#include "stats/summary.h"
#include "stats/text.h"
#include "tools/processes/smi_index.h"

/* In this file the columns have their names of columns.def. */
#define COLUMN(ID) CM_WATCH_COLUMN_##ID

void cm_watch_fill_process(const struct cm_watched *watched, struct cm_value *values)
{
	const struct cm_process *process = watched->process;

	values[COLUMN(PID)] = cm_value_number(process->pid);
	values[COLUMN(USER)] = cm_value_text(process->user);
	values[COLUMN(COMMAND)] = cm_value_text(process->command);
	values[COLUMN(REGION)] = cm_value_text(process->path);
	values[COLUMN(STATE)] = cm_value_text(cm_life_name(process->life));
	values[COLUMN(STATE)].alarming = process->life == CM_LIFE_CRASHED;
	if (process->error)
		return;
	values[COLUMN(COMM)] = cm_value_text(process->comm);
	values[COLUMN(NSPID)] = cm_value_number(watched->ns_pid);
	values[COLUMN(VERSION)] = cm_value_text(watched->version);
	if (process->age_ns)
		values[COLUMN(UP)] = cm_value_real((double)process->age_ns / 1e9);
	if (watched->has_host)
		values[COLUMN(HOST)] = cm_value_bytes(watched->host.allocated_bytes.current);
}

static void fill_counters(const struct cm_device_row *row, struct cm_value *values)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const double hits = cm_hit_rate(row->scalar[CM_SCALAR_cache_hits],
					row->scalar[CM_SCALAR_cache_misses]);

	values[COLUMN(ALLOC)] = cm_value_bytes(sum.allocated);
	values[COLUMN(RESERVED)] = cm_value_bytes(sum.reserved);
	values[COLUMN(CACHED)] = cm_value_bytes(sum.cached);
	values[COLUMN(FRAGMENTED)] = cm_value_bytes(sum.fragmented);
	values[COLUMN(UNCACHED)] = cm_value_bytes(cm_summary_other(row));
	values[COLUMN(PEAK)] = cm_value_bytes(sum.peak_allocated);
	values[COLUMN(PEAKRSV)] = cm_value_bytes(sum.peak_reserved);
	values[COLUMN(REQ)] = cm_value_bytes(sum.requested);
	values[COLUMN(PENDING)] = cm_value_bytes(sum.pending);
	values[COLUMN(BLOCKS)] = cm_value_number(sum.blocks);
	values[COLUMN(SEGS)] = cm_value_number(sum.segments);
	values[COLUMN(ALLOCS)] = cm_value_number(sum.allocs);
	values[COLUMN(FREES)] = cm_value_number(sum.frees);
	if (hits >= 0)
		values[COLUMN(HIT)] = cm_value_real(100 * hits);
	values[COLUMN(DRVALLOC)] = cm_value_number(row->scalar[CM_SCALAR_num_device_alloc]);
	values[COLUMN(DRVFREE)] = cm_value_number(row->scalar[CM_SCALAR_num_device_free]);
	values[COLUMN(RETRIES)] = cm_value_number(row->scalar[CM_SCALAR_num_alloc_retries]);
	values[COLUMN(DECAYED)] = cm_value_bytes(row->scalar[CM_SCALAR_decay_bytes]);
	values[COLUMN(GIVEN)] = cm_value_bytes(row->scalar[CM_SCALAR_peer_bytes_given]);
	values[COLUMN(GOT)] = cm_value_bytes(row->scalar[CM_SCALAR_peer_bytes_got]);
	values[COLUMN(OOM)] = cm_value_number(row->scalar[CM_SCALAR_num_ooms]);
	values[COLUMN(OOM)].alarming = row->scalar[CM_SCALAR_num_ooms] > 0;
}

static void fill_survey(const struct cm_survey_pool *found, struct cm_value *values)
{
	const double fragmentation = cm_fragmentation(found);

	values[COLUMN(LARGEST)] = cm_value_bytes((int64_t)found->largest_free);
	if (fragmentation >= 0)
		values[COLUMN(FRAG)] = cm_value_real(100 * fragmentation);
}

void cm_watch_fill_device(const struct cm_watched *watched, const struct cm_device_view *view,
			  struct cm_watch_texts *texts, struct cm_value *values)
{
	fill_counters(&view->row, values);
	if (watched->survey)
		fill_survey(&watched->survey->pool[view->index][CM_POOL_ALL], values);
	cm_text_clean(texts->model, sizeof(texts->model), view->row.name);
	values[COLUMN(GPU)] = cm_value_number(view->row.ordinal);
	values[COLUMN(MODEL)] = cm_value_text(texts->model);
	values[COLUMN(UUID)] = cm_value_text(
		cm_uuid_format(view->row.uuid, view->row.name, texts->uuid));
	if (*view->row.pci) {
		cm_text_clean(texts->pci, sizeof(texts->pci), view->row.pci);
		values[COLUMN(PCI)] = cm_value_text(texts->pci);
	}
	if (cm_smi_index(view->row.pci) >= 0)
		values[COLUMN(SMI)] = cm_value_number(cm_smi_index(view->row.pci));
	values[COLUMN(TOTAL)] = cm_value_bytes((int64_t)view->row.total_bytes);
	if (view->row.free_seen_ns && view->row.free_bytes <= view->row.total_bytes)
		values[COLUMN(FREE)] = cm_value_bytes((int64_t)view->row.free_bytes);
}
