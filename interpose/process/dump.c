/* SPDX-License-Identifier: MIT */
/*
 * cudamem_dump_snapshot: a copy of the region at one moment, in a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/core/cancel.h"
#include "interpose/core/state.h"
#include "interpose/cudamem.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"
#include "stats/region.h"

/* Copies the header and the rows of all tables, one behind the other: a region without what was
 * never used. The caller unmaps *ret_copy, which is ret_copy->file_bytes long. -ENOMEM. */
static int copy_region(const struct cm_header *from, struct cm_header **ret_copy)
{
	uint64_t bytes = from->header_bytes, at = bytes;
	uint32_t rows[CM_TABLE_COUNT], t;
	struct cm_header *copy;

	/* Counted once: other threads may be adding stacks and texts. */
	for (t = 0; t < CM_TABLE_COUNT; t++) {
		rows[t] = __atomic_load_n(&from->table[t].rows, __ATOMIC_ACQUIRE);
		bytes += (uint64_t)rows[t] * from->table[t].stride;
	}
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return -ENOMEM;
	memcpy(copy, from, from->header_bytes);
	copy->file_bytes = bytes;
	copy->state = CM_REGION_SAVED;
	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *table = &copy->table[t];
		const uint64_t table_bytes = (uint64_t)rows[t] * table->stride;

		memcpy((char *)copy + at, (const char *)from + table->offset, table_bytes);
		table->offset = at;
		table->rows = table->capacity = rows[t];
		at += table_bytes;
	}
	*ret_copy = copy;
	return 0;
}

/* Other threads wait for the copy alone, and not for the file system. -EBUSY: the calling thread is
 * inside the library. */
static int take_copy(struct cm_cache *cache, const struct cm_region *region,
		     struct cm_header **ret_copy)
{
	int err;

	if (!cm_hook_enter())
		return -EBUSY;
	cm_process_stamp();
	cm_cache_hold(cache);
	err = copy_region(region->header, ret_copy);
	cm_cache_resume(cache);
	cm_hook_leave();
	return err;
}

/* An older file may be readable by others, and a pipe would block. */
static int open_private(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat st;
	int err = 0;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && !S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (fchmod(fd, 0600) || ftruncate(fd, 0))
		err = -errno;
	if (!err)
		return fd;
	(void)close(fd);
	return err;
}

static int write_copy(int fd, const struct cm_header *copy)
{
	const char *from = (const char *)copy;
	size_t left = copy->file_bytes;
	ssize_t n;

	if (!cm_region_file_size_allowed(left))
		return -EFBIG;
	for (; left; from += n, left -= (size_t)n) {
		do
			n = write(fd, from, left);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}

static int dump(struct cm_cache *cache, const struct cm_region *region, const char *path)
{
	const int fd = open_private(path);
	struct cm_header *copy;
	int err;

	if (fd < 0)
		return fd;
	err = take_copy(cache, region, &copy);
	if (!err) {
		err = write_copy(fd, copy);
		(void)munmap(copy, copy->file_bytes);
	}
	if (close(fd) && !err)
		err = -errno;
	return err;
}

int cudamem_dump_snapshot(const char *path)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	const struct cm_region *region = cm_process_region();
	int err;

	if (!path || !*path)
		return -EINVAL;
	if (!cache || !region)
		return -ENODEV;
	/* A cancelled thread would leave the file open, and the copy behind. */
	cm_cancel_hold();
	err = dump(cache, region, path);
	cm_cancel_allow();
	return err;
}
