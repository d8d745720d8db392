/* SPDX-License-Identifier: MIT */
#include "stats/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/config.h"
#include "stats/regular_file.h"
#include "stats/start_time.h"

#define STRIDE_MAX 65536
/*
 * Rows may take so much more than the file has: a copy of a region, and a file system that
 * compresses, keep no zeros. A quarter of a second of work.
 */
#define HOLES_MAX (UINT64_C(256) << 20)
/* What options size is bounded as they are; for the others there is room for builds to come. */
static const uint32_t rows_max[CM_TABLE_COUNT] = {
	[CM_TABLE_OPTION] = 1u << 10,
	[CM_TABLE_DEVICE] = 1u << 10,
	[CM_TABLE_HEAP] = 1u << 16,
	[CM_TABLE_SEGMENT] = 1u << 24,
	[CM_TABLE_BLOCK] = 1u << 26,
	[CM_TABLE_MODULE] = 1u << 16,
	[CM_TABLE_STACK] = UINT32_MAX,
	[CM_TABLE_EVENT] = (uint32_t)CM_EVENTS_MAX * CM_DEVICES_MAX,
	[CM_TABLE_HOST_EVENT] = (uint32_t)CM_EVENTS_MAX,
	[CM_TABLE_TEXT] = UINT32_MAX,
	[CM_TABLE_SAVED] = 1,
	[CM_TABLE_SITE] = 1u << 28,
	[CM_TABLE_FRAME] = 1u << 28,
	[CM_TABLE_NAME] = UINT32_MAX,
};

uint32_t cm_reader_rows_max(enum cm_table table)
{
	return rows_max[table];
}

int cm_explain(char *why, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, CM_READER_WHY_BYTES, format, args);
	va_end(args);
	return err;
}

