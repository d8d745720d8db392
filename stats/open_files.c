/* SPDX-License-Identifier: MIT */
#include "stats/open_files.h"

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/layout.h"
#include "stats/reader.h"
#include "stats/region_name.h"
#include "stats/regular_file.h"
#include "stats/start_time.h"

#define MEMFD     "/memfd:cudamem"
#define LINES_MAX 65536
/* What the kernel puts behind the path of an open file that has no name any more. */
#define DELETED " (deleted)"

static bool is_own_region(int fds, const char *name, pid_t pid)
{
	uint8_t header[offsetof(struct cm_header, state)];
	uint64_t start, own_start;
	uint32_t own_pid;
	bool locked;
	ssize_t n;
	int fd;

	fd = cm_regular_file_open(fds, name, 0);
	if (fd < 0)
		return false;
	n = pread(fd, header, sizeof(header), 0);
	locked = cm_region_is_locked(fd);
	(void)close(fd);
	memcpy(&own_start, header + offsetof(struct cm_header, start_time), sizeof(own_start));
	memcpy(&own_pid, header + offsetof(struct cm_header, pid), sizeof(own_pid));
	return n == (ssize_t)sizeof(header) && !cm_process_start_time((uint32_t)pid, &start) &&
	       (own_start == start || locked) && (pid_t)own_pid == cm_process_inner_pid(pid);
}

static bool links_to_region(char *target)
{
	const size_t length = strlen(target), suffix = strlen(DELETED);
	struct cm_region_name parts;
	const char *name;

	if (length > suffix && !strcmp(target + length - suffix, DELETED))
		target[length - suffix] = '\0';
	name = strrchr(target, '/');
	return !strcmp(target, MEMFD) || (name && cm_region_name_parse(name + 1, &parts));
}

/* One entry of /proc/PID/fd; `target` has PATH_MAX bytes. Whether it is the region. */
static bool look_at(int fds, const char *name, pid_t pid, char *target, struct stat *ret_st)
{
	const ssize_t n = readlinkat(fds, name, target, PATH_MAX - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	return links_to_region(target) && !fstatat(fds, name, ret_st, 0) &&
	       S_ISREG(ret_st->st_mode) && is_own_region(fds, name, pid);
}

bool cm_open_files_find(pid_t pid, unsigned most, cm_open_file_fn fn, void *data)
{
	char path[64], *target;
	struct dirent *entry;
	bool found = false;
	struct stat st;
	DIR *fds;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	if (!fds)
		return true;
	target = malloc(PATH_MAX);
	while (target && (entry = readdir(fds)) && most--) {
		if (!look_at(dirfd(fds), entry->d_name, pid, target, &st))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, entry->d_name);
		found = true;
		fn(data, pid, path, &st);
	}
	free(target);
	(void)closedir(fds);
	/* Once it is used up, the subtraction leaves the largest number. */
	return found || most != UINT_MAX;
}

bool cm_open_files_is_mapped(pid_t pid)
{
	char path[32], *line = NULL, *name;
	bool found = false;
	size_t room = 0;
	FILE *maps;
	int lines;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return false;
	for (lines = 0; !found && lines < LINES_MAX && getline(&line, &room, maps) > 0; lines++) {
		line[strcspn(line, "\n")] = '\0';
		name = strchr(line, '/');
		found = name && links_to_region(name);
	}
	free(line);
	(void)fclose(maps);
	return found;
}
