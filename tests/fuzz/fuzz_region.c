/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a region: the reader refuses them or reads them, in bounded time and without harm.
 *
 * A region has large holes, and a fuzzer wants small inputs: the input is a list of patches on a
 * small healthy region, each of two bytes of place, one of length and the bytes themselves. The
 * last byte says how much of the file is left.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats/mail_client.h"
#include "stats/memory_stats.h"
#include "stats/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

#define PAGE       4096
#define ROWS       8
#define FILE_BYTES (sizeof(struct cm_header) + (CM_TABLE_COUNT + 1) * (size_t)PAGE)

/* A process that would answer no letter must not be waited for. */
#define NOT_AT_ALL 1

static void plan_tables(struct cm_header *header)
{
	static const uint32_t strides[CM_TABLE_COUNT] = {
		[CM_TABLE_OPTION] = sizeof(struct cm_option_row),
		[CM_TABLE_DEVICE] = PAGE,
		[CM_TABLE_HEAP] = sizeof(struct cm_heap_row),
		[CM_TABLE_SEGMENT] = sizeof(struct cm_segment),
		[CM_TABLE_BLOCK] = sizeof(struct cm_block),
		[CM_TABLE_MODULE] = sizeof(struct cm_module),
		[CM_TABLE_STACK] = sizeof(uint64_t),
		[CM_TABLE_EVENT] = sizeof(struct cm_event),
		[CM_TABLE_HOST_EVENT] = sizeof(struct cm_event),
		[CM_TABLE_TEXT] = 1,
		[CM_TABLE_SAVED] = sizeof(struct cm_saved),
		[CM_TABLE_SITE] = sizeof(struct cm_site),
		[CM_TABLE_FRAME] = sizeof(struct cm_frame),
		[CM_TABLE_NAME] = 1,
	};
	uint64_t offset = sizeof(*header);
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *table = &header->table[t];

		table->offset = offset;
		table->stride = strides[t];
		table->capacity = PAGE / strides[t] < ROWS ? PAGE / strides[t] : ROWS;
		table->rows = table->capacity;
		offset += PAGE;
	}
	header->file_bytes = offset;
}

static void make_healthy(uint8_t *file)
{
	struct cm_header *header = (void *)file;
	struct cm_device_row *device;
	struct cm_segment *segment;
	struct cm_block *block;

	header->magic = CM_LAYOUT_MAGIC;
	header->major = CM_LAYOUT_MAJOR;
	header->header_bytes = sizeof(*header);
	header->flags = CM_REGION_CONTROL;
	header->state = CM_REGION_LIVE;
	header->pid = (uint32_t)getpid();
	plan_tables(header);
	device = (void *)(file + header->table[CM_TABLE_DEVICE].offset);
	device->flags = CM_DEVICE_USED;
	segment = (struct cm_segment *)(void *)(file + header->table[CM_TABLE_SEGMENT].offset) + 1;
	*segment = (struct cm_segment){
		.addr = 0x1000, .size = 1536, .first = 1, .blocks = 2, .flags = CM_SEGMENT_USED};
	block = (struct cm_block *)(void *)(file + header->table[CM_TABLE_BLOCK].offset) + 1;
	block[0] = (struct cm_block){
		.addr = 0x1000, .size = 512, .next = 2, .segment = 1, .state = CM_BLOCK_LIVE};
	block[1] = (struct cm_block){
		.addr = 0x1200, .size = 1024, .segment = 1, .state = CM_BLOCK_FREE};
}

static size_t patch(uint8_t *file, const uint8_t *data, size_t bytes)
{
	size_t at, length;

	while (bytes > 3) {
		at = (data[0] | (size_t)data[1] << 8) % FILE_BYTES;
		length = data[2];
		data += 3;
		bytes -= 3;
		if (length > bytes)
			length = bytes;
		if (length > FILE_BYTES - at)
			length = FILE_BYTES - at;
		memcpy(file + at, data, length);
		data += length;
		bytes -= length;
	}
	return bytes ? FILE_BYTES * (data[0] + (size_t)1) / 256 : FILE_BYTES;
}

static void count_key(void *data, const char *key, int64_t value)
{
	(void)value;
	*(size_t *)data += strlen(key);
}

static void count_block(void *data, const struct cm_block *block)
{
	MUST(block->size);
	++*(size_t *)data;
}

static void read_books(struct cm_reader *reader)
{
	struct cm_device_row device;
	struct cm_host_row host;
	size_t letters = 0;
	int64_t outside;
	uint32_t i;
	bool torn;

	for (i = 0; i < ROWS; i++) {
		if (cm_reader_read_device(reader, i, &device, &torn))
			continue;
		MUST(memchr(device.name, 0, sizeof(device.name)));
		cm_memory_stats_each(&device, count_key, &letters);
		(void)cm_summary_pool(&device, CM_POOL_ALL);
		(void)cm_summary_other(&device);
		(void)cm_summary_outside(&device, &outside);
		(void)cm_hit_rate(device.scalar[CM_SCALAR_cache_hits],
				  device.scalar[CM_SCALAR_cache_misses]);
	}
	if (!cm_reader_read_host(reader, &host, &torn))
		cm_host_memory_stats_each(&host, count_key, &letters);
}

static void read_tables(struct cm_reader *reader)
{
	struct cm_option_row option;
	struct cm_segment segment;
	struct cm_survey *survey;
	size_t blocks;
	uint32_t i;

	for (i = 0; i < ROWS; i++) {
		if (!cm_reader_read_option(reader, i, &option))
			MUST(memchr(option.help, 0, sizeof(option.help)));
		blocks = 0;
		if (!cm_reader_read(reader, CM_TABLE_SEGMENT, i, 1, &segment, sizeof(segment)))
			(void)cm_segment_walk(reader, &segment, count_block, &blocks);
		MUST(blocks <= segment.blocks || !blocks);
	}
	if (!cm_survey_create(reader, &survey))
		cm_survey_destroy(survey);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cm_letter letter = {.command = CM_COMMAND_CHECKPOINT};
	uint8_t *file = aligned_alloc(PAGE, FILE_BYTES);
	char why[CM_READER_WHY_BYTES] = "";
	struct cm_reader *reader;
	size_t length;
	int fd;

	MUST(file);
	memset(file, 0, FILE_BYTES);
	make_healthy(file);
	length = patch(file, data, bytes);
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	MUST(fd >= 0 && write(fd, file, length) == (ssize_t)length);
	free(file);
	if (cm_reader_open_fd(fd, &reader, why)) {
		MUST(*why);
		return 0;
	}
	read_books(reader);
	read_tables(reader);
	(void)cm_reader_refresh(reader);
	(void)cm_reader_life(reader);
	(void)cm_mail_send(reader, &letter, NOT_AT_ALL);
	cm_reader_close(reader);
	return 0;
}
