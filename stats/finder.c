/* SPDX-License-Identifier: MIT */
#include "stats/finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/reader.h"
#include "stats/region.h"
#include "stats/units.h"

#define FILES_MAX 65536
#define SEEN_MAX  4096
#define MEMFD     "/memfd:cudamem"

struct seen {
	dev_t dev;
	ino_t ino;
};

/* What processes hold open. Too large for a stack. */
struct open_files {
	char target[PATH_MAX]; /* of the link that is looked at */
	struct seen seen[SEEN_MAX];
	size_t count;
};

struct search {
	cm_find_fn fn;
	void *data;
	int found;
	int files;               /* directory entries looked at */
	struct open_files *open; /* NULL: they are not looked at */
};

static void report(struct search *search, const struct cm_find *find)
{
	search->found++;
	search->fn(search->data, find);
}

static bool is_seen(const struct search *search, const struct stat *st)
{
	size_t i;

	for (i = 0; search->open && i < search->open->count; i++)
		if (search->open->seen[i].ino == st->st_ino &&
		    search->open->seen[i].dev == st->st_dev)
			return true;
	return false;
}

/* What the kernel puts behind the path of an open file that has no name any more. */
#define DELETED " (deleted)"

/* The parts of a region's file name. */
struct name {
	uint64_t uid, pid, start;
};

static bool parse_part(const char **text, char end, uint64_t max, uint64_t *ret_part)
{
	const size_t length = strcspn(*text, ".");
	char digits[24];

	if (length >= sizeof(digits) || (*text)[length] != end)
		return false;
	memcpy(digits, *text, length);
	digits[length] = '\0';
	*text += length + (end != '\0');
	return !cm_number_parse(digits, max, ret_part);
}

static bool parse_name(const char *text, struct name *ret_name)
{
	const size_t prefix = strlen(CM_REGION_PREFIX);
	struct name name;

	if (strncmp(text, CM_REGION_PREFIX, prefix))
		return false;
	text += prefix;
	if (!parse_part(&text, '.', UINT32_MAX, &name.uid) ||
	    !parse_part(&text, '.', INT32_MAX, &name.pid) ||
	    !parse_part(&text, '\0', UINT64_MAX, &name.start))
		return false;
	*ret_name = name;
	return true;
}

/* A line of /proc/PID/status, without its end and its `label`. False: there is none. */
static bool read_status(pid_t pid, const char *label, char *line, int bytes)
{
	const size_t length = strlen(label);
	bool found = false;
	char path[32];
	FILE *status;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	if (!status)
		return false;
	while (!found && fgets(line, bytes, status))
		found = !strncmp(line, label, length);
	(void)fclose(status);
	if (found) {
		memmove(line, line + length, strlen(line + length) + 1);
		line[strcspn(line, "\n")] = '\0';
	}
	return found;
}

pid_t cm_process_inner_pid(pid_t pid)
{
	char line[512], *field;
	uint64_t inner = 0;

	if (!read_status(pid, "NSpid:", line, sizeof(line)))
		return pid;
	field = strrchr(line, '\t');
	if (cm_number_parse(field ? field + 1 : line, INT32_MAX, &inner))
		inner = 0;
	return inner ? (pid_t)inner : pid;
}

/* Is the user one that the process runs as? It has a real, an effective and two other ids. */
static bool runs_as(pid_t pid, uid_t uid)
{
	char line[512], *rest, *field;
	uint64_t number;

	if (!read_status(pid, "Uid:", line, sizeof(line)))
		return false;
	for (field = strtok_r(line, "\t ", &rest); field; field = strtok_r(NULL, "\t ", &rest))
		if (!cm_number_parse(field, UINT32_MAX, &number) && (uid_t)number == uid)
			return true;
	return false;
}

/*
 * Whether the open file behind a link of /proc/PID/fd is this process's own region: a forked child
 * or another tool can have the same file open.
 */
