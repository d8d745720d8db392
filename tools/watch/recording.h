/* SPDX-License-Identifier: MIT */
/*
 * Recordings, cudamem-recording(5): the samples that `stat --record` took, for the views to play
 * back. A header of 128 bytes, then a frame a sample (tools/watch/delta.h), packed. A frame is
 * written by one call and has a header with its own checks, so a recorder that is killed loses at
 * most the sample that it was writing. One frame in KEY_FRAMES, and the first one of a recorder,
 * needs none before it.
 *
 * A recording is foreign data to its reader. Single-threaded.
 */
#ifndef CM_TOOLS_WATCH_RECORDING_H
#define CM_TOOLS_WATCH_RECORDING_H

#include "tools/snapshot/saved.h" /* CM_RECORDING_MAGIC */
#include "tools/watch/delta.h"
#include "tools/watch/packing.h"

#define CM_RECORDING_VERSION   1
#define CM_RECORDING_WHY_BYTES 160

/* Little endian, as all numbers of a recording. */
struct cm_recording_header {
	char magic[8];
	uint32_t version;      /* CM_RECORDING_VERSION */
	uint32_t header_bytes; /* where the frames begin */
	uint32_t packing;      /* enum cm_packing */
	uint32_t figures;      /* of a device: CM_FIGURE_COUNT of the build that recorded */
	char host[64];
	uint8_t reserved[40];
};

#define CM_RECORDING_KEY   1u /* the frame needs none before it */
#define CM_RECORDING_START 2u /* and is the first one of a recorder */

struct cm_recording_frame {
	uint32_t bytes; /* packed, behind this header */
	uint32_t flags; /* CM_RECORDING_* */
	uint64_t time_ns;
	uint32_t check;        /* of the packed bytes */
	uint32_t header_check; /* of what stands before it */
};

/* Writes samples. */
struct cm_recorder;

/*
 * Creates the file, or appends to a recording. 0, or an exit code after a complaint: another file
 * is there, or somebody else records into it. The file is private, as command lines are in it.
 */
int cm_recorder_open(const char *path, struct cm_recorder **ret_recorder);
/* Writes a sample. 0, or a negative errno: the file ends with the sample before. */
int cm_recorder_add(struct cm_recorder *recorder, const struct cm_watch_sample *sample);
/* NULL is fine. */
void cm_recorder_close(struct cm_recorder *recorder);

/* Reads samples. */
struct cm_recording {
	int fd;
	struct cm_recording_header header;
	struct cm_recording_place *place; /* of each frame */
	size_t count, room;
	uint64_t end; /* where the next frame would begin */
	/* The frame that was read last. */
	struct cm_delta last;
	struct cm_unpacker *unpacker;
	size_t next; /* the frame that can be read without those before it */
	struct cm_bytes packed, plain;
};

struct cm_recording_place {
	uint64_t offset; /* of the packed bytes */
	uint64_t time_ns;
	uint32_t bytes;
	uint32_t flags;
	uint32_t check;
};

/*
 * Opens a recording and finds its frames. 0; -EPROTONOSUPPORT: written by a newer version;
 * -EBADMSG: not a recording, or damaged; -ENOSYS: this build has no zlib; or another negative
 * errno. `why` has a sentence then.
 */
int cm_recording_open(const char *path, struct cm_recording **ret_recording,
		      char why[CM_RECORDING_WHY_BYTES]);
/* The same for an open file, which the recording then owns; it is closed after an error, too. */
int cm_recording_open_fd(int fd, struct cm_recording **ret_recording,
			 char why[CM_RECORDING_WHY_BYTES]);
/* Whether the file begins as recordings do. */
bool cm_recording_is(const char *path);
/* Finds the frames that were added since. Returns as above. */
int cm_recording_scan(struct cm_recording *recording, char why[CM_RECORDING_WHY_BYTES]);
/* Reads a frame into recording->last. 0, -EBADMSG, -EIO, -ENOMEM: the frame is empty then. */
int cm_recording_read(struct cm_recording *recording, size_t number);
/* The first frame that is not older; the last one if there is none. A time that was set back counts
 * as the time before it. */
size_t cm_recording_find(const struct cm_recording *recording, uint64_t time_ns);
/* NULL is fine. */
void cm_recording_close(struct cm_recording *recording);

/* The check of bytes: FNV-1a. Finds damage, not forgery. */
uint32_t cm_recording_check(const void *bytes, size_t count);

#endif
