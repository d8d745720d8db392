/* SPDX-License-Identifier: MIT */
#include "stats/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "stats/region_lock.h"
#include "stats/region_mode.h"
#include "stats/start_time.h"

#define PAGE       UINT64_C(4096)
#define PAGE_MOST  UINT64_C(65536) /* of any machine that this runs on */
#define NAME_TRIES 4
/* A program's timers may interrupt a call again and again; nothing else does so often. */
#define INTERRUPTS_MAX 100
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* glibc before 2.35 */
#endif

/* Rows that a table can ever have. Address space and file length, not memory: see commit. */
static const struct table_plan {
	uint32_t stride;
	uint32_t capacity;
} table_plan[CM_TABLE_COUNT] = {
	[CM_TABLE_OPTION] = {sizeof(struct cm_option_row), 64},
	[CM_TABLE_DEVICE] = {PAGE,
			     CM_DEVICES_MAX}, /* a page each: a reader fetches one at a time */
	[CM_TABLE_HEAP] = {sizeof(struct cm_heap_row), 4096},
	[CM_TABLE_SEGMENT] = {sizeof(struct cm_segment), 1u << 20},
	[CM_TABLE_BLOCK] = {sizeof(struct cm_block), CM_BLOCKS_MAX},
	[CM_TABLE_MODULE] = {sizeof(struct cm_module), 4096},
	[CM_TABLE_STACK] = {sizeof(uint64_t), 1u << 23}, /* unless the maker says */
	[CM_TABLE_EVENT] = {sizeof(struct cm_event), 0}, /* by the ring's size */
	[CM_TABLE_HOST_EVENT] = {sizeof(struct cm_event), 0},
	[CM_TABLE_TEXT] = {1, 1u << 24},
};

/* A commit takes at least this much, so that growing row by row costs few system calls. */
#define COMMIT_STEP UINT64_C(65536)

/* The size of all tables but events once a program has its first blocks, with some reserve. */
#define TABLES_ROOM (UINT64_C(2) << 20)

/* Half of a container's /dev/shm. */
#define LEFT_BYTES UINT64_C(33554432)

struct region {
	struct cm_region public;
	int fd;       /* -1 for private memory */
	dev_t device; /* of the file behind fd: the program may close what is not its own */
	ino_t inode;
	pthread_mutex_t commit_lock;
	uint64_t committed[CM_TABLE_COUNT]; /* bytes backed; guarded by commit_lock */
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

#define RING_DEFAULT (1u << 16)

static uint32_t plan_capacity(const struct cm_region_params *params, uint32_t table, uint32_t ring)
{
	uint64_t rows = table_plan[table].capacity;

	if (table == CM_TABLE_EVENT)
		rows = (uint64_t)ring * CM_DEVICES_MAX;
	else if (table == CM_TABLE_HOST_EVENT)
		rows = ring;
	else if (table == CM_TABLE_STACK && params->stack_bytes)
		rows = params->stack_bytes / sizeof(uint64_t);
	else if (table == CM_TABLE_TEXT && params->text_bytes)
		rows = params->text_bytes;
	return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Rows of each ring of events: a power of two. */
static uint32_t plan_ring(const struct cm_region_params *params)
{
	const uint32_t events = params->events ? params->events : RING_DEFAULT;
	uint32_t ring = 1;

	while (ring < events && ring < (1u << 24))
		ring <<= 1;
	return ring;
}

static uint64_t plan_bytes(const struct cm_region_params *params, uint32_t table, uint32_t ring)
{
	return round_up((uint64_t)table_plan[table].stride * plan_capacity(params, table, ring),
			PAGE);
}

uint64_t cm_region_file_bytes(const struct cm_region_params *params)
{
	uint64_t bytes = sizeof(struct cm_header);
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++)
		bytes += plan_bytes(params, t, plan_ring(params));
	return bytes;
}

/* The header is new, and all zero. */
static void fill_plan(struct cm_header *header, const struct cm_region_params *params)
{
	const uint32_t ring = plan_ring(params);
	uint64_t offset = sizeof(*header);
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *row = &header->table[t];

		row->offset = offset;
		row->stride = table_plan[t].stride;
		row->capacity = plan_capacity(params, t, ring);
		if (t == CM_TABLE_EVENT || t == CM_TABLE_HOST_EVENT)
			row->ring = ring;
		offset += plan_bytes(params, t, ring);
	}
	header->file_bytes = offset;
	header->record.events = params->events != 0;
	header->record.max_entries = UINT64_MAX;
}

