/* SPDX-License-Identifier: MIT */
#include "stats/region_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than meet here at once. Who may not write in any mode comes to an end, too. */
#define TRIES 100

static int try_open(int dir, const char *name, int flags, int access)
{
	const int fd = openat(dir, name, access | O_CLOEXEC | O_NONBLOCK | flags);

	return fd < 0 ? -errno : fd;
}

/* `place` is the file, open for reading. A name that another file gets meanwhile is opened all the
 * same; the caller compares where that matters. */
static int open_with_mode(int place, int dir, const char *name, int flags)
{
	struct stat st;
	mode_t mode;
	int tries, fd = -EACCES;

	if (fstat(place, &st))
		return -errno;
	/* It could not be written to; if it can now, then for another one, who puts it back. */
	mode = st.st_mode & 07777 & ~(mode_t)S_IWUSR;
	for (tries = 0; fd == -EACCES && tries < TRIES; tries++) {
		if (fchmod(place, mode | S_IWUSR))
			return -errno;
		fd = try_open(dir, name, flags, O_RDWR);
		(void)fchmod(place, mode);
	}
	return fd;
}

int cm_region_open_writable(int dir, const char *name, int flags)
{
	int place, fd;

	fd = try_open(dir, name, flags, O_RDWR);
	if (fd != -EACCES)
		return fd;
	place = try_open(dir, name, flags, O_RDONLY);
	if (place < 0)
		return place;
	fd = open_with_mode(place, dir, name, flags);
	(void)close(place);
	return fd;
}
