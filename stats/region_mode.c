/* SPDX-License-Identifier: MIT */
#include "stats/region_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Four threads that do nothing else needed 209 tries in a row without a rest, and 10 with one. A
 * process that may not write in any mode gives up after some 10 ms. */
#define TRIES     100
#define REST_NS   UINT64_C(2000)
#define DOUBLINGS 6 /* of the rest */

static int try_open(int dir, const char *name, int flags, int access)
{
	const int fd = openat(dir, name, access | O_CLOEXEC | O_NONBLOCK | flags);

	return fd < 0 ? -errno : fd;
}

/* Those that met once would meet again if they rested equally long. */
static void rest(int tries)
{
	const int doublings = tries < DOUBLINGS ? tries : DOUBLINGS;
	const int saved = errno;
	struct timespec pause;

	(void)clock_gettime(CLOCK_MONOTONIC, &pause);
	pause.tv_sec = 0;
	pause.tv_nsec = (long)((uint64_t)pause.tv_nsec % (REST_NS << doublings));
	/* Not by the function of that name, in which the thread could be cancelled. */
	(void)syscall(SYS_nanosleep, &pause, NULL);
	errno = saved;
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
	/* It could not be opened for writing. If its mode allows that now, another process is
	 * opening it, and will put the mode back. */
	mode = st.st_mode & 07777 & ~(mode_t)S_IWUSR;
	for (tries = 0; fd == -EACCES && tries < TRIES; tries++) {
		if (fchmod(place, mode | S_IWUSR))
			return -errno;
		fd = try_open(dir, name, flags, O_RDWR);
		(void)fchmod(place, mode);
		if (fd == -EACCES)
			rest(tries);
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