static bool is_own_region(const char *path, pid_t pid)
{
	uint8_t header[offsetof(struct cm_header, state)];
	uint64_t start, own_start;
	uint32_t own_pid;
	bool locked;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

/* Also to one whose name was taken away, as systemd-logind does when the user logs out
 * (RemoveIPC). */
static bool links_to_region(char *target)
{
	const char *name = strrchr(target, '/');
	const size_t length = strlen(target), suffix = strlen(DELETED);
	struct name parts;

	if (length > suffix && !strcmp(target + length - suffix, DELETED))
		target[length - suffix] = '\0';
	return !strcmp(target, MEMFD) || (name && parse_name(name + 1, &parts));
}

/* The regions that one process holds open. */
static void search_process(struct search *search, pid_t pid)
{
	struct open_files *open = search->open;
	struct cm_find find = {.pid = pid};
	char path[64], *target = open->target;
	struct dirent *entry;
	struct stat st;
	ssize_t n;
	DIR *fds;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	if (!fds)
		return;
	while (search->files < FILES_MAX && (entry = readdir(fds))) {
		search->files++;
		n = readlinkat(dirfd(fds), entry->d_name, target, sizeof(open->target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		if (!links_to_region(target) || fstatat(dirfd(fds), entry->d_name, &st, 0) ||
		    !S_ISREG(st.st_mode) || is_seen(search, &st))
			continue;
		(void)snprintf(find.path, sizeof(find.path), "%s/%s", path, entry->d_name);
		if (open->count == SEEN_MAX || !is_own_region(find.path, pid))
			continue;
		open->seen[open->count++] = (struct seen){st.st_dev, st.st_ino};
		find.uid = st.st_uid;
		report(search, &find);
	}
	(void)closedir(fds);
}

static void search_processes(struct search *search)
{
	struct dirent *entry;
	uint64_t pid;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		return;
	while (search->files < FILES_MAX && (entry = readdir(proc)))
		if (!cm_number_parse(entry->d_name, INT32_MAX, &pid))
			search_process(search, (pid_t)pid);
	(void)closedir(proc);
}

/*
 * The user in a name is what the process called itself: in a user namespace that is another than
 * here. Of who may read the file more is known than its name; for others a file that belongs to
 * another user than its name says is somebody's trick.
 */
static bool is_plausible(const struct name *name, const struct stat *st)
{
	return st->st_uid == (uid_t)name->uid || st->st_uid == geteuid() || !geteuid();
}

/*
 * Whoever may write to the folder can make a file under the number of any process. While that
 * process runs, a file of a user that it does not run as is not its region. It may be the leftover
 * of an earlier process, or belong to another PID namespace: a list has it, with its owner.
 */
static bool is_of_another(const struct name *name, const struct stat *st)
{
	uint64_t start;

	return !cm_process_start_time((uint32_t)name->pid, &start) &&
	       !runs_as((pid_t)name->pid, st->st_uid);
}

static void search_dir(struct search *search, const char *dir, pid_t pid)
{
	struct cm_find find = {0};
	struct dirent *entry;
	struct name name;
	struct stat st;
	DIR *stream;
	int seen;

	stream = opendir(dir);
	if (!stream)
		return;
	for (seen = 0; seen < FILES_MAX && (entry = readdir(stream)); seen++) {
		if (!parse_name(entry->d_name, &name) || (pid && (pid_t)name.pid != pid) ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || !is_plausible(&name, &st) || is_seen(search, &st) ||
		    (pid && is_of_another(&name, &st)))
			continue;
		if (snprintf(find.path, sizeof(find.path), "%s/%s", dir, entry->d_name) >=
		    (int)sizeof(find.path))
			continue;
		find.pid = (pid_t)name.pid;
		find.uid = st.st_uid;
		find.start = name.start;
		report(search, &find);
	}
	(void)closedir(stream);
}

static void search_everywhere(struct search *search, pid_t pid)
{
	search->open = malloc(sizeof(*search->open));
	if (search->open) {
		search->open->count = 0;
		if (pid)
			search_process(search, pid);
		else
			search_processes(search);
	}
	search_dir(search, CM_REGION_DIR, pid);
	free(search->open);
}

int cm_find_regions(const char *dir, pid_t pid, cm_find_fn fn, void *data)
{
	struct search search = {.fn = fn, .data = data};

	if (dir)
		search_dir(&search, dir, pid);
	else
		search_everywhere(&search, pid);
	return search.found;
}
