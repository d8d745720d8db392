/* SPDX-License-Identifier: MIT */
/*
 * Writes recordings (recording.h): creates the file or continues it after its last whole frame, and
 * appends a frame for each sample.
 */
#include "tools/watch/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/exits.h"

/* Ten minutes at 1 s: a reader that looks for a time reads that much, in some 20 ms. A frame that
 * needs none before it is ten times as large as the others. */
#define KEY_FRAMES 600

struct cm_recorder {
	int fd;
	uint64_t end;    /* of the last whole frame */
	uint64_t frames; /* written by this recorder */
	struct cm_delta last;
	struct cm_packer *packer;
	struct cm_bytes plain, packed;
};

static int write_all(int fd, const void *bytes, size_t count)
{
	const char *at = bytes;
	ssize_t n;

	while (count) {
		n = write(fd, at, count);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		count -= (size_t)n;
	}
	return 0;
}

static int put_header(struct cm_recorder *recorder)
{
	struct cm_recording_header header = {
		.magic = CM_RECORDING_MAGIC,
		.version = CM_RECORDING_VERSION,
		.header_bytes = sizeof(header),
		.packing = CM_PACKING_OWN,
		.figures = CM_FIGURE_COUNT,
	};

	(void)gethostname(header.host, sizeof(header.host) - 1);
	recorder->end = sizeof(header);
	return write_all(recorder->fd, &header, sizeof(header));
}

/* Continues a recording after its last whole frame. 0, or an exit code after a complaint. */
static int resume(struct cm_recorder *recorder, const char *path)
{
	char why[CM_RECORDING_WHY_BYTES];
	struct cm_recording *recording;
	const int fd = fcntl(recorder->fd, F_DUPFD_CLOEXEC, 0);
	bool own;

	if (fd < 0)
		return cm_fail(CM_EXIT_TARGET, "%s: %s", path, strerror(errno));
	if (cm_recording_open_fd(fd, &recording, why))
		return cm_fail(CM_EXIT_TARGET, "%s: %s; nothing was written to it", path, why);
	own = recording->header.version == CM_RECORDING_VERSION &&
	      recording->header.packing == CM_PACKING_OWN &&
	      recording->header.figures == CM_FIGURE_COUNT;
	recorder->end = recording->end;
	cm_recording_close(recording);
	if (!own)
		return cm_fail(CM_EXIT_TARGET,
			       "%s: another build of cudamemstat has begun this recording; record "
			       "to a new file",
			       path);
	if (ftruncate(recorder->fd, (off_t)recorder->end) || lseek(recorder->fd, 0, SEEK_END) < 0)
		return cm_fail(CM_EXIT_TARGET, "%s: %s", path, strerror(errno));
	return CM_EXIT_OK;
}

static int open_file(struct cm_recorder *recorder, const char *path)
{
	struct stat st;
	int err;

	if (!strcmp(path, "-"))
		return cm_fail(CM_EXIT_USAGE, "--record appends to a file, not to standard output");
	recorder->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (recorder->fd < 0 || fstat(recorder->fd, &st))
		return cm_fail(CM_EXIT_TARGET, "%s: %s", path,
			       errno == ELOOP ? "a symbolic link, not followed" : strerror(errno));
	if (!S_ISREG(st.st_mode))
		return cm_fail(CM_EXIT_TARGET, "%s: not a regular file", path);
	if (st.st_uid != geteuid())
		return cm_fail(CM_EXIT_TARGET, "%s: belongs to another user", path);
	if (flock(recorder->fd, LOCK_EX | LOCK_NB))
		return cm_fail(CM_EXIT_TARGET, "%s: %s", path,
			       errno == EWOULDBLOCK ? "another cudamemstat is recording to it"
						    : strerror(errno));
	if (st.st_size)
		return resume(recorder, path);
	err = put_header(recorder);
	return err ? cm_fail(CM_EXIT_TARGET, "%s: %s", path, strerror(-err)) : CM_EXIT_OK;
}

int cm_recorder_open(const char *path, struct cm_recorder **ret_recorder)
{
	struct cm_recorder *recorder = calloc(1, sizeof(*recorder));
	int exit;

	if (!recorder)
		return cm_fail_memory();
	recorder->fd = -1;
	exit = open_file(recorder, path);
	if (!exit) {
		recorder->packer = cm_packer_open(CM_PACKING_OWN);
		if (!recorder->packer)
			exit = cm_fail_memory();
	}
	if (exit) {
		cm_recorder_close(recorder);
		return exit;
	}
	*ret_recorder = recorder;
	return CM_EXIT_OK;
}

/* Puts the header of the frame, and then its bytes, into `packed`. 0, -ENOMEM. */
static int pack(struct cm_recorder *recorder, const struct cm_watch_sample *sample, uint32_t flags)
{
	struct cm_bytes *packed = &recorder->packed, *plain = &recorder->plain;
	struct cm_recording_frame head = {.flags = flags, .time_ns = sample->time_ns};
	int err;

	plain->count = packed->count = 0;
	plain->bad = packed->bad = false;
	err = cm_delta_write(&recorder->last, sample, plain);
	if (err)
		return err;
	cm_bytes_put(packed, &head, sizeof(head));
	cm_packer_add(recorder->packer, plain->data, plain->count, packed);
	if (packed->bad)
		return -ENOMEM;
	head.bytes = (uint32_t)(packed->count - sizeof(head));
	head.check = cm_recording_check(packed->data + sizeof(head), head.bytes);
	head.header_check = cm_recording_check(&head,
					       offsetof(struct cm_recording_frame, header_check));
	memcpy(packed->data, &head, sizeof(head));
	return 0;
}

int cm_recorder_add(struct cm_recorder *recorder, const struct cm_watch_sample *sample)
{
	const bool key = recorder->frames % KEY_FRAMES == 0;
	const uint32_t start = recorder->frames ? 0 : CM_RECORDING_START;
	int err;

	if (key) {
		cm_delta_fini(&recorder->last);
		cm_packer_restart(recorder->packer);
	}
	err = pack(recorder, sample, key ? CM_RECORDING_KEY | start : 0);
	if (!err)
		err = write_all(recorder->fd, recorder->packed.data, recorder->packed.count);
	if (err) {
		/* Part of a frame at the end does no harm: readers ignore it. */
		(void)!ftruncate(recorder->fd, (off_t)recorder->end);
		return err;
	}
	recorder->end += recorder->packed.count;
	recorder->frames++;
	return 0;
}

void cm_recorder_close(struct cm_recorder *recorder)
{
	if (!recorder)
		return;
	if (recorder->fd >= 0)
		(void)close(recorder->fd);
	cm_packer_close(recorder->packer);
	cm_delta_fini(&recorder->last);
	free(recorder->plain.data);
	free(recorder->packed.data);
	free(recorder);
}
