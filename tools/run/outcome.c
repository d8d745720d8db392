/* SPDX-License-Identifier: MIT */
#include "tools/run/outcome.h"

#include <string.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "stats/text.h"
#include "stats/units.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"

#define MIB          ((int64_t)1 << 20)
#define WORTH_BYTES  (64 * MIB) /* less is not worth an option */
#define FEW_REQUESTS 100        /* their hit rate says nothing */

void cm_run_outcome_add(struct cm_run_outcome *outcome, const struct cm_device_row *row)
{
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);
	const int64_t fragmented =
		cm_stat_read(row, CM_POOL_ALL, CM_STAT_INACTIVE_SPLIT_BYTES).peak;
	const int64_t *scalar = row->scalar;
	size_t i;

#define ADD(field, value) outcome->field = cm_wrap_add(outcome->field, value)
	ADD(peak_allocated, sum.peak_allocated);
	ADD(peak_reserved, sum.peak_reserved);
	ADD(allocs, sum.allocs);
	ADD(frees, sum.frees);
	ADD(hits, scalar[CM_SCALAR_cache_hits]);
	ADD(misses, scalar[CM_SCALAR_cache_misses]);
	ADD(driver_allocs, scalar[CM_SCALAR_num_device_alloc]);
	ADD(driver_frees, scalar[CM_SCALAR_num_device_free]);
	ADD(forwarded, scalar[CM_SCALAR_forwarded_allocs]);
	ADD(ooms, scalar[CM_SCALAR_num_ooms]);
	ADD(rejections, scalar[CM_SCALAR_num_oom_rejections]);
	ADD(decayed, scalar[CM_SCALAR_decay_bytes]);
	for (i = 0; i < CM_UNCACHED_COUNT; i++)
		ADD(peak_uncached, row->other_bytes[i].peak);
#undef ADD
	if (fragmented > outcome->peak_fragmented)
		outcome->peak_fragmented = fragmented;
	outcome->devices++;
}

/* Is it at least this share of the reserved memory, and enough to suggest an option? */
static bool is_much(const struct cm_run_outcome *outcome, int64_t bytes, int share)
{
	return bytes >= WORTH_BYTES && bytes >= outcome->peak_reserved / share;
}

/* One sentence for each reason, the gravest first. The first one that holds is printed. */
void cm_run_outcome_advise(const struct cm_run_outcome *outcome, char *text, size_t bytes)
{
	const double hits = cm_hit_rate(outcome->hits, outcome->misses);
	const bool misses_much = hits >= 0 && hits < 0.9 &&
				 cm_wrap_add(outcome->hits, outcome->misses) >= FEW_REQUESTS;

	if (!outcome->caches)
		(void)snprintf(text, bytes, "mode:cache: the library only counted");
	else if (outcome->rejections > 0)
		(void)snprintf(text, bytes,
			       "a higher memory_limit_mb or per_process_memory_fraction: requests "
			       "refused by the cap: %s",
			       cm_count_format(outcome->rejections).text);
	else if (!outcome->pages && is_much(outcome, outcome->peak_fragmented, 10))
		(void)snprintf(text, bytes,
			       "expandable_segments:on: up to %s lay free between blocks%s",
			       cm_size_format(outcome->peak_fragmented).text,
			       outcome->ooms > 0 ? ", and memory ran out" : "");
	else if (misses_much && is_much(outcome, outcome->decayed, 4))
		(void)snprintf(text, bytes,
			       "decay_seconds:off, or a longer time: %s went back to the driver "
			       "while idle",
			       cm_size_format(outcome->decayed).text);
	else if (misses_much && !outcome->splits)
		(void)snprintf(text, bytes, "%s: with exact the driver serves each new size",
			       outcome->may_share
				       ? "placement:split, if no other process and no network "
					 "card uses the memory"
				       : "placement:auto");
	else if (outcome->ooms > 0)
		(void)snprintf(text, bytes,
			       "none: more was requested than could be free; %s shows what held "
			       "the memory",
			       outcome->saves_oom ? "report on the file of --oom"
						  : "a run with --oom FILE");
	else
		(void)snprintf(text, bytes, "none");
}

