/* SPDX-License-Identifier: MIT */
#include "tools/output/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define PART_BYTES (1u << 30) /* zlib counts in 32 bits */

struct cm_gzip {
	z_stream zlib;
	cm_gzip_fn put;
	void *to;
};

struct cm_gzip *cm_gzip_open(int level, cm_gzip_fn put, void *to)
{
	struct cm_gzip *gzip = calloc(1, sizeof(*gzip));

	if (!gzip)
		return NULL;
	gzip->put = put;
	gzip->to = to;
	/* 15: the largest window; 16: a gzip header. */
	if (deflateInit2(&gzip->zlib, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(gzip);
		return NULL;
	}
	return gzip;
}

static void add_part(struct cm_gzip *gzip, const void *bytes, size_t count, int flush)
{
	uint8_t out[16384];

	gzip->zlib.next_in = (void *)bytes;
	gzip->zlib.avail_in = (uInt)count;
	do {
		gzip->zlib.next_out = out;
		gzip->zlib.avail_out = sizeof(out);
		(void)deflate(&gzip->zlib, flush); /* cannot fail while there is room for output */
		gzip->put(gzip->to, out, sizeof(out) - gzip->zlib.avail_out);
	} while (!gzip->zlib.avail_out);
}

void cm_gzip_add(struct cm_gzip *gzip, const void *bytes, size_t count)
{
	const char *at = bytes;
	size_t part;

	for (; count; count -= part, at += part) {
		part = count < PART_BYTES ? count : PART_BYTES;
		add_part(gzip, at, part, Z_NO_FLUSH);
	}
}

void cm_gzip_close(struct cm_gzip *gzip)
{
	add_part(gzip, NULL, 0, Z_FINISH);
	(void)deflateEnd(&gzip->zlib);
	free(gzip);
}
