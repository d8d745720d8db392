/* SPDX-License-Identifier: MIT */
#include "tools/run/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/layout.h"
#include "stats/region.h"
#include "stats/region_lock.h"

#define TRIES 16

void cm_run_directory_init(struct cm_run_directory *directory)
{
	(void)snprintf(directory->path, sizeof(directory->path), "%s/%sXXXXXX", CM_REGION_DIR,
		       CM_RUN_DIRECTORY_PREFIX);
	directory->fd = -1;
}

/*
 * Opens and locks a directory. A run removes a directory only after it has locked it and found that
 * the name still refers to it; a run that creates one locks it and then checks the name likewise.
 * -ESTALE: the name refers to something else, or another run has the lock. On a file system without
 * locks *ret_fd is set, and the error returned.
 */
static int claim(int dir, const char *name, int *ret_fd)
{
	struct stat file, named;
	bool is_named;
	int fd, err;

	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
	is_named = !fstat(fd, &file) && !fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) &&
		   file.st_ino == named.st_ino && file.st_dev == named.st_dev &&
		   file.st_uid == geteuid();
	if (err == -EWOULDBLOCK || !is_named) {
		(void)close(fd);
		return -ESTALE;
	}
	*ret_fd = fd;
	return err;
}

int cm_run_directory_create(struct cm_run_directory *directory)
{
	int tries, err = 0;

	for (tries = 0; tries < TRIES; tries++) {
		cm_run_directory_init(directory);
		if (!mkdtemp(directory->path))
			return -errno;
		err = claim(AT_FDCWD, directory->path, &directory->fd);
		if (directory->fd >= 0)
			return 0;
		/* -ESTALE: a run that found it before it was locked has removed it. */
		if (err != -ESTALE) {
			(void)rmdir(directory->path);
			return err;
		}
	}
	return err;
}

void cm_run_directory_keep(const struct cm_run_directory *directory, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", CM_REGION_DIR, name);
	(void)renameat(directory->fd, name, AT_FDCWD, path);
}

static int remove_any(int dir, const char *name)
{
	return unlinkat(dir, name, 0);
}

static void remove_regions(int fd, int (*remove)(int dir, const char *name))
{
	const int copy = dup(fd);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, CM_REGION_PREFIX, strlen(CM_REGION_PREFIX)))
			(void)remove(fd, entry->d_name);
	if (dir)
		(void)closedir(dir);
	else if (copy >= 0)
		(void)close(copy);
}

void cm_run_directory_remove(struct cm_run_directory *directory)
{
	if (directory->fd < 0)
		return;
	remove_regions(directory->fd, remove_any);
	(void)rmdir(directory->path);
	(void)close(directory->fd);
	directory->fd = -1;
}

static void sweep_one(int dir, const char *name)
{
	int fd = -1;

	if (!claim(dir, name, &fd)) {
		remove_regions(fd, cm_region_remove_leftover);
		/* Fails while the region of a running process is in it. */
		(void)unlinkat(dir, name, AT_REMOVEDIR);
	}
	if (fd >= 0)
		(void)close(fd);
}

void cm_run_directory_sweep(void)
{
	DIR *dir = opendir(CM_REGION_DIR);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, CM_RUN_DIRECTORY_PREFIX,
			     strlen(CM_RUN_DIRECTORY_PREFIX)))
			sweep_one(dirfd(dir), entry->d_name);
	if (dir)
		(void)closedir(dir);
}