static void read_options(struct cm_reader *reader, struct cm_run_outcome *outcome)
{
	struct cm_option_row row;
	uint32_t i;

	outcome->caches = outcome->splits = true;
	for (i = 0; !cm_reader_read_option(reader, i, &row); i++) {
		if (!strcmp(row.name, "mode"))
			outcome->caches = !strcmp(row.value, "cache");
		else if (!strcmp(row.name, "expandable_segments"))
			outcome->pages = !strcmp(row.value, "on");
		else if (!strcmp(row.name, "placement")) {
			outcome->splits = strcmp(row.value, "exact") != 0;
			outcome->may_share = !strcmp(row.origin, "library");
		}
	}
}

static struct cm_run_outcome read_outcome(struct cm_reader *reader)
{
	struct cm_run_outcome outcome = {0};
	struct cm_device_row row;
	uint32_t i;
	bool torn;

	(void)cm_reader_refresh(reader);
	for (i = 0; i < CM_DEVICES_MAX && i < reader->header.table[CM_TABLE_DEVICE].rows; i++)
		if (!cm_reader_read_device(reader, i, &row, &torn))
			cm_run_outcome_add(&outcome, &row);
	read_options(reader, &outcome);
	return outcome;
}

/* A line of the report: what it is about, and a sentence. */
#define LINE(what, format, ...) \
	cm_line_of(out, reader->header.pid, 24, "cudamem: %-14s " format, what, ##__VA_ARGS__)

static void print_driver_calls(const struct cm_reader *reader, const struct cm_run_outcome *outcome,
			       FILE *out)
{
	const int64_t asked = cm_wrap_add(outcome->allocs, outcome->frees);
	const int64_t called = cm_wrap_add(outcome->driver_allocs, outcome->driver_frees);

	LINE("driver calls", "%s saved: %s and %s in place of %s and %s",
	     cm_count_format(cm_wrap_sub(asked, called)).text,
	     cm_count_of(outcome->driver_allocs, "allocation").text,
	     cm_count_of(outcome->driver_frees, "free").text, cm_count_format(outcome->allocs).text,
	     cm_count_format(outcome->frees).text);
}

/* Bytes, not a ratio: a program with a peak of 4 MiB has a segment of 20 MiB, and no fault. */
static void print_fragmentation(const struct cm_reader *reader,
				const struct cm_run_outcome *outcome, FILE *out)
{
	LINE("fragmentation", "%s reserved beyond the peak; at most %s lay free between blocks",
	     cm_size_format(cm_wrap_sub(outcome->peak_reserved, outcome->peak_allocated)).text,
	     cm_size_format(outcome->peak_fragmented).text);
}

bool cm_run_outcome_print(struct cm_reader *reader, bool saves_oom, FILE *out)
{
	struct cm_run_outcome outcome = read_outcome(reader);
	const double hits = cm_hit_rate(outcome.hits, outcome.misses);
	const bool uses_cache = outcome.allocs || outcome.forwarded || outcome.ooms;
	char comm[sizeof(reader->header.comm)], advice[256], on[48] = "";

	if (!outcome.devices || (!uses_cache && !outcome.peak_uncached))
		return false;
	(void)cm_text_clean(comm, sizeof(comm), reader->header.comm);
	if (!uses_cache) {
		LINE("peak", "%s outside the cache, to which no request went (%s)",
		     cm_size_format(outcome.peak_uncached).text, comm);
		return true;
	}
	if (outcome.devices > 1)
		(void)snprintf(on, sizeof(on), " on %zu devices", outcome.devices);
	LINE("peak", "%s allocated, %s reserved%s (%s)",
	     cm_size_format(outcome.peak_allocated).text,
	     cm_size_format(outcome.peak_reserved).text, on, comm);
	print_driver_calls(reader, &outcome, out);
	if (hits < 0)
		LINE("hit rate", "no request went to the cache");
	else
		LINE("hit rate", "%.1f%% of %s", 100 * hits,
		     cm_count_of(cm_wrap_add(outcome.hits, outcome.misses), "request").text);
	print_fragmentation(reader, &outcome, out);
	outcome.saves_oom = saves_oom;
	cm_run_outcome_advise(&outcome, advice, sizeof(advice));
	LINE("option to try", "%s", advice);
	return true;
}
