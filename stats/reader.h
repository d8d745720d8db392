/* SPDX-License-Identifier: MIT */
/*
 * The reader's side of the region. The region is foreign data: it is read by pread into the
 * caller's memory and checked before use. Nothing is mapped, so a file that shrinks or changes is
 * an error code and never a signal. Every loop is bounded by a checked value.
 *
 * Not thread-safe per reader; two readers are independent. Prints nothing. Never waits for the
 * writer: a row that keeps changing is retried for some tens of milliseconds at most.
 */
#ifndef CM_STATS_READER_H
#define CM_STATS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stats/layout.h"

#define CM_READER_WHY_BYTES 160

enum cm_life {
	CM_LIFE_RUNNING,
	CM_LIFE_STOPPED, /* by a signal or a debugger */
	CM_LIFE_EXITED,  /* it marked the region at its exit */
	CM_LIFE_CRASHED, /* it crashed, was killed or called _exit(): a flight record */
	CM_LIFE_SAVED,   /* a copy that the tool or the process itself made */
	CM_LIFE_COUNT
};

struct cm_reader {
	struct cm_header header;    /* checked copy; texts end with a zero byte, and what the record
				  * says of tables in use is no more than their rows */
	uint64_t bytes;             /* of the file, when it was opened */
	struct cm_device_row row;   /* of the device that is being read: the sum over its shards */
	struct cm_device_row shard; /* one of these */
	int fd;
	uid_t owner; /* of the file, as the kernel says */
	pid_t pid;   /* in our PID namespace; 0: not visible from it */
};

/*
 * Opens and checks the region in the regular file at `path`; a symbolic link is refused unless it
 * is one of /proc/PID/fd. On failure `why` (CM_READER_WHY_BYTES) holds the reason as half a
 * sentence. -ENOENT, -EACCES and other errors of open(2); -EBADMSG: not a region, or damaged;
 * -EPROTONOSUPPORT: a region of another major version; -EAGAIN: still being made; -ENOMEM.
 */
int cm_reader_open(const char *path, struct cm_reader **ret_reader, char *why);
/* The same with an open file. Takes `fd` over, on failure too. */
int cm_reader_open_fd(int fd, struct cm_reader **ret_reader, char *why);
/* Writes half a sentence to `why` (CM_READER_WHY_BYTES). Returns `err`. */
__attribute__((format(printf, 3, 4))) int cm_explain(char *why, int err, const char *format, ...);
/* Closes the file and frees the reader. NULL is fine. */
void cm_reader_close(struct cm_reader *reader);

/* More rows than any build of the library or of the tool makes; a file that claims more is
 * refused. */
uint32_t cm_reader_rows_max(enum cm_table table);

/* Reads the header again, as tables grow. -EBADMSG: it is damaged now; -ENOMEM. The old copy stays
 * then. */
int cm_reader_refresh(struct cm_reader *reader);

/*
 * Copies rows [first, first + count) of a table into `rows`, an array of elements of `row_bytes`.
 * What the file's rows lack (an older minor version) is zero, what they have beyond is left out.
 * -ERANGE: beyond the rows that the header promises. -EIO.
 */
int cm_reader_read(struct cm_reader *reader, enum cm_table table, uint32_t first, uint32_t count,
		   void *rows, size_t row_bytes);

/* Copies bytes of the file as they are. -EIO: it ends before. */
int cm_reader_read_at(const struct cm_reader *reader, uint64_t offset, void *to, size_t bytes);

/* Which rows of the device table belong together. */
struct cm_shard_map {
	/* By row: that of its device's first shard; CM_DEVICES_MAX: it belongs to no device. */
	uint8_t first[CM_DEVICES_MAX];
};

/* Adds a row; the rows before it have been added. A row that names no first shard before it, which
 * only a damaged region has, belongs to no device. */
void cm_shard_map_add(struct cm_shard_map *map, uint32_t index, const struct cm_device_row *row);
/* All rows. -EIO. */
int cm_reader_read_shards(struct cm_reader *reader, struct cm_shard_map *ret_map);

/* The row of a device, which a segment or a heap names by that of one of its shards.
 * CM_DEVICES_MAX: there is none. */
static inline uint32_t cm_shard_map_device(const struct cm_shard_map *map, uint32_t row)
{
	return row < CM_DEVICES_MAX ? map->first[row] : CM_DEVICES_MAX;
}

/*
 * Copies the counters of the device whose first shard is row `index`: the sum over its shards,
 * events included. Each shard is copied at one moment, between two moves of counters from one to
 * another, so that the sums balance. *ret_torn: a writer never paused, or stopped in the middle of
 * a change, so values may differ by the requests in flight. -ENOENT: the row is unused, or a later
 * shard. -ERANGE, -EIO.
 */
int cm_reader_read_device(struct cm_reader *reader, uint32_t index, struct cm_device_row *ret_row,
			  bool *ret_torn);
int cm_reader_read_host(struct cm_reader *reader, struct cm_host_row *ret_row, bool *ret_torn);

/* A row of the configuration in effect; its texts end with a zero byte. -ERANGE, -EIO. */
int cm_reader_read_option(struct cm_reader *reader, uint32_t index, struct cm_option_row *ret_row);

/*
 * Whether the owner holds the lock of this open region file. The kernel releases it when the owner
 * dies, in whatever namespace the owner is. Never blocks.
 */
bool cm_region_is_locked(int fd);

/*
 * The state of the process, as of this call. A process in another time namespace has another start
 * time there than here; if the two differ, the file's lock decides.
 */
enum cm_life cm_reader_life(struct cm_reader *reader);

/* Whether the owner has ended, so that nothing changes any more; cheaper than cm_reader_life. */
bool cm_reader_is_over(struct cm_reader *reader);

#endif
