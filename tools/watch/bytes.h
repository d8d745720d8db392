/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a sample in a recording, written and read one value at a time. Numbers take as many
 * groups of seven bits as they need, the lowest first. When a reader meets the end of the data or a
 * value that makes no sense, it becomes `bad`, and returns 0 from then on.
 */
#ifndef CM_TOOLS_WATCH_BYTES_H
#define CM_TOOLS_WATCH_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cm_bytes {
	uint8_t *data; /* from malloc */
	size_t count;
	size_t room;
	bool bad; /* not enough memory: the rest is not written */
};

/* Appends bytes as they are. */
void cm_bytes_put(struct cm_bytes *bytes, const void *from, size_t count);
void cm_bytes_put_number(struct cm_bytes *bytes, uint64_t number);

/* The last changes of one thing, the youngest first. */
struct cm_bytes_recent {
	int64_t change[4];
};

/*
 * A difference. Multiples of 512, as sizes of blocks and segments are, are stored divided by 512.
 * If the same difference or its opposite was stored shortly before, its place in `recent` is
 * stored: what one figure gains another one often loses.
 */
void cm_bytes_put_change(struct cm_bytes *bytes, int64_t change, struct cm_bytes_recent *recent);
/* A text, after its length. */
void cm_bytes_put_text(struct cm_bytes *bytes, const char *text);

struct cm_bytes_reader {
	const uint8_t *data;
	size_t left;
	bool bad;
};

/* Fills `to`, with zeros if there is less. */
void cm_bytes_get(struct cm_bytes_reader *reader, void *to, size_t count);
/* A number up to `max`; a larger one is bad. */
uint64_t cm_bytes_get_number(struct cm_bytes_reader *reader, uint64_t max);
int64_t cm_bytes_get_change(struct cm_bytes_reader *reader, struct cm_bytes_recent *recent);
/* A text without control characters, cut to the room. */
void cm_bytes_get_text(struct cm_bytes_reader *reader, char *to, size_t room);

#endif
