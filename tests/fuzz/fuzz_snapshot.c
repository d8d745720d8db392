/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a snapshot: it is refused, or read and written in every format, without harm.
 *
 * The first byte chooses what is written, and by its lowest bit what is read. 0: what follows is a
 * saved file. 1: it is a list of patches on a small healthy region with events, stacks and names
 * (patch.h). Symbols are not looked for: that would open files that the input names.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/patch.h"
#include "tools/export/export.h"
#include "tools/plot/plot.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/history.h"
#include "tools/snapshot/lines.h"
#include "tools/snapshot/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

#define ROWS        16
#define TABLE_BYTES 4096
#define FILE_BYTES  (sizeof(struct cm_header) + CM_TABLE_COUNT * (size_t)TABLE_BYTES)

/* Never wait for the answer of a process that does not exist. */
#define NOT_AT_ALL 1

static void *table_at(uint8_t *file, enum cm_table table)
{
	return file + sizeof(struct cm_header) + (size_t)table * TABLE_BYTES;
}

static void plan_tables(struct cm_header *header)
{
	uint32_t t;

	for (t = 0; t < CM_TABLE_COUNT; t++) {
		struct cm_table_row *table = &header->table[t];
		const uint32_t stride = (uint32_t)cm_image_row_bytes((enum cm_table)t);
		const uint32_t fit = TABLE_BYTES / stride;

		table->offset = sizeof(*header) + (uint64_t)t * TABLE_BYTES;
		table->stride = stride;
		table->capacity = fit < ROWS || stride == 1 ? fit : ROWS;
		table->rows = table->capacity;
	}
	/* Two shards of a device, each with a ring: they take the place of the heaps, which take
	 * that of a table that is empty. */
	header->table[CM_TABLE_SAVED].rows = 0;
	header->table[CM_TABLE_DEVICE].capacity = header->table[CM_TABLE_DEVICE].rows = 2;
	header->table[CM_TABLE_HEAP].offset = header->table[CM_TABLE_SAVED].offset;
	header->table[CM_TABLE_EVENT].capacity = header->table[CM_TABLE_EVENT].rows = 2 * ROWS;
	header->table[CM_TABLE_EVENT].ring = ROWS;
	header->table[CM_TABLE_HOST_EVENT].ring = ROWS;
	header->file_bytes = FILE_BYTES;
}

static void add_events(struct cm_event *event, uint64_t addr)
{
	static const uint8_t actions[] = {CM_ACTION_SEGMENT_ALLOC,  CM_ACTION_ALLOC,
					  CM_ACTION_ALLOC,          CM_ACTION_FREE_REQUESTED,
					  CM_ACTION_FREE_COMPLETED, CM_ACTION_OOM,
					  CM_ACTION_SEGMENT_MAP,    CM_ACTION_SEGMENT_UNMAP,
					  CM_ACTION_FREE_REQUESTED, CM_ACTION_FREES_COMPLETED};
	size_t i;

	for (i = 0; i < sizeof(actions); i++)
		event[i] = (struct cm_event){.number = i + 1,
					     .tick = 100 * i,
					     .addr = addr + (i == 2 ? 512 : 0),
					     .size = i ? 500 : 1536,
					     .stack = 1,
					     .annotation = 1,
					     .action = actions[i]};
}

static void add_memory(uint8_t *file)
{
	struct cm_segment *segment = (struct cm_segment *)table_at(file, CM_TABLE_SEGMENT) + 1;
	struct cm_block *block = (struct cm_block *)table_at(file, CM_TABLE_BLOCK) + 1;

	segment[0] = (struct cm_segment){
		.addr = 0x1000, .size = 1536, .first = 1, .blocks = 2, .flags = CM_SEGMENT_USED};
	segment[1] = (struct cm_segment){.addr = 0x9000,
					 .size = 512,
					 .first = 3,
					 .blocks = 1,
					 .device = CM_DEVICE_NONE,
					 .flags = CM_SEGMENT_USED | CM_SEGMENT_HOST};
	block[0] = (struct cm_block){.addr = 0x1000,
				     .size = 512,
				     .requested = 500,
				     .next = 2,
				     .segment = 1,
				     .stack = 1,
				     .state = CM_BLOCK_LIVE};
	block[1] = (struct cm_block){
		.addr = 0x1200, .size = 1024, .segment = 1, .prev = 1, .state = CM_BLOCK_FREE};
	block[2] = (struct cm_block){
		.addr = 0x9000, .size = 512, .segment = 2, .state = CM_BLOCK_PENDING};
}

