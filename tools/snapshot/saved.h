/* SPDX-License-Identifier: MIT */
/*
 * Snapshot files, cudamem-snapshot(5): a header of 64 bytes, then a region in the form of
 * stats/layout.h without gaps between its tables, compressed by zstd with its checksum. So whatever
 * reads regions also reads these files, and checks them by the same rules.
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
	uint64_t file_bytes;   /* of this file; 0: unknown, it was written to a pipe or a device */
	uint64_t reserved[4];
};

/* No text has the first byte; the last ones detect a transfer that converts line ends. */
#define CM_SAVED_MAGIC \
	"\x93"         \
	"cudam\r\n"

/* Of cudamem-recording(5): for a message to users who name one in place of a snapshot. */
#define CM_RECORDING_MAGIC \
	"\x93"             \
	"cudar\r\n"

/*
 * Writes the image at the current position of the file; *ret_bytes is the length. `own`: the file
 * was empty and can be rewound, so the header gets the length. 0; -ENOMEM, -EIO; -ENOSYS: this
 * build has no zstd.
 */
int cm_saved_write(const struct cm_image *image, FILE *file, bool own, int64_t *ret_bytes);

/*
 * Opens the region file or snapshot at `path`. Results as of cm_reader_open(), and
 * -EPROTONOSUPPORT: written by a newer version, -EBADMSG: damaged, -ENOSYS: this build has no zstd.
 */
int cm_saved_open(const char *path, struct cm_reader **ret_reader, char *why);
/* The same for an open file, which is closed, or owned by the reader, afterwards. */
int cm_saved_open_fd(int fd, struct cm_reader **ret_reader, char *why);

#endif
