/* SPDX-License-Identifier: MIT */
#include "tools/watch/packing.h"

#include <errno.h>
#include <stdlib.h>

#if CM_HAVE_ZLIB
#include <zlib.h>
#endif

#define LEVEL       9 /* a sample of 100 processes takes 0.2 ms */
#define CHUNK_BYTES 1024
#define RAW_WINDOW  (-15) /* the largest, and no header of zlib: pieces have checks of their own */

#if CM_HAVE_ZLIB
struct cm_packer {
	enum cm_packing packing;
	z_stream zlib;
};

struct cm_unpacker {
	enum cm_packing packing;
	z_stream zlib;
};

struct cm_packer *cm_packer_open(enum cm_packing packing)
{
	struct cm_packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->packing = packing;
	if (packing == CM_PACKING_NONE || deflateInit2(&packer->zlib, LEVEL, Z_DEFLATED, RAW_WINDOW,
						       8, Z_DEFAULT_STRATEGY) == Z_OK)
		return packer;
	free(packer);
	return NULL;
}

void cm_packer_restart(struct cm_packer *packer)
{
	if (packer->packing == CM_PACKING_DEFLATE)
		(void)deflateReset(&packer->zlib);
}

void cm_packer_add(struct cm_packer *packer, const void *piece, size_t count, struct cm_bytes *to)
{
	uint8_t out[CHUNK_BYTES];

	if (packer->packing == CM_PACKING_NONE) {
		cm_bytes_put(to, piece, count);
		return;
	}
	packer->zlib.next_in = (void *)piece;
	packer->zlib.avail_in = (uInt)count;
	do {
		packer->zlib.next_out = out;
		packer->zlib.avail_out = sizeof(out);
		(void)deflate(&packer->zlib, Z_SYNC_FLUSH); /* cannot fail while there is room */
		cm_bytes_put(to, out, sizeof(out) - packer->zlib.avail_out);
	} while (!packer->zlib.avail_out);
}

void cm_packer_close(struct cm_packer *packer)
{
	if (packer && packer->packing == CM_PACKING_DEFLATE)
		(void)deflateEnd(&packer->zlib);
	free(packer);
}

struct cm_unpacker *cm_unpacker_open(enum cm_packing packing)
{
	struct cm_unpacker *unpacker = calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return NULL;
	unpacker->packing = packing;
	if (packing == CM_PACKING_NONE || inflateInit2(&unpacker->zlib, RAW_WINDOW) == Z_OK)
		return unpacker;
	free(unpacker);
	return NULL;
}

void cm_unpacker_restart(struct cm_unpacker *unpacker)
{
	if (unpacker->packing == CM_PACKING_DEFLATE)
		(void)inflateReset(&unpacker->zlib);
}

static int inflate_piece(z_stream *zlib, size_t max, struct cm_bytes *to)
{
	uint8_t out[CHUNK_BYTES];
	int result;

	do {
		zlib->next_out = out;
		zlib->avail_out = sizeof(out);
		result = inflate(zlib, Z_SYNC_FLUSH);
		cm_bytes_put(to, out, sizeof(out) - zlib->avail_out);
		if (to->bad || result == Z_MEM_ERROR)
			return -ENOMEM;
		/* Z_BUF_ERROR: all was unpacked already. */
		if ((result != Z_OK && result != Z_BUF_ERROR) || to->count > max)
			return -EBADMSG;
	} while (!zlib->avail_out);
	return zlib->avail_in ? -EBADMSG : 0;
}

int cm_unpacker_add(struct cm_unpacker *unpacker, const void *packed, size_t count, size_t max,
		    struct cm_bytes *to)
{
	to->count = 0;
	if (unpacker->packing == CM_PACKING_DEFLATE) {
		unpacker->zlib.next_in = (void *)packed;
		unpacker->zlib.avail_in = (uInt)count;
		return inflate_piece(&unpacker->zlib, max, to);
	}
	cm_bytes_put(to, packed, count);
	return to->bad ? -ENOMEM : count > max ? -EBADMSG : 0;
}

void cm_unpacker_close(struct cm_unpacker *unpacker)
{
	if (unpacker && unpacker->packing == CM_PACKING_DEFLATE)
		(void)inflateEnd(&unpacker->zlib);
	free(unpacker);
}
#else
struct cm_packer {
	char nothing;
};

struct cm_unpacker {
	char nothing;
};

struct cm_packer *cm_packer_open(enum cm_packing packing)
{
	return packing == CM_PACKING_NONE ? calloc(1, sizeof(struct cm_packer)) : NULL;
}

void cm_packer_restart(struct cm_packer *packer)
{
	(void)packer;
}

void cm_packer_add(struct cm_packer *packer, const void *piece, size_t count, struct cm_bytes *to)
{
	(void)packer;
	cm_bytes_put(to, piece, count);
}

void cm_packer_close(struct cm_packer *packer)
{
	free(packer);
}

struct cm_unpacker *cm_unpacker_open(enum cm_packing packing)
{
	return packing == CM_PACKING_NONE ? calloc(1, sizeof(struct cm_unpacker)) : NULL;
}

void cm_unpacker_restart(struct cm_unpacker *unpacker)
{
	(void)unpacker;
}

int cm_unpacker_add(struct cm_unpacker *unpacker, const void *packed, size_t count, size_t max,
		    struct cm_bytes *to)
{
	(void)unpacker;
	to->count = 0;
	cm_bytes_put(to, packed, count);
	return to->bad ? -ENOMEM : count > max ? -EBADMSG : 0;
}

void cm_unpacker_close(struct cm_unpacker *unpacker)
{
	free(unpacker);
}
#endif
