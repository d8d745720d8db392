/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a sample in a recording, written and read piece by piece. Numbers take as many
 * groups of seven bits as they need, the lowest first. A reader that is asked for more than there
 * is, or for what makes no sense, is `bad` from then on and answers 0.
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
 * A difference. Multiples of 512 are stored divided: blocks and segments are such multiples. One
 * that was there just now, or its opposite, is stored as its place in `recent`: what one figure
 * gains another one often loses.
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
