/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/causes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/snapshot/symbols.h"

/* All that names return addresses. Those from CM_TABLE_SITE on are in saved regions alone. */
static const enum cm_table whole[] = {CM_TABLE_MODULE, CM_TABLE_TEXT,  CM_TABLE_SAVED,
				      CM_TABLE_SITE,   CM_TABLE_FRAME, CM_TABLE_NAME};

/* Reads a table, and a zero row behind it that ends texts. */
static int read_whole(struct cm_reader *reader, enum cm_table table, struct cm_image_table *to)
{
	const uint32_t rows = reader->header.table[table].rows;
	const size_t bytes = cm_image_row_bytes(table);

	to->rows = calloc((size_t)rows + 1, bytes);
	if (!to->rows)
		return -ENOMEM;
	to->count = rows;
	return rows ? cm_reader_read(reader, table, 0, rows, to->rows, bytes) : 0;
}

static void read_by(struct cm_reader *reader, uint32_t id, char by[CM_CAUSE_BYTES])
{
	const uint32_t rows = reader->header.table[CM_TABLE_TEXT].rows;
	char text[CM_CAUSE_BYTES] = "";
	uint32_t bytes;

	if (id && id < rows) {
		bytes = rows - id < sizeof(text) - 1 ? rows - id : (uint32_t)sizeof(text) - 1;
		if (cm_reader_read(reader, CM_TABLE_TEXT, id, bytes, text, 1))
			*text = '\0';
	}
	(void)cm_text_clean(by, CM_CAUSE_BYTES, text);
}

/* Appends a stack to the table of the image and returns its new id; 0: it makes no sense. */
static uint32_t copy_stack(struct cm_reader *reader, uint32_t id, struct cm_image_table *to)
{
	const uint32_t at = to->count;
	uint64_t *words = (uint64_t *)to->rows + at;
	uint32_t frames;

	if (cm_reader_read(reader, CM_TABLE_STACK, id, 1, words, sizeof(*words)))
		return 0;
	frames = cm_stack_frames(*words);
	if (!frames || frames > CM_STACK_FRAMES_MAX ||
	    cm_reader_read(reader, CM_TABLE_STACK, id + 1, frames, words + 1, sizeof(*words)))
		return 0;
	to->count += 1 + frames;
	return at;
}

/* Returns whether there are stacks. */
static bool copy_stacks(struct cm_reader *reader, struct cm_causes *causes)
{
	struct cm_image_table *to = &causes->image->table[CM_TABLE_STACK];
	uint32_t id;
	size_t i;

	to->rows = calloc(1 + CM_CAUSE_COUNT * (1 + CM_STACK_FRAMES_MAX), sizeof(uint64_t));
	to->count = 1;
	for (i = 0; to->rows && i < CM_CAUSE_COUNT; i++) {
		id = cm_cause_stack(reader->header.record.cause[i]);
		causes->stack[i] = id ? copy_stack(reader, id, to) : 0;
	}
	causes->image->header.record.stack_words = to->count;
	return to->rows && to->count > 1;
}

static int build(struct cm_reader *reader, const char *hide, struct cm_causes *causes)
{
	const struct cm_symbols_from from = {.owner = reader->owner, .local = true};
	struct cm_image *image = causes->image;
	struct cm_symbols_report report;
	int err = 0;
	size_t i;

	for (i = 0; i < sizeof(whole) / sizeof(whole[0]) && !err; i++)
		err = read_whole(reader, whole[i], &image->table[whole[i]]);
	if (!err && image->table[CM_TABLE_SAVED].count)
		image->saved = *(const struct cm_saved *)image->table[CM_TABLE_SAVED].rows;
	if (!err)
		err = cm_symbols_add(image, &from, &report);
	return err ? err : cm_snapshot_create(image, hide, &causes->snapshot);
}

int cm_causes_read(struct cm_reader *reader, const char *hide, struct cm_causes *ret_causes)
{
	struct cm_causes causes = {.image = cm_image_create()};
	int err = 0;
	size_t i;

	if (!causes.image)
		return -ENOMEM;
	for (i = 0; i < CM_CAUSE_COUNT; i++)
		read_by(reader, cm_cause_by(reader->header.record.cause[i]), causes.by[i]);
	if (copy_stacks(reader, &causes))
		err = build(reader, hide, &causes);
	if (err)
		cm_causes_free(&causes);
	else
		*ret_causes = causes;
	return err;
}

void cm_causes_free(struct cm_causes *causes)
{
	cm_snapshot_destroy(causes->snapshot);
	cm_image_free(causes->image);
	memset(causes, 0, sizeof(*causes));
}

const struct cm_snap_stack *cm_causes_stack(const struct cm_causes *causes, enum cm_cause cause)
{
	return causes->snapshot ? cm_snapshot_stack(causes->snapshot, causes->stack[cause]) : NULL;
}