/* Reads all of `bytes` at `offset`; a file that ends before is -EIO. */
static int read_at(int fd, uint64_t offset, void *to, size_t bytes)
{
	char *out = to;
	ssize_t n;

	while (bytes) {
		n = pread(fd, out, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		out += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int check_table(const struct cm_header *header, uint32_t t, uint64_t bytes, char *why)
{
	const struct cm_table_row *table = &header->table[t];
	uint64_t length;

	if (!table->capacity && !table->rows)
		return 0;
	/* capacity and stride are 32 bits wide, so the product does not overflow. */
	length = (uint64_t)table->capacity * table->stride;
	if (!table->stride || table->stride > STRIDE_MAX || table->rows > table->capacity ||
	    table->rows > rows_max[t])
		return cm_explain(why, -EBADMSG,
				  "damaged: table %u claims %u of %u rows of %u bytes", t,
				  table->rows, table->capacity, table->stride);
	if (table->offset < header->header_bytes || table->offset > bytes ||
	    length > bytes - table->offset)
		return cm_explain(why, -EBADMSG, "damaged: table %u lies outside the file", t);
	if (table->ring & (table->ring - 1))
		return cm_explain(why, -EBADMSG,
				  "damaged: a ring of table %u has %u rows, no power of two", t,
				  table->ring);
	return 0;
}

static int check_header(const struct cm_header *header, uint64_t bytes, char *why)
{
	uint32_t t;
	int err;

	if (header->magic != CM_LAYOUT_MAGIC)
		return cm_explain(why, header->magic ? -EBADMSG : -EAGAIN,
				  header->magic ? "not a region of cudamem" : "still being made");
	if (header->major != CM_LAYOUT_MAJOR)
		return cm_explain(why, -EPROTONOSUPPORT,
				  "its layout is version %u.%u, this build reads %u.x",
				  header->major, header->minor, CM_LAYOUT_MAJOR);
	if (header->header_bytes < sizeof(*header) || header->header_bytes > bytes)
		return cm_explain(why, -EBADMSG, "damaged: its header claims %u bytes",
				  header->header_bytes);
	if (header->file_bytes > bytes)
		return cm_explain(why, -EBADMSG, "cut short: %llu of %llu bytes",
				  (unsigned long long)bytes,
				  (unsigned long long)header->file_bytes);
	for (t = 0; t < CM_TABLE_COUNT; t++) {
		err = check_table(header, t, bytes, why);
		if (err)
			return err;
	}
	return 0;
}

/*
 * A file can be long and hold nothing, and the work of a reader grows with the rows. The library
 * backs its rows before it counts them.
 */
static int check_backed(const struct cm_header *header, int fd, char *why)
{
	uint64_t claimed = 0, backed;
	struct stat st;
	uint32_t t;

	/* Each is below 2^48: they add up without overflow. */
	for (t = 0; t < CM_TABLE_COUNT; t++)
		claimed += (uint64_t)header->table[t].rows * header->table[t].stride;
	if (fstat(fd, &st))
		return cm_explain(why, -EIO, "it cannot be read");
	backed = 512 * (uint64_t)st.st_blocks;
	if (claimed <= HOLES_MAX || claimed - HOLES_MAX <= backed)
		return 0;
	return cm_explain(why, -EBADMSG, "damaged: it claims %llu bytes of rows, and has %llu",
			  (unsigned long long)claimed, (unsigned long long)backed);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Fills *header even if it fails: a copy would be too large for the stack of some threads. */
static int read_header(int fd, uint64_t bytes, struct cm_header *header, char *why)
{
	int err;

	if (bytes < sizeof(*header))
		return cm_explain(why, bytes ? -EBADMSG : -EAGAIN,
				  bytes ? "too short for a region of cudamem" : "still being made");
	err = read_at(fd, 0, header, sizeof(*header));
	if (err)
		return cm_explain(why, err, "it cannot be read");
	err = check_header(header, bytes, why);
	if (!err)
		err = check_backed(header, fd, why);
	if (err)
		return err;
	header->version[sizeof(header->version) - 1] = '\0';
	header->comm[sizeof(header->comm) - 1] = '\0';
	header->cmdline[sizeof(header->cmdline) - 1] = '\0';
	/* They may have grown since the row counts were read. */
	header->record.stack_words = smaller(header->record.stack_words,
					     header->table[CM_TABLE_STACK].rows);
	header->record.text_bytes = smaller(header->record.text_bytes,
					    header->table[CM_TABLE_TEXT].rows);
	return 0;
}

static bool is_own_namespace(uint64_t pid_namespace)
{
	struct stat st;

	return !pid_namespace || stat("/proc/self/ns/pid", &st) || st.st_ino == pid_namespace;
}

int cm_reader_open_fd(int fd, struct cm_reader **ret_reader, char *why)
{
	struct cm_reader *reader;
	struct stat st;
	int err;

	/* The header's type is aligned to a page: calloc would not do. */
	reader = aligned_alloc(_Alignof(struct cm_reader), sizeof(*reader));
	if (!reader) {
		err = cm_explain(why, -ENOMEM, "no memory left");
		goto err_file;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		err = cm_explain(why, -EBADMSG, "not a regular file");
		goto err_reader;
	}
	memset(reader, 0, sizeof(*reader));
	reader->fd = fd;
	reader->owner = st.st_uid;
	reader->bytes = (uint64_t)st.st_size;
	err = read_header(fd, reader->bytes, &reader->header, why);
	if (err)
		goto err_reader;
	if (is_own_namespace(reader->header.pid_namespace))
		reader->pid = (pid_t)reader->header.pid;
	*ret_reader = reader;
	return 0;

err_reader:
	free(reader);
err_file:
	(void)close(fd);
	return err;
}

int cm_reader_open(const char *path, struct cm_reader **ret_reader, char *why)
{
	/* The links of /proc/PID/fd lead to the open file itself, not to a path. */
	const bool follow = !strncmp(path, "/proc/", 6) &&
			    !strncmp(strchrnul(path + 6, '/'), "/fd/", 4);
	int fd;

	fd = cm_regular_file_open(AT_FDCWD, path, follow ? 0 : O_NOFOLLOW);
	if (fd == -EBADMSG)
		return cm_explain(why, fd, "not a regular file");
	if (fd < 0)
		return cm_explain(why, fd, "%s",
				  fd == -ELOOP ? "a symbolic link, not followed" : strerror(-fd));
	return cm_reader_open_fd(fd, ret_reader, why);
}

void cm_reader_close(struct cm_reader *reader)
{
	if (!reader)
		return;
	(void)close(reader->fd);
	free(reader);
}

int cm_reader_refresh(struct cm_reader *reader)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_header *header;
	int err;

	header = aligned_alloc(_Alignof(struct cm_header), sizeof(*header));
	if (!header)
		return -ENOMEM;
	err = read_header(reader->fd, reader->bytes, header, why) ? -EBADMSG : 0;
	if (!err)
		reader->header = *header;
	free(header);
	return err;
}

int cm_reader_read_at(const struct cm_reader *reader, uint64_t offset, void *to, size_t bytes)
{
	return read_at(reader->fd, offset, to, bytes);
}

int cm_reader_read(struct cm_reader *reader, enum cm_table table, uint32_t first, uint32_t count,
		   void *rows, size_t row_bytes)
{
	const struct cm_table_row *from = &reader->header.table[table];
	const size_t copied = row_bytes < from->stride ? row_bytes : from->stride;
	uint64_t offset = from->offset + (uint64_t)first * from->stride;
	char *out = rows;
	uint32_t i;
	int err;

	if (first > from->rows || count > from->rows - first)
		return -ERANGE;
	if (row_bytes == from->stride)
		return read_at(reader->fd, offset, rows, count * row_bytes);
	for (i = 0; i < count; i++, out += row_bytes, offset += from->stride) {
		err = read_at(reader->fd, offset, out, copied);
		if (err)
			return err;
		memset(out + copied, 0, row_bytes - copied);
	}
	return 0;
}

int cm_reader_read_option(struct cm_reader *reader, uint32_t index, struct cm_option_row *ret_row)
{
	struct cm_option_row row;
	int err;

	err = cm_reader_read(reader, CM_TABLE_OPTION, index, 1, &row, sizeof(row));
	if (err)
		return err;
	row.name[sizeof(row.name) - 1] = '\0';
	row.value[sizeof(row.value) - 1] = '\0';
	row.fallback[sizeof(row.fallback) - 1] = '\0';
	row.origin[sizeof(row.origin) - 1] = '\0';
	row.help[sizeof(row.help) - 1] = '\0';
	*ret_row = row;
	return 0;
}

bool cm_region_is_locked(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

enum cm_life cm_reader_life(struct cm_reader *reader)
{
	const struct cm_header *header = &reader->header;
	struct cm_process_stat stat = {0};
	uint32_t state;

	if (!read_at(reader->fd, offsetof(struct cm_header, state), &state, sizeof(state)) &&
	    (state == CM_REGION_EXITED || state == CM_REGION_SAVED))
		return state == CM_REGION_SAVED ? CM_LIFE_SAVED : CM_LIFE_EXITED;
	if (reader->pid <= 0)
		return cm_region_is_locked(reader->fd) ? CM_LIFE_RUNNING : CM_LIFE_CRASHED;
	if (cm_process_read_stat((uint32_t)reader->pid, &stat) || stat.is_dead ||
	    (stat.start != header->start_time && !cm_region_is_locked(reader->fd)))
		return CM_LIFE_CRASHED;
	return strchr("Tt", stat.state) ? CM_LIFE_STOPPED : CM_LIFE_RUNNING;
}

bool cm_reader_is_over(struct cm_reader *reader)
{
	enum cm_life life;

	/* A thread may outlive the first one, which is what the pid tells of. */
	if (cm_region_is_locked(reader->fd))
		return false;
	life = cm_reader_life(reader);
	return life != CM_LIFE_RUNNING && life != CM_LIFE_STOPPED;
}
