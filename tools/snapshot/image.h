/* SPDX-License-Identifier: MIT */
/*
 * A copy of a region in memory, consistent if possible: the tables of stats/layout.h.
 *
 * A running process is asked to hold still, for a millisecond at most. A process that is stopped or
 * dead, or does not answer, is copied as it is. The sequence numbers of its counters show whether
 * it changed anything meanwhile; then the copy is marked as torn. Tables that only grow (stacks,
 * texts, modules) and the rings, whose rows are numbered, are copied afterwards.
 */
#ifndef CM_TOOLS_SNAPSHOT_IMAGE_H
#define CM_TOOLS_SNAPSHOT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "stats/reader.h"

struct cm_image_table {
	void *rows; /* of the row size of this build */
	uint32_t count;
};

struct cm_image {
	struct cm_header header;
	struct cm_image_table table[CM_TABLE_COUNT];
	struct cm_saved saved; /* how and when */
};

/* The row size of a table in this build. */
size_t cm_image_row_bytes(enum cm_table table);

/* An image without rows. The caller frees it with cm_image_free(). NULL: not enough memory. */
struct cm_image *cm_image_create(void);

/*
 * Copies the region. Waits at most `timeout_ns` for the process to hold still. -ENOMEM, -EIO,
 * -EBADMSG, with the reason in `why` (CM_READER_WHY_BYTES).
 */
int cm_image_take(struct cm_reader *reader, uint64_t timeout_ns, struct cm_image **ret_image,
		  char *why);
void cm_image_free(struct cm_image *image);

/* Converts a tick to nanoseconds since 1970; 0 if the clock of the process is unknown. */
uint64_t cm_image_time(const struct cm_image *image, uint64_t tick);

/* The text with this id in CM_TABLE_TEXT or CM_TABLE_NAME; "" if there is none. */
const char *cm_image_text(const struct cm_image *image, enum cm_table table, uint32_t id);
/* The name of the innermost range of an event's annotation; "": none. */
const char *cm_image_range(const struct cm_image *image, uint32_t id);

#endif
