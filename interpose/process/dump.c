/* SPDX-License-Identifier: MIT */
/*
 * cudamem_dump_snapshot: a copy of the region at one moment, in a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "interpose/core/state.h"
#include "interpose/cudamem.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"
#include "stats/region.h"

static int write_bytes(int fd, const char *from, size_t bytes, uint64_t at)
{
	ssize_t n;

	for (; bytes; from += n, bytes -= (size_t)n, at += (uint64_t)n) {
		do
			n = pwrite(fd, from, bytes, (off_t)at);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}

/* The header and the rows of all tables; what was never used is a hole. */
static int write_region(int fd, const struct cm_region *region)
{
	const struct cm_header *header = region->header;
	const struct cm_table_row *table;
	int err = ftruncate(fd, (off_t)header->file_bytes) ? -errno : 0;
	size_t i;

	if (!err)
		err = write_bytes(fd, (const char *)header, header->header_bytes, 0);
	for (i = 0; i < CM_TABLE_COUNT && !err; i++) {
		table = &header->table[i];
		err = write_bytes(fd, (const char *)header + table->offset,
				  (size_t)table->rows * table->stride, table->offset);
	}
	return err;
}

int cudamem_dump_snapshot(const char *path)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	const struct cm_region *region = cm_process_region();
	int fd, err;

	if (!path || !*path)
		return -EINVAL;
	if (!cache || !region)
		return -ENODEV;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (!cm_hook_enter()) {
		(void)close(fd);
		return -EBUSY;
	}
	cm_process_stamp();
	cm_cache_hold(cache);
	err = write_region(fd, region);
	cm_cache_resume(cache);
	cm_hook_leave();
	if (close(fd) && !err)
		err = -errno;
	return err;
}
