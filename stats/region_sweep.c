/* SPDX-License-Identifier: MIT */
#include "stats/region_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "stats/layout.h"
#include "stats/region.h"
#include "stats/region_lock.h"
#include "stats/region_mode.h"
#include "stats/region_name.h"
#include "stats/start_time.h"

#define ENTRIES_MOST   4096 /* of the folder, that a sweep reads */
#define LEFTOVERS_MOST 512  /* that it considers; the next sweep finds the others */
/* This young, one of an older library may not have been locked yet. */
#define BIRTH_NS UINT64_C(1000000000)

struct leftover {
	char name[NAME_MAX + 1];
	uint64_t age_ns;     /* since the process was found dead */
	uint64_t written_ns; /* since its last write that is not through the mapping */
	uint64_t bytes;      /* that it takes of the file system */
	bool unremoved;
};

/* Whether `name` is a region of this user whose process is gone. */
static bool is_leftover(const char *name)
{
	struct cm_region_name parts;
	uint64_t now = 0;

	if (!cm_region_name_parse(name, &parts) || parts.uid != geteuid())
		return false;
	switch (cm_process_start_time((uint32_t)parts.pid, &now)) {
	case 0:
		return now != parts.start;
	case -ESRCH:
		return true;
	default:
		return false; /* can't tell: leave it */
	}
}

static uint64_t age_ns(const struct timespec *now, const struct timespec *then)
{
	int64_t ns = (now->tv_sec - then->tv_sec) * INT64_C(1000000000) + now->tv_nsec -
		     then->tv_nsec;

	return ns > 0 ? (uint64_t)ns : 0;
}

static int by_age(const void *a, const void *b)
{
	const struct leftover *x = a, *y = b;

	if (x->age_ns != y->age_ns)
		return x->age_ns < y->age_ns ? -1 : 1;
	return x->written_ns < y->written_ns ? -1 : x->written_ns > y->written_ns;
}

/* The flags of a region of this layout. The whole header is too large for a small stack. */
static bool read_flags(int fd, uint32_t *ret_flags)
{
	uint64_t magic;
	uint16_t major;

	return pread(fd, &magic, sizeof(magic), offsetof(struct cm_header, magic)) ==
		       sizeof(magic) &&
	       pread(fd, &major, sizeof(major), offsetof(struct cm_header, major)) ==
		       sizeof(major) &&
	       pread(fd, ret_flags, sizeof(*ret_flags), offsetof(struct cm_header, flags)) ==
		       sizeof(*ret_flags) &&
	       magic == CM_LAYOUT_MAGIC && major == CM_LAYOUT_MAJOR;
}

/* A write beyond the program's limit on the length of files would be a SIGXFSZ. */
static void mark_dead(int fd, uint32_t flags)
{
	const off_t place = offsetof(struct cm_header, flags);

	flags |= CM_REGION_FOUND_DEAD;
	if (cm_region_file_size_allowed((uint64_t)place + sizeof(flags)))
		(void)pwrite(fd, &flags, sizeof(flags), place);
}

/*
 * Reads the header of a leftover. At the first time it notes there that the process is gone, which
 * also sets the file's mtime: that is when it was created, as writes through a mapping do not
 * advance it. A file of another layout is as old as its mtime says. False: it is no leftover.
 */
static bool examine(int dir, struct leftover *found)
{
	uint32_t flags;
	bool dead;
	int fd;

	fd = cm_region_open_writable(dir, found->name, O_NOFOLLOW);
	if (fd < 0)
		return false;
	dead = !cm_region_lock(fd) && cm_region_is_named(dir, found->name, fd);
	if (dead && read_flags(fd, &flags)) {
		found->unremoved = flags & CM_REGION_UNREMOVED;
		if (!(flags & CM_REGION_FOUND_DEAD)) {
			mark_dead(fd, flags);
			found->age_ns = 0;
		}
	}
	(void)close(fd);
	return dead;
}

static size_t find_leftovers(DIR *stream, struct leftover found[LEFTOVERS_MOST])
{
	struct timespec now;
	struct dirent *entry;
	struct stat st;
	size_t n = 0;
	int seen;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	for (seen = 0; n < LEFTOVERS_MOST && seen < ENTRIES_MOST && (entry = readdir(stream));
	     seen++) {
		if (!is_leftover(entry->d_name) ||
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			continue;
		found[n].age_ns = found[n].written_ns = age_ns(&now, &st.st_mtim);
		found[n].bytes = (uint64_t)st.st_blocks * 512;
		(void)snprintf(found[n].name, sizeof(found[n].name), "%s", entry->d_name);
		if (found[n].age_ns >= BIRTH_NS && examine(dirfd(stream), &found[n]))
			n++;
	}
	return n;
}

static uint64_t bytes_allowed(DIR *stream, const struct cm_region_keep *keep)
{
	struct statfs system;

	if (!keep->share || fstatfs(dirfd(stream), &system) || !system.f_blocks)
		return UINT64_MAX;
	return (uint64_t)system.f_blocks * (uint64_t)system.f_bsize / keep->share;
}

/* Removes what is not to be kept; the youngest come first. */
static int remove_leftovers(DIR *stream, const struct leftover *found, size_t n,
			    const struct cm_region_keep *keep)
{
	const uint64_t most_bytes = bytes_allowed(stream, keep);
	uint64_t bytes = 0;
	size_t i, kept = 0;
	int removed = 0;

	for (i = 0; i < n; i++) {
		if (!found[i].unremoved && kept < keep->most &&
		    (kept < keep->least || found[i].age_ns <= keep->ns) &&
		    (!kept || bytes + found[i].bytes <= most_bytes)) {
			kept++;
			bytes += found[i].bytes;
		} else if (!cm_region_remove_leftover(dirfd(stream), found[i].name)) {
			removed++;
		}
	}
	return removed;
}

int cm_region_sweep(const char *dir, const struct cm_region_keep *keep)
{
	static const struct cm_region_keep none;
	struct leftover *found;
	DIR *stream;
	size_t n;
	int removed;

	found = calloc(LEFTOVERS_MOST, sizeof(*found));
	stream = found ? opendir(dir ? dir : CM_REGION_DIR) : NULL;
	if (!stream) {
		free(found);
		return 0;
	}
	n = find_leftovers(stream, found);
	qsort(found, n, sizeof(*found), by_age);
	removed = remove_leftovers(stream, found, n, keep ? keep : &none);
	(void)closedir(stream);
	free(found);
	return removed;
}
