/* SPDX-License-Identifier: MIT */
#include "tools/processes/uncached.h"

#include <stdio.h>

#include "stats/units.h"

static const struct kind {
	const char *label;
	const char *bytes; /* keys of JSON */
	const char *peak;
	const char *count;
} kinds[CM_UNCACHED_COUNT] = {
#define KIND(label, key)                                                \
	{                                                               \
		label, key "_bytes", "peak_" key "_bytes", key "_count" \
	}
	[CM_UNCACHED_MANAGED] = KIND("managed", "managed"),
	[CM_UNCACHED_PITCH] = KIND("pitched", "pitch"),
	[CM_UNCACHED_ARRAY] = KIND("arrays", "array"),
	[CM_UNCACHED_ASYNC] = KIND("async", "async"),
	[CM_UNCACHED_VMM] = KIND("mapped", "vmm"),
	[CM_UNCACHED_FORWARDED] = KIND("forwarded", "forwarded"),
#undef KIND
};

static void print_line(const char *label, const struct cm_stat4 *count,
		       const struct cm_stat4 *bytes)
{
	(void)printf("%-16s %9s %9s %9s\n", label, cm_count_format(count->current).text,
		     cm_bytes_format(bytes->current).text, cm_bytes_format(bytes->peak).text);
}

void cm_uncached_print(const struct cm_device_row *row)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < CM_UNCACHED_COUNT; i++) {
		if (!row->other_bytes[i].current && !row->other_bytes[i].peak)
			continue;
		if (!any)
			(void)printf("\n%-16s %9s %9s %9s\n", "uncached", "count", "bytes", "peak");
		any = true;
		print_line(kinds[i].label, &row->other_count[i], &row->other_bytes[i]);
	}
}

void cm_uncached_json(struct cm_json *json, const struct cm_device_row *row)
{
	uint32_t i;

	for (i = 0; i < CM_UNCACHED_COUNT; i++) {
		cm_json_number(json, kinds[i].bytes, row->other_bytes[i].current);
		cm_json_number(json, kinds[i].peak, row->other_bytes[i].peak);
		cm_json_number(json, kinds[i].count, row->other_count[i].current);
	}
}
