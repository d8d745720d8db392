/* SPDX-License-Identifier: MIT */
#include "tools/watch/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/regular_file.h"
#include "stats/text.h"
#include "tools/output/reserve.h"

#define PACKED_MAX  (1u << 24) /* of a frame: some 10,000 processes take a twentieth */
#define PLAIN_MAX   (1u << 24)
#define FIGURES_MAX 63u
#define FNV_BASE    2166136261u
#define FNV_PRIME   16777619u

_Static_assert(sizeof(struct cm_recording_header) == 128, "cudamem-recording(5)");
_Static_assert(sizeof(struct cm_recording_frame) == 24, "cudamem-recording(5)");
_Static_assert(CM_FIGURE_COUNT <= FIGURES_MAX, "a number has a bit for each");

uint32_t cm_recording_check(const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	uint32_t check = FNV_BASE;

	for (; count; count--)
		check = (check ^ *at++) * FNV_PRIME;
	return check;
}

/* Reads so many bytes; fewer at the end of the file. The number, or a negative errno. */
static ssize_t read_at(int fd, void *to, size_t count, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < count) {
		n = pread(fd, (char *)to + done, count - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int refuse(char why[CM_RECORDING_WHY_BYTES], int err, const char *text)
{
	(void)snprintf(why, CM_RECORDING_WHY_BYTES, "%s", text);
	return err;
}

static bool is_zero(const void *bytes, size_t count)
{
	const char *at = bytes;

	while (count && !*at) {
		at++;
		count--;
	}
	return !count;
}

/* Takes the header of the next frame. 1: there is one; 0: there is none, or its bytes are not all
 * there; or a negative errno. */
static int scan_frame(struct cm_recording *recording, char why[CM_RECORDING_WHY_BYTES])
{
	struct cm_recording_frame frame;
	struct cm_recording_place *place;
	ssize_t n = read_at(recording->fd, &frame, sizeof(frame), recording->end);
	uint8_t last;

	if (n < 0)
		return refuse(why, (int)n, strerror((int)-n));
	/* After a loss of power the file has zeros in place of data that was not on the disk
	 * yet. */
	if (n < (ssize_t)sizeof(frame) || is_zero(&frame, sizeof(frame)))
		return 0;
	if (frame.header_check !=
		    cm_recording_check(&frame, offsetof(struct cm_recording_frame, header_check)) ||
	    !frame.bytes || frame.bytes > PACKED_MAX ||
	    (!recording->count && !(frame.flags & CM_RECORDING_KEY))) {
		(void)snprintf(why, CM_RECORDING_WHY_BYTES, "the recording is damaged at byte %llu",
			       (unsigned long long)recording->end);
		return -EBADMSG;
	}
	n = read_at(recording->fd, &last, 1, recording->end + sizeof(frame) + frame.bytes - 1);
	if (n < 1)
		return n < 0 ? refuse(why, (int)n, strerror((int)-n)) : 0;
	if (!cm_reserve(&recording->place, &recording->room, recording->count + 1))
		return refuse(why, -ENOMEM, "not enough memory on the host");
	place = &recording->place[recording->count++];
	*place = (struct cm_recording_place){recording->end + sizeof(frame), frame.time_ns,
					     frame.bytes, frame.flags, frame.check};
	/* A clock that was set back must not confuse the search for a time. */
	if (recording->count > 1 && place->time_ns < place[-1].time_ns)
		place->time_ns = place[-1].time_ns;
	recording->end = place->offset + frame.bytes;
	return 1;
}

int cm_recording_scan(struct cm_recording *recording, char why[CM_RECORDING_WHY_BYTES])
{
	int found;

	do {
		found = scan_frame(recording, why);
	} while (found > 0);
	return found;
}

static int check_header(const struct cm_recording_header *header, ssize_t n,
			char why[CM_RECORDING_WHY_BYTES])
{
	if (n < 0)
		return refuse(why, (int)n, strerror((int)-n));
	if (n < (ssize_t)sizeof(*header) ||
	    memcmp(header->magic, CM_RECORDING_MAGIC, sizeof(header->magic)) != 0)
		return refuse(why, -EBADMSG, "not a recording of 'cudamemstat stat --record'");
	if (header->version > CM_RECORDING_VERSION || header->packing >= CM_PACKING_COUNT)
		return refuse(why, -EPROTONOSUPPORT,
			      "the recording was made by a newer version of cudamemstat");
	if (header->header_bytes < sizeof(*header) || header->header_bytes > PACKED_MAX ||
	    !header->version || !header->figures || header->figures > FIGURES_MAX)
		return refuse(why, -EBADMSG, "the header of the recording is damaged");
	if (header->packing == CM_PACKING_DEFLATE && !CM_HAVE_ZLIB)
		return refuse(why, -ENOSYS,
			      "the recording is compressed, and this build has no "
			      "zlib");
	return 0;
}

/* 0, or a negative errno after filling `why`. */
static int read_header(struct cm_recording *recording, char why[CM_RECORDING_WHY_BYTES])
{
	struct cm_recording_header *header = &recording->header;
	char host[sizeof(header->host)];
	int err;

	err = check_header(header, read_at(recording->fd, header, sizeof(*header), 0), why);
	if (err)
		return err;
	memcpy(host, header->host, sizeof(host));
	host[sizeof(host) - 1] = '\0';
	(void)cm_text_clean(header->host, sizeof(header->host), host);
	recording->end = header->header_bytes;
	recording->unpacker = cm_unpacker_open((enum cm_packing)header->packing);
	if (!recording->unpacker)
		return refuse(why, -ENOMEM, "not enough memory on the host");
	return cm_recording_scan(recording, why);
}

static int open_file(const char *path, char why[CM_RECORDING_WHY_BYTES])
{
	const int fd = cm_regular_file_open(AT_FDCWD, path, 0);

	if (fd < 0)
		(void)refuse(why, fd, fd == -EBADMSG ? "not a regular file" : strerror(-fd));
	return fd;
}

int cm_recording_open(const char *path, struct cm_recording **ret_recording,
		      char why[CM_RECORDING_WHY_BYTES])
{
	const int fd = open_file(path, why);

	return fd < 0 ? fd : cm_recording_open_fd(fd, ret_recording, why);
}

int cm_recording_open_fd(int fd, struct cm_recording **ret_recording,
			 char why[CM_RECORDING_WHY_BYTES])
{
	struct cm_recording *recording = calloc(1, sizeof(*recording));
	int err;

	if (!recording) {
		(void)close(fd);
		return refuse(why, -ENOMEM, "not enough memory on the host");
	}
	recording->fd = fd;
	err = read_header(recording, why);
	if (err) {
		cm_recording_close(recording);
		return err;
	}
	*ret_recording = recording;
	return 0;
}

bool cm_recording_is(const char *path)
{
	const int fd = cm_regular_file_open(AT_FDCWD, path, 0);
	char magic[sizeof(((struct cm_recording_header *)0)->magic)];
	bool is;

	if (fd < 0)
		return false;
	is = read_at(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	     !memcmp(magic, CM_RECORDING_MAGIC, sizeof(magic));
	(void)close(fd);
	return is;
}

/* Reads the frame at recording->next. */
static int read_next(struct cm_recording *recording)
{
	const struct cm_recording_place *place = &recording->place[recording->next];
	struct cm_bytes *packed = &recording->packed;
	ssize_t n;
	int err;

	if (place->flags & CM_RECORDING_KEY) {
		cm_delta_fini(&recording->last);
		cm_unpacker_restart(recording->unpacker);
	}
	if (!cm_reserve(&packed->data, &packed->room, place->bytes))
		return -ENOMEM;
	n = read_at(recording->fd, packed->data, place->bytes, place->offset);
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)place->bytes ||
	    cm_recording_check(packed->data, place->bytes) != place->check)
		return -EBADMSG;
	err = cm_unpacker_add(recording->unpacker, packed->data, place->bytes, PLAIN_MAX,
			      &recording->plain);
	if (err)
		return err;
	recording->next++;
	return cm_delta_read(&recording->last, recording->header.figures, recording->plain.data,
			     recording->plain.count);
}

int cm_recording_read(struct cm_recording *recording, size_t number)
{
	size_t key = number;
	int err = 0;

	if (number >= recording->count)
		return -EINVAL;
	while (key && !(recording->place[key].flags & CM_RECORDING_KEY))
		key--;
	if (number < recording->next || key > recording->next)
		recording->next = key;
	while (!err && recording->next <= number)
		err = read_next(recording);
	if (!err)
		return 0;
	cm_delta_fini(&recording->last);
	recording->next = SIZE_MAX; /* nothing follows on this */
	return err;
}

size_t cm_recording_find(const struct cm_recording *recording, uint64_t time_ns)
{
	size_t low = 0, high = recording->count ? recording->count - 1 : 0, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (recording->place[middle].time_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void cm_recording_close(struct cm_recording *recording)
{
	if (!recording)
		return;
	if (recording->fd >= 0)
		(void)close(recording->fd);
	cm_unpacker_close(recording->unpacker);
	cm_delta_fini(&recording->last);
	free(recording->packed.data);
	free(recording->plain.data);
	free(recording->place);
	free(recording);
}
