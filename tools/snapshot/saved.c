/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if CM_HAVE_ZSTD
#include <zstd.h>
#endif

#include "stats/regular_file.h"

/* 300 MB/s and more; the next levels save a tenth and take twice the time. */
#define LEVEL 1
/* Rows are like those shortly before them. A window of 128 KiB in place of 512 takes 15 % less work
 * and 4 % less space for a ring of events, and is never more than 1 % larger. */
#define WINDOW_LOG 17
#define HASH_LOG   13
/* A zstd block has 128 KiB at most and takes 4 bytes at least; empty rings come close to that. A
 * file that claims a higher ratio is damaged. */
#define SHRINKS_MOST UINT64_C(32768)

#if CM_HAVE_ZSTD
/* Makes the header of the region in the file: its tables follow one another, it has no owner. */
static void plan(const struct cm_image *image, struct cm_header *header)
{
	uint64_t offset = sizeof(*header);
	uint32_t t;

	*header = image->header;
	header->magic = CM_LAYOUT_MAGIC;
	header->major = CM_LAYOUT_MAJOR;
	header->minor = CM_LAYOUT_MINOR;
	header->header_bytes = sizeof(*header);
	header->state = CM_REGION_SAVED;
	header->flags &= ~CM_REGION_CONTROL;
	memset(&header->channel, 0, sizeof(header->channel));
	memset(header->table, 0, sizeof(header->table));
	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *row = &header->table[t];
		const uint32_t rows = t == CM_TABLE_SAVED ? 1 : image->table[t].count;

		row->offset = offset;
		row->stride = (uint32_t)cm_image_row_bytes((enum cm_table)t);
		row->capacity = row->rows = rows;
		row->ring = image->header.table[t].ring;
		offset += (uint64_t)row->stride * rows;
	}
	header->file_bytes = offset;
}

struct writer {
	FILE *file;
	ZSTD_CCtx *zstd;
	void *buffer;
	size_t room;
	uint64_t bytes; /* written to the file */
};

static int put_plain(struct writer *writer, const void *bytes, size_t count)
{
	if (count && fwrite(bytes, 1, count, writer->file) != count)
		return -EIO;
	writer->bytes += count;
	return 0;
}

static int put_packed(struct writer *writer, const void *bytes, size_t count, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {bytes, count, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {writer->buffer, writer->room, 0};

		left = ZSTD_compressStream2(writer->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return -ENOMEM;
		if (put_plain(writer, out.dst, out.pos))
			return -EIO;
	} while (in.pos < in.size || (end == ZSTD_e_end && left));
	return 0;
}

static int put_image(struct writer *writer, const struct cm_image *image,
		     const struct cm_header *header)
{
	uint32_t t;
	int err;

	err = put_packed(writer, header, sizeof(*header), ZSTD_e_continue);
	for (t = 0; t < CM_TABLE_COUNT && !err; t++) {
		const struct cm_table_row *row = &header->table[t];
		const void *rows = t == CM_TABLE_SAVED ? &image->saved : image->table[t].rows;

		if (row->rows)
			err = put_packed(writer, rows, (size_t)row->rows * row->stride,
					 ZSTD_e_continue);
	}
	return err ? err : put_packed(writer, NULL, 0, ZSTD_e_end);
}

/* Writes the header again, with the length of the file. */
static int put_length(struct writer *writer, struct cm_saved_header *top)
{
	top->file_bytes = writer->bytes;
	if (fseek(writer->file, 0, SEEK_SET) || fwrite(top, sizeof(*top), 1, writer->file) != 1)
		return -EIO;
	return 0;
}

int cm_saved_write(const struct cm_image *image, FILE *file, bool own, int64_t *ret_bytes)
{
	struct cm_saved_header top = {
		.magic = CM_SAVED_MAGIC, .version = CM_SAVED_VERSION, .header_bytes = sizeof(top)};
	struct writer writer = {.file = file, .room = ZSTD_CStreamOutSize()};
	struct cm_header *header;
	int err = -ENOMEM;

	header = aligned_alloc(_Alignof(struct cm_header), sizeof(*header));
	writer.zstd = ZSTD_createCCtx();
	writer.buffer = malloc(writer.room);
	if (!header || !writer.zstd || !writer.buffer)
		goto out;
	plan(image, header);
	top.image_bytes = header->file_bytes;
	(void)ZSTD_CCtx_setParameter(writer.zstd, ZSTD_c_compressionLevel, LEVEL);
	(void)ZSTD_CCtx_setParameter(writer.zstd, ZSTD_c_windowLog, WINDOW_LOG);
	(void)ZSTD_CCtx_setParameter(writer.zstd, ZSTD_c_hashLog, HASH_LOG);
	(void)ZSTD_CCtx_setParameter(writer.zstd, ZSTD_c_checksumFlag, 1);
	(void)ZSTD_CCtx_setPledgedSrcSize(writer.zstd, header->file_bytes);
	err = put_plain(&writer, &top, sizeof(top));
	if (!err)
		err = put_image(&writer, image, header);
	if (!err && own)
		err = put_length(&writer, &top);
	if (!err)
		*ret_bytes = (int64_t)writer.bytes;
out:
	free(writer.buffer);
	(void)ZSTD_freeCCtx(writer.zstd);
	free(header);
	return err;
}

/* Decompresses the rest of `from` to `to`; it must be complete and have `bytes` bytes. */
static int unpack(int from, int to, uint64_t bytes, char *why)
{
	const size_t in_room = ZSTD_DStreamInSize(), out_room = ZSTD_DStreamOutSize();
	char *in_buffer = malloc(in_room), *out_buffer = malloc(out_room);
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	ZSTD_inBuffer in = {in_buffer, 0, 0};
	size_t more = 1;
	ssize_t n;
	int err = 0;

	if (!in_buffer || !out_buffer || !zstd)
		err = cm_explain(why, -ENOMEM, "not enough memory on the host");
	while (more && !err) {
		ZSTD_outBuffer out = {out_buffer, out_room, 0};

		if (in.pos == in.size) {
			n = read(from, in_buffer, in_room);
			if (n <= 0) {
				err = cm_explain(why, -EBADMSG,
						 n < 0 ? "it cannot be read" : "cut short");
				break;
			}
			in.size = (size_t)n;
			in.pos = 0;
		}
		more = ZSTD_decompressStream(zstd, &out, &in);
		if (ZSTD_isError(more) || out.pos > bytes)
			err = cm_explain(why, -EBADMSG, "damaged: its checksum does not match");
		else if (write(to, out_buffer, out.pos) != (ssize_t)out.pos)
			err = cm_explain(why, -ENOMEM, "not enough memory on the host");
		bytes -= out.pos;
	}
	if (!err && (bytes || in.pos < in.size))
		err = cm_explain(why, -EBADMSG, "damaged: its length is wrong");
	(void)ZSTD_freeDCtx(zstd);
	free(out_buffer);
	free(in_buffer);
	return err;
}
#else
int cm_saved_write(const struct cm_image *image, FILE *file, bool own, int64_t *ret_bytes)
{
	(void)image;
	(void)file;
	(void)own;
	(void)ret_bytes;
	return -ENOSYS;
}

static int unpack(int from, int to, uint64_t bytes, char *why)
{
	(void)from;
	(void)to;
	(void)bytes;
	return cm_explain(why, -ENOSYS,
			  "a saved snapshot, which this build cannot read: it was built without "
			  "zstd");
}
#endif

/* The size of an image whose tables are as long as the reader accepts. */
static uint64_t image_bytes_max(void)
{
	uint64_t bytes = sizeof(struct cm_header);
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++)
		bytes += (uint64_t)cm_reader_rows_max((enum cm_table)t) *
			 cm_image_row_bytes((enum cm_table)t);
	return bytes;
}

