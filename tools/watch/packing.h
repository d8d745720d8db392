/* SPDX-License-Identifier: MIT */
/*
 * Compression piece by piece: a piece can be unpacked as soon as it and those before it since the
 * last restart have arrived. Builds without zlib store pieces uncompressed.
 */
#ifndef CM_TOOLS_WATCH_PACKING_H
#define CM_TOOLS_WATCH_PACKING_H

#include "tools/watch/bytes.h"

/* How a recording is packed. */
enum cm_packing { CM_PACKING_NONE, CM_PACKING_DEFLATE, CM_PACKING_COUNT };

/* What this build packs with. */
#define CM_PACKING_OWN (CM_HAVE_ZLIB ? CM_PACKING_DEFLATE : CM_PACKING_NONE)

struct cm_packer;

/* NULL: not enough memory, or this build cannot pack so. */
struct cm_packer *cm_packer_open(enum cm_packing packing);
/* Forgets the pieces so far. */
void cm_packer_restart(struct cm_packer *packer);
/* Appends the packed piece to `to`, which is `bad` if memory runs out. */
void cm_packer_add(struct cm_packer *packer, const void *piece, size_t count, struct cm_bytes *to);
void cm_packer_close(struct cm_packer *packer);

struct cm_unpacker;

/* NULL: not enough memory, or this build cannot unpack that. */
struct cm_unpacker *cm_unpacker_open(enum cm_packing packing);
/* Forgets the pieces so far. */
void cm_unpacker_restart(struct cm_unpacker *unpacker);
/* Replaces *to by the piece. 0; -EBADMSG: damaged, or longer than `max`; -ENOMEM. */
int cm_unpacker_add(struct cm_unpacker *unpacker, const void *packed, size_t count, size_t max,
		    struct cm_bytes *to);
void cm_unpacker_close(struct cm_unpacker *unpacker);

#endif
