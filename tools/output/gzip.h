/* SPDX-License-Identifier: MIT */
/*
 * Compression in the gzip format, piece by piece. Only in builds with zlib (CM_HAVE_ZLIB).
 */
#ifndef CM_TOOLS_OUTPUT_GZIP_H
#define CM_TOOLS_OUTPUT_GZIP_H

#include <stddef.h>

struct cm_gzip;

/* Receives compressed bytes. */
typedef void (*cm_gzip_fn)(void *to, const void *bytes, size_t count);

#define CM_GZIP_FAST 3
#define CM_GZIP_FAIR 6 /* zlib's default */

/* NULL: not enough memory. */
struct cm_gzip *cm_gzip_open(int level, cm_gzip_fn put, void *to);
void cm_gzip_add(struct cm_gzip *gzip, const void *bytes, size_t count);
/* Writes the rest and frees. */
void cm_gzip_close(struct cm_gzip *gzip);

#endif