static void add_names(uint8_t *file, struct cm_header *header)
{
	uint64_t *word = table_at(file, CM_TABLE_STACK);
	struct cm_module *module = table_at(file, CM_TABLE_MODULE);
	struct cm_site *site = table_at(file, CM_TABLE_SITE);
	struct cm_frame *frame = table_at(file, CM_TABLE_FRAME);

	memcpy((char *)table_at(file, CM_TABLE_TEXT) + 1, "step\nstep.py", 13);
	memcpy((char *)table_at(file, CM_TABLE_NAME) + 1, "work", 5);
	word[1] = cm_stack_word(3, 0, 0);
	word[2] = 0x2001;
	word[3] = 0x2101;
	word[4] = cm_frame_python(7, 1);
	header->record.stack_words = 5;
	header->record.max_entries = UINT64_MAX;
	module[0] = (struct cm_module){
		.start = 0x2000, .end = 0x3000, .bias = 0x2000, .path = 1, .last = UINT32_MAX};
	/* The last row: those before it are of address 0. */
	site[ROWS - 1] = (struct cm_site){.address = 0x2001, .count = 1};
	frame[0] = (struct cm_frame){.function = 1, .line = 3};
}

static void make_healthy(uint8_t *file)
{
	struct cm_header *header = (void *)file;
	struct cm_device_row *device = table_at(file, CM_TABLE_DEVICE);

	header->magic = CM_LAYOUT_MAGIC;
	header->major = CM_LAYOUT_MAJOR;
	header->header_bytes = sizeof(*header);
	header->state = CM_REGION_SAVED;
	header->tick_last = 1000;
	header->time_last_ns = 1000000000;
	plan_tables(header);
	device[0].flags = device[1].flags = CM_DEVICE_USED;
	device[0].event_next = device[1].event_next = 8;
	device[1].first_shard = 1;
	header->host.event_next = 8;
	add_memory(file);
	add_events(table_at(file, CM_TABLE_EVENT), 0x1000);
	add_events((struct cm_event *)table_at(file, CM_TABLE_EVENT) + ROWS, 0x5000);
	add_events(table_at(file, CM_TABLE_HOST_EVENT), 0x9000);
	add_names(file, header);
}

static int make_file(const uint8_t *data, size_t bytes)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);
	uint8_t *file;

	MUST(fd >= 0);
	if (bytes && data[0] % 2 == 0) {
		MUST(write(fd, data + 1, bytes - 1) == (ssize_t)bytes - 1);
		return fd;
	}
	file = aligned_alloc(4096, FILE_BYTES);
	MUST(file);
	memset(file, 0, FILE_BYTES);
	make_healthy(file);
	if (bytes)
		(void)fuzz_patch(file, FILE_BYTES, data + 1, bytes - 1);
	MUST(write(fd, file, FILE_BYTES) == (ssize_t)FILE_BYTES);
	free(file);
	return fd;
}

/* In one of the ways that there are: each is a search of its own. */
static void write_one(const struct cm_source *source, unsigned way)
{
	struct cm_plot_report report;
	char *text = NULL;
	size_t bytes = 0, formats = 0;
	int64_t written;
	FILE *file = open_memstream(&text, &bytes);

	MUST(file);
	while (cm_formats[formats].name)
		formats++;
	way %= (unsigned)formats + CM_PLOT_COUNT + 1;
	if (way < formats)
		(void)cm_formats[way].write(source, file);
	else if (way < formats + CM_PLOT_COUNT)
		(void)cm_plot_write(source, 1, (enum cm_plot)(way - formats), file, &report);
	else
		(void)cm_saved_write(source->image, file, true, &written);
	(void)fclose(file);
	free(text);
}

static void look_at_stack(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack)
{
	const struct cm_view line = {CM_BY_CALLER, CM_VIEW_DEPTH, false, CM_VIEW_ROWS};
	const struct cm_view full = {CM_BY_STACK, CM_VIEW_DEPTH, true, CM_VIEW_ROWS};
	char *text = cm_stack_spell(snapshot, stack, &line);

	MUST(text && *text);
	free(text);
	text = cm_stack_spell(snapshot, stack, &full);
	MUST(text && *text);
	free(text);
	MUST(*cm_stack_library(snapshot, stack));
}

static void look_at(const struct cm_snapshot *snapshot)
{
	struct cm_figures figures;
	size_t i;

	for (i = 0; i < snapshot->devices; i++) {
		cm_figures_get(snapshot, &snapshot->device[i], &figures);
		MUST(figures.pending + figures.fragmented + figures.releasable <= figures.reserved);
		MUST(*cm_device_title(&snapshot->device[i]).text);
	}
	for (i = 0; i < snapshot->stacks; i++)
		look_at_stack(snapshot, &snapshot->stack[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char why[CM_READER_WHY_BYTES] = "";
	struct cm_source source = {.comm = "fuzz", .command = "fuzz"};
	struct cm_reader *reader;

	if (cm_saved_open_fd(make_file(data, bytes), &reader, why)) {
		MUST(*why);
		return 0;
	}
	if (!cm_image_take(reader, NOT_AT_ALL, &source.image, why)) {
		MUST(!cm_snapshot_create(source.image, NULL, &source.snapshot));
		look_at(source.snapshot);
		write_one(&source, bytes ? data[0] / 2u : 0);
		cm_source_close(&source);
	} else {
		MUST(*why);
	}
	cm_reader_close(reader);
	return 0;
}
