/* SPDX-License-Identifier: MIT */
#include "tools/processes/uncached.h"

#include <stdio.h>

#include "tools/cli/exits.h"
#include "tools/output/emit.h"
#include "tools/snapshot/snapshot.h"

static const struct kind {
	const char *bytes; /* keys of JSON */
	const char *peak;
	const char *count;
} kinds[CM_UNCACHED_COUNT] = {
#define KIND(key)                                                \
	{                                                        \
		key "_bytes", "peak_" key "_bytes", key "_count" \
	}
	[CM_UNCACHED_MANAGED] = KIND("managed"), [CM_UNCACHED_PITCH] = KIND("pitch"),
	[CM_UNCACHED_ARRAY] = KIND("array"),     [CM_UNCACHED_ASYNC] = KIND("async"),
	[CM_UNCACHED_VMM] = KIND("vmm"),         [CM_UNCACHED_FORWARDED] = KIND("forwarded"),
#undef KIND
};

enum { COLUMN_KIND, COLUMN_COUNT, COLUMN_BYTES, COLUMN_PEAK, COLUMNS };

static const struct cm_column columns[COLUMNS] = {
	[COLUMN_KIND] = {"UNCACHED", "kind", 1, CM_ALIGN_LEFT, 16, "", NULL, NULL},
	[COLUMN_COUNT] = {"COUNT", "count", 1, CM_ALIGN_RIGHT, 9, "", NULL, NULL},
	[COLUMN_BYTES] = {"ALLOC", "allocated_bytes", 1, CM_ALIGN_RIGHT, 9, "", NULL, NULL},
	[COLUMN_PEAK] = {"PEAK", "peak_allocated_bytes", 1, CM_ALIGN_RIGHT, 9, "", NULL, NULL},
};

static const struct cm_column_set column_set = {"uncached", "kinds", columns, COLUMNS, true};

void cm_uncached_print(const struct cm_options *options, const struct cm_device_row *row)
{
	struct cm_emit *emit = NULL;
	uint32_t i;
	int exit;

	for (i = 0; i < CM_UNCACHED_COUNT; i++) {
		if (!row->other_bytes[i].current && !row->other_bytes[i].peak)
			continue;
		if (!emit)
			(void)putchar('\n');
		if (!emit && cm_emit_open(&column_set, options, &emit, &exit))
			return;
		cm_emit_row(emit, (const struct cm_value[COLUMNS]){
					  cm_value_text(cm_uncached_name(i)),
					  cm_value_number(row->other_count[i].current),
					  cm_value_bytes(row->other_bytes[i].current),
					  cm_value_bytes(row->other_bytes[i].peak),
				  });
	}
	(void)cm_emit_close(emit, CM_EXIT_OK);
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