/* Away from the standard ones, which a program that was started without them takes for its own. */
static int move_up(int fd)
{
	int moved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	(void)close(fd);
	return moved;
}

/* Whether the number still means our file, and not one that the program has opened since. */
static bool has_file(const struct region *region)
{
	struct stat st;

	return region->fd >= 0 && !fstat(region->fd, &st) && st.st_dev == region->device &&
	       st.st_ino == region->inode;
}

/* A umask may have left less, and the file's own user, and a sweep, could not open it. */
static void set_mode(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && (st.st_mode & 07777) != CM_REGION_MODE)
		(void)fchmod(fd, CM_REGION_MODE);
}

/* Creates the file under the process's name, in place of a leftover: a process that was replaced by
 * exec(2) has the name of its past. -EAGAIN: one in another PID namespace has that name, too. */
static int open_file(struct region *region, const char *dir, uint64_t start)
{
	char *path = region->public.path;
	int fd, tries, err = 0;

	(void)snprintf(path, sizeof(region->public.path), "%s/" CM_REGION_PREFIX "%u.%u.%llu", dir,
		       (unsigned)geteuid(), (unsigned)getpid(), (unsigned long long)start);
	for (tries = 0; tries < NAME_TRIES; tries++) {
		fd = move_up(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				  CM_REGION_MODE));
		if (fd >= 0 && !cm_region_lock(fd) && cm_region_is_named(AT_FDCWD, path, fd)) {
			set_mode(fd);
			return fd;
		}
		if (fd >= 0) {
			(void)close(fd);
			continue;
		}
		err = errno == EEXIST ? cm_region_remove_leftover(AT_FDCWD, path) : -errno;
		if (err && err != -ENOENT && err != -ESTALE)
			return err;
	}
	return err ? err : -EEXIST;
}

bool cm_region_file_size_allowed(uint64_t bytes)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* Opens a part of the mapping for reading and writing, and what shares its pages. */
static int open_pages(struct region *region, uint64_t offset, uint64_t bytes)
{
	const uint64_t from = offset & ~(PAGE_MOST - 1);
	uint64_t to = round_up(offset + bytes, PAGE_MOST);

	if (to > region->public.map_bytes)
		to = region->public.map_bytes;
	return mprotect((char *)region->public.header + from, to - from, PROT_READ | PROT_WRITE)
		       ? -errno
		       : 0;
}

/*
 * Maps the whole region, of which the header alone can be touched: the tables are opened as they
 * are backed. A stray write of the program cannot reach the rest, and mlockall(2) does not fill it
 * with memory. Neither does a core dump, which contains a file without a name, holes and all.
 */
static int map_region(struct region *region, uint64_t bytes, int flags, int fd)
{
	void *map = mmap(NULL, bytes, PROT_NONE, flags | MAP_NORESERVE, fd, 0);
	int err;

	if (map == MAP_FAILED)
		return -errno;
	region->public.header = map;
	region->public.map_bytes = bytes;
	region->fd = fd;
	(void)madvise(map, bytes, MADV_DONTDUMP);
	err = open_pages(region, 0, sizeof(struct cm_header));
	if (err)
		(void)munmap(map, bytes);
	return err;
}

/* On older kernels a signal interrupts posix_fallocate(3), which does not restart by itself. */
int cm_region_back_file(int fd, uint64_t offset, uint64_t bytes)
{
	int tries, err = EINTR;

	for (tries = 0; err == EINTR && tries < INTERRUPTS_MAX; tries++)
		err = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
	return -err;
}

/* Gives the file its length and backs the header, then maps the whole of it. */
static int map_file(struct region *region, int fd, uint64_t bytes)
{
	struct stat st;
	int err;

	if (!cm_region_file_size_allowed(bytes))
		return -EFBIG;
	if (ftruncate(fd, (off_t)bytes) || fstat(fd, &st))
		return -errno;
	err = cm_region_back_file(fd, 0, sizeof(struct cm_header));
	if (err)
		return err;
	region->device = st.st_dev;
	region->inode = st.st_ino;
	return map_region(region, bytes, MAP_SHARED, fd);
}

