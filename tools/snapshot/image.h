/* SPDX-License-Identifier: MIT */
/*
 * A region copied into memory, of one moment where that can be had: the tables as the layout has
 * them.
 *
 * A process that runs is asked to stand still, for a millisecond at most. One that is stopped or
 * dead, or that does not answer, is copied as it is: the sequence numbers of its books tell whether
 * it changed anything meanwhile, and if so the copy is marked as torn. What only ever grows
 * (stacks, texts, modules) and the rings of events, whose rows are numbered, are copied afterwards.
 */
#ifndef CM_TOOLS_SNAPSHOT_IMAGE_H
#define CM_TOOLS_SNAPSHOT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "stats/reader.h"

struct cm_image_table {
	void *rows; /* of this build's row size */
	uint32_t count;
};

struct cm_image {
	struct cm_header header;
	struct cm_image_table table[CM_TABLE_COUNT];
	struct cm_saved saved; /* how and when */
};

/* Bytes of a row of a table, as this build knows it. */
size_t cm_image_row_bytes(enum cm_table table);

/*
 * Copies the region. Waits for at most `timeout_ns` for a process that is to stand still. -ENOMEM,
 * -EIO, -EBADMSG; `why` (CM_READER_WHY_BYTES) says it.
 */
int cm_image_take(struct cm_reader *reader, uint64_t timeout_ns, struct cm_image **ret_image,
		  char *why);
void cm_image_free(struct cm_image *image);

/* When something happened, in nanoseconds since 1970; 0 where the clocks can't be told. */
uint64_t cm_image_time(const struct cm_image *image, uint64_t tick);

/* The text with this id in CM_TABLE_TEXT or CM_TABLE_NAME; "" where there is none. */
const char *cm_image_text(const struct cm_image *image, enum cm_table table, uint32_t id);

#endif
