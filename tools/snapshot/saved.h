/* SPDX-License-Identifier: MIT */
/*
 * The file that a snapshot is kept in, cudamem-snapshot(5): a header of 64 bytes, then a region in
 * the form of stats/layout.h whose tables have no holes, compressed by zstd with its checksum. So
 * all that reads regions reads these files, and checks them by the same rules.
 */
#ifndef CM_TOOLS_SNAPSHOT_SAVED_H
#define CM_TOOLS_SNAPSHOT_SAVED_H

#include <stdbool.h>
#include <stdio.h>

#include "stats/reader.h"
#include "tools/snapshot/image.h"

#define CM_SAVED_SUFFIX  ".cudamem"
#define CM_SAVED_VERSION 1

struct cm_saved_header {
	char magic[8];         /* CM_SAVED_MAGIC */
	uint32_t version;      /* CM_SAVED_VERSION */
	uint32_t header_bytes; /* where the compressed region begins */
	uint64_t image_bytes;  /* of the region */
	uint64_t file_bytes;   /* of this file; 0: written to what others write to as well */
	uint64_t reserved[4];
};

/* The first byte is in no text, the last ones notice a transfer that changes the ends of lines. */
#define CM_SAVED_MAGIC \
	"\x93"         \
	"cudam\r\n"

/*
 * Writes the image, from where the file stands; *ret_bytes is how much that was. `own`: the file is
 * empty and nobody else's, so that its beginning can be written again with its length. 0; -ENOMEM,
 * -EIO; -ENOSYS: this build has no zstd.
 */
int cm_saved_write(const struct cm_image *image, FILE *file, bool own, int64_t *ret_bytes);

/*
 * Opens a region file or a saved one, whatever is at `path`. Results as cm_reader_open; beside them
 * -EPROTONOSUPPORT: written by a newer version, -EBADMSG: damaged, -ENOSYS: no zstd in this build.
 */
int cm_saved_open(const char *path, struct cm_reader **ret_reader, char *why);
/* The same from an open file, which is taken over. */
int cm_saved_open_fd(int fd, struct cm_reader **ret_reader, char *why);

#endif