/* What a process with one device soon takes, and pinned memory with it. */
static uint64_t plan_room(const struct cm_region_params *params)
{
	const uint64_t ring = plan_bytes(params, CM_TABLE_HOST_EVENT, plan_ring(params));

	return (params->events ? 2 * ring : 0) + TABLES_ROOM;
}

uint64_t cm_region_left_bytes(uint64_t total_bytes)
{
	return total_bytes / 2 < LEFT_BYTES ? total_bytes / 2 : LEFT_BYTES;
}

/*
 * Tables find out late that there is no space for them: in a file system that is nearly full the
 * process would have no events, or no cache. True also if that is not known, or nothing limits it.
 */
static bool has_room(int fd, uint64_t bytes)
{
	struct statfs system;

	if (fstatfs(fd, &system) || !system.f_blocks || !system.f_bsize)
		return true;
	bytes += cm_region_left_bytes((uint64_t)system.f_blocks * (uint64_t)system.f_bsize);
	return system.f_bavail >= bytes / (uint64_t)system.f_bsize;
}

static int back_by_file(struct region *region, const struct cm_region_params *params,
			uint64_t start, uint64_t bytes)
{
	const char *dir = params->dir ? params->dir : CM_REGION_DIR;
	int fd, err;

	fd = open_file(region, dir, start);
	if (fd < 0) {
		region->public.path[0] = '\0';
		return fd;
	}
	err = has_room(fd, plan_room(params)) ? map_file(region, fd, bytes) : -ENOSPC;
	if (err) {
		(void)unlink(region->public.path);
		(void)close(fd);
		region->public.path[0] = '\0';
	}
	return err;
}

/* Sealed, so that no process can shorten it: touching a mapping beyond the end is a SIGBUS. A file
 * with a name cannot be sealed. */