static uint64_t memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int check(const struct cm_saved_header *top, uint64_t bytes, char *why)
{
	if (top->version != CM_SAVED_VERSION)
		return cm_explain(why, -EPROTONOSUPPORT,
				  "a snapshot of format version %u; this build reads version %d",
				  top->version, CM_SAVED_VERSION);
	if (top->header_bytes != sizeof(*top))
		return cm_explain(why, -EBADMSG, "damaged: its header claims %u bytes",
				  top->header_bytes);
	if (top->file_bytes > bytes)
		return cm_explain(why, -EBADMSG, "cut short: %llu of %llu bytes",
				  (unsigned long long)bytes, (unsigned long long)top->file_bytes);
	if (top->image_bytes > image_bytes_max() || top->image_bytes / SHRINKS_MOST > bytes)
		return cm_explain(why, -EBADMSG, "damaged: it claims to hold %llu bytes",
				  (unsigned long long)top->image_bytes);
	/* Refuse it before the kernel kills a process for lack of memory. */
	if (top->image_bytes > memory_bytes())
		return cm_explain(why, -ENOMEM,
				  "it holds %llu bytes, more than this machine has memory",
				  (unsigned long long)top->image_bytes);
	return 0;
}

static int open_saved(int fd, const struct cm_saved_header *top, uint64_t bytes,
		      struct cm_reader **ret_reader, char *why)
{
	int to, err;

	err = check(top, bytes, why);
	if (err)
		return err;
	to = memfd_create("cudamem-snapshot", MFD_CLOEXEC);
	if (to < 0)
		return cm_explain(why, -errno, "%s", strerror(errno));
	if (lseek(fd, sizeof(*top), SEEK_SET) < 0)
		err = -errno;
	if (!err)
		err = unpack(fd, to, top->image_bytes, why);
	if (err) {
		(void)close(to);
		return err;
	}
	return cm_reader_open_fd(to, ret_reader, why);
}

static bool is_saved(int fd, struct cm_saved_header *top)
{
	return pread(fd, top, sizeof(*top), 0) == sizeof(*top) &&
	       !memcmp(top->magic, CM_SAVED_MAGIC, sizeof(top->magic));
}

static bool is_recording(int fd)
{
	char magic[sizeof(((struct cm_saved_header *)0)->magic)];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, CM_RECORDING_MAGIC, sizeof(magic));
}

int cm_saved_open_fd(int fd, struct cm_reader **ret_reader, char *why)
{
	struct cm_saved_header top;
	struct stat st;
	int err;

	if (is_recording(fd)) {
		(void)close(fd);
		return cm_explain(why, -EBADMSG,
				  "a recording; ls, stat and top show it with --from, and plot "
				  "draws it");
	}
	if (!is_saved(fd, &top) || fstat(fd, &st))
		return cm_reader_open_fd(fd, ret_reader, why);
	err = open_saved(fd, &top, (uint64_t)st.st_size, ret_reader, why);
	if (!err)
		(*ret_reader)->owner = st.st_uid; /* not of the copy, which is ours */
	(void)close(fd);
	return err;
}

int cm_saved_open(const char *path, struct cm_reader **ret_reader, char *why)
{
	struct cm_saved_header top;
	int fd;

	fd = cm_regular_file_open(AT_FDCWD, path, 0);
	if (fd >= 0 && (is_saved(fd, &top) || is_recording(fd)))
		return cm_saved_open_fd(fd, ret_reader, why);
	if (fd >= 0)
		(void)close(fd);
	/* The reader explains why a file is not a region. */
	return cm_reader_open(path, ret_reader, why);
}
