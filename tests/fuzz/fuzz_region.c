/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a region: the reader refuses them or reads them, in bounded time and without harm.
 *
 * A region has large holes, and a fuzzer wants small inputs: the input is a list of patches on a
 * small healthy region (patch.h). The last byte says how much of the file is left.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "stats/memory_stats.h"
#include "stats/summary.h"
#include "tests/fuzz/patch.h"
#include "tools/snapshot/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

#define PAGE       4096
#define ROWS       8
#define FILE_BYTES (sizeof(struct cm_header) + (CM_TABLE_COUNT + 1) * (size_t)PAGE)

/* Never wait for the answer of a process that does not exist. */
#define NOT_AT_ALL 1

static void plan_tables(struct cm_header *header)
{
	uint64_t offset = sizeof(*header);
	size_t stride;
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *table = &header->table[t];

		table->offset = offset;
		/* A reader takes a row that is longer than it knows. */
		stride = t == CM_TABLE_DEVICE ? PAGE : cm_image_row_bytes((enum cm_table)t);
		table->stride = (uint32_t)stride;
		table->capacity = (uint32_t)(PAGE / stride < ROWS ? PAGE / stride : ROWS);
		table->rows = table->capacity;
		offset += PAGE;
	}
	/* A second shard, in place of the heaps, which nothing here reads. */
	header->table[CM_TABLE_DEVICE].capacity = header->table[CM_TABLE_DEVICE].rows = 2;
	header->table[CM_TABLE_HEAP].offset = offset;
	header->file_bytes = offset + PAGE;
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
	device = (void *)((uint8_t *)device + PAGE);
	device->flags = CM_DEVICE_USED;
	device->first_shard = 1;
	segment = (struct cm_segment *)(void *)(file + header->table[CM_TABLE_SEGMENT].offset) + 1;
	*segment = (struct cm_segment){
		.addr = 0x1000, .size = 1536, .first = 1, .blocks = 2, .flags = CM_SEGMENT_USED};
	block = (struct cm_block *)(void *)(file + header->table[CM_TABLE_BLOCK].offset) + 1;
	block[0] = (struct cm_block){
		.addr = 0x1000, .size = 512, .next = 2, .segment = 1, .state = CM_BLOCK_LIVE};
	block[1] = (struct cm_block){
		.addr = 0x1200, .size = 1024, .segment = 1, .state = CM_BLOCK_FREE};
}

/* How much of the file is left: the last byte says it, where it is no part of a patch. */
static size_t patch(uint8_t *file, const uint8_t *data, size_t bytes)
{
	const size_t left = fuzz_patch(file, FILE_BYTES, data, bytes);

	return left ? FILE_BYTES * (data[bytes - left] + (size_t)1) / 256 : FILE_BYTES;
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

static void read_counters(struct cm_reader *reader)
{
	struct cm_device_row device;
	struct cm_host_row host;
	size_t keys = 0;
	int64_t outside;
	uint32_t i;
	bool torn;

	for (i = 0; i < ROWS; i++) {
		if (cm_reader_read_device(reader, i, &device, &torn))
			continue;
		MUST(memchr(device.name, 0, sizeof(device.name)));
		cm_memory_stats_each(&device, count_key, &keys);
		(void)cm_summary_pool(&device, CM_POOL_ALL);
		(void)cm_summary_other(&device);
		(void)cm_summary_outside(&device, &outside);
		(void)cm_hit_rate(device.scalar[CM_SCALAR_cache_hits],
				  device.scalar[CM_SCALAR_cache_misses]);
	}
	if (!cm_reader_read_host(reader, &host, &torn))
		cm_host_memory_stats_each(&host, count_key, &keys);
}

static void read_shards(struct cm_reader *reader)
{
	struct cm_shard_map map;
	uint32_t i, first;

	if (cm_reader_read_shards(reader, &map))
		return;
	for (i = 0; i < CM_DEVICES_MAX; i++) {
		first = cm_shard_map_device(&map, i);
		MUST(first <= i || first == CM_DEVICES_MAX);
		MUST(first == CM_DEVICES_MAX || cm_shard_map_device(&map, first) == first);
	}
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
	struct cm_command command = {.code = CM_COMMAND_CHECKPOINT};
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
	read_counters(reader);
	read_shards(reader);
	read_tables(reader);
	(void)cm_reader_refresh(reader);
	(void)cm_reader_life(reader);
	(void)cm_client_send(reader, &command, NOT_AT_ALL);
	cm_reader_close(reader);
	return 0;
}