static int back_by_memfd(struct region *region, uint64_t bytes)
{
	int fd, err;

	fd = move_up(memfd_create("cudamem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -errno;
	(void)cm_region_lock(fd);
	err = map_file(region, fd, bytes);
	if (err)
		(void)close(fd);
	else
		(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
	return err;
}

static int back(struct region *region, const struct cm_region_params *params, uint64_t start,
		uint64_t bytes)
{
	enum cm_backing kind;
	int err = -ENOMEM;

	for (kind = params->backing; kind <= CM_BACKING_PRIVATE; kind++) {
		switch (kind) {
		case CM_BACKING_FILE:
			err = back_by_file(region, params, start, bytes);
			break;
		case CM_BACKING_MEMFD:
			err = back_by_memfd(region, bytes);
			break;
		case CM_BACKING_PRIVATE:
			err = map_region(region, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
			break;
		}
		region->public.backing = kind;
		if (!err)
			return 0;
		if (!region->public.error)
			region->public.error = err;
	}
	return err;
}

static void fill_identity(struct cm_header *header, uint64_t start, const char *version)
{
	struct stat ns;
	int fd;
	ssize_t n, i;

	header->major = CM_LAYOUT_MAJOR;
	header->minor = CM_LAYOUT_MINOR;
	header->header_bytes = sizeof(*header);
	header->stat_count = CM_STAT_COUNT;
	header->stat1_count = CM_STAT1_COUNT;
	header->scalar_count = CM_SCALAR_COUNT;
	header->other_count = CM_UNCACHED_COUNT;
	header->pid = (uint32_t)getpid();
	header->uid = (uint32_t)geteuid();
	header->start_time = start;
	if (!stat("/proc/self/ns/pid", &ns))
		header->pid_namespace = ns.st_ino;
	(void)snprintf(header->version, sizeof(header->version), "%s", version ? version : "");
	(void)snprintf(header->comm, sizeof(header->comm), "%s", program_invocation_short_name);
	fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, header->cmdline, sizeof(header->cmdline) - 1);
	(void)close(fd);
	for (i = 0; i + 1 < n; i++)
		if (header->cmdline[i] == '\0')
			header->cmdline[i] = ' ';
}

int cm_region_create(const struct cm_region_params *params, struct cm_region **ret_region)
{
	struct region *region;
	struct cm_process_stat stat = {0};
	int err;

	region = calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	(void)pthread_mutex_init(&region->commit_lock, NULL);
	(void)cm_process_read_own_stat(&stat);
	err = back(region, params, stat.start, cm_region_file_bytes(params));
	if (err) {
		free(region);
		return err;
	}
	fill_plan(region->public.header, params);
	fill_identity(region->public.header, stat.start, params->version);
	/* Release: a reader that sees the magic sees the whole header. */
	__atomic_store_n(&region->public.header->magic, CM_LAYOUT_MAGIC, __ATOMIC_RELEASE);
	*ret_region = &region->public;
	return 0;
}

void cm_region_abandon(struct cm_region *public)
{
	struct region *region = (struct region *)public;

	if (!region)
		return;
	(void)munmap(public->header, public->map_bytes);
	if (has_file(region))
		(void)close(region->fd);
	free(region);
}

/* The name may mean another place by now, as after chroot(2). */
static bool is_named_elsewhere(const struct region *region)
{
	struct stat st;

	return has_file(region) && !fstat(region->fd, &st) && st.st_nlink > 0;
}

void cm_region_remove(struct cm_region *public)
{
	if (!public)
		return;
	__atomic_store_n(&public->header->state, CM_REGION_EXITED, __ATOMIC_RELEASE);
	if (public->path[0] && !__atomic_load_n(&public->keep, __ATOMIC_RELAXED) &&
	    unlink(public->path) &&
	    (errno != ENOENT || is_named_elsewhere((const struct region *)public)))
		__atomic_fetch_or(&public->header->flags, CM_REGION_UNREMOVED, __ATOMIC_RELAXED);
}

/* Pages that are about to be written are mapped together: one by one each would be a fault of half
 * a microsecond, in the midst of a request. Before Linux 5.14 they are. */
static void map_pages(struct region *region, uint64_t offset, uint64_t bytes)
{
	int saved = errno;

	(void)madvise((char *)region->public.header + offset, bytes, MADV_POPULATE_WRITE);
	errno = saved;
}

static int back_bytes(struct region *region, uint64_t offset, uint64_t bytes)
{
	const bool is_file = region->fd >= 0;
	int err;

	if (is_file && !has_file(region))
		return -EBADF;
	err = is_file ? cm_region_back_file(region->fd, offset, bytes) : 0;
	if (!err)
		err = open_pages(region, offset, bytes);
	if (!err && is_file)
		map_pages(region, offset, bytes);
	return err;
}

/* A program can do without events: its ring leaves space to it. */
static bool must_leave_space(enum cm_table table)
{
	return table == CM_TABLE_EVENT || table == CM_TABLE_HOST_EVENT;
}

int cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows)
{
	struct region *region = (struct region *)public;
	struct cm_table_row *row = &public->header->table[table];
	uint64_t want, step, limit;
	int err = 0;

	if (rows > row->capacity)
		return -ENOSPC;
	(void)pthread_mutex_lock(&region->commit_lock);
	limit = round_up((uint64_t)row->stride * row->capacity, PAGE);
	want = (uint64_t)rows * row->stride;
	if (want > region->committed[table]) {
		step = round_up(want - region->committed[table], COMMIT_STEP);
		if (step > limit - region->committed[table])
			step = limit - region->committed[table];
		err = must_leave_space(table) && has_file(region) && !has_room(region->fd, step)
			      ? -ENOSPC
			      : back_bytes(region, row->offset + region->committed[table], step);
		if (!err)
			region->committed[table] += step;
	}
	if (!err && rows > row->rows)
		/* Release: a thread that sees the count may read the rows. */
		__atomic_store_n(&row->rows, rows, __ATOMIC_RELEASE);
	(void)pthread_mutex_unlock(&region->commit_lock);
	return err;
}

void *cm_region_row(const struct cm_region *region, enum cm_table table, uint32_t index)
{
	const struct cm_table_row *row = &region->header->table[table];

	return (char *)region->header + row->offset + (uint64_t)row->stride * index;
}
