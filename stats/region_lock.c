/* SPDX-License-Identifier: MIT */
#include "stats/region_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/region_mode.h"

int cm_region_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) && (errno == EAGAIN || errno == EACCES) ? -EAGAIN : 0;
}

bool cm_region_is_named(int dir, const char *name, int fd)
{
	struct stat file, named;

	return !fstat(fd, &file) && !fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) &&
	       file.st_ino == named.st_ino && file.st_dev == named.st_dev;
}

int cm_region_remove_leftover(int dir, const char *name)
{
	int fd, err;

	fd = cm_region_open_writable(dir, name, O_NOFOLLOW);
	/* A link is nobody's region. */
	if (fd == -ELOOP)
		return unlinkat(dir, name, 0) ? -errno : 0;
	if (fd < 0)
		return fd;
	err = cm_region_lock(fd);
	if (!err && !cm_region_is_named(dir, name, fd))
		err = -ESTALE;
	if (!err && unlinkat(dir, name, 0))
		err = -errno;
	(void)close(fd);
	return err;
}
