/* SPDX-License-Identifier: MIT */
/*
 * Makes regions as a hostile process could, whose library is whatever it likes:
 *
 *   forge as DIR PID START           under another process's number, kept locked until input ends
 *   forge own DIR                    under its own number, as a library does, until input ends
 *   forge says DIR TEXT              TEXT is its command line
 *   forge sparse DIR                 claims 2^26 blocks, of which none is backed
 *   forge reloads DIR GENERATIONS STABLE RELOADED
 *                                    stacks in two objects, one of them loaded anew each time
 *   forge names DIR PATH             one stack, in an object of this name
 *
 * Prints the path of the region.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/region.h"

#define FAKE_PID    5000200
#define FAKE_TIME   4242
#define MANY        (UINT32_C(1) << 26)
#define STABLE_AT   UINT64_C(0x7f0000000000)
#define RELOADED_AT UINT64_C(0x7f8000000000)
#define LENGTH      UINT64_C(0x200000)
#define FRAMES      20
#define MODULES_MAX 4096

static struct cm_region *region;

static void fail(const char *what)
{
	(void)fprintf(stderr, "forge: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *row_at(enum cm_table table, uint32_t index)
{
	if (cm_region_commit(region, table, index + 1))
		fail("no space");
	return cm_region_row(region, table, index);
}

static void set_name(const char *dir, const char *pid, const char *start)
{
	char path[sizeof(region->path)];

	region->header->pid = (uint32_t)strtoul(pid, NULL, 10);
	region->header->start_time = strtoull(start, NULL, 10);
	(void)snprintf(path, sizeof(path), "%s/" CM_REGION_PREFIX "%u.%s.%s", dir,
		       (unsigned)geteuid(), pid, start);
	if (rename(region->path, path))
		fail(path);
	(void)snprintf(region->path, sizeof(region->path), "%s", path);
}

static void claim_blocks(void)
{
	struct cm_header *header = region->header;
	struct cm_table_row *blocks = &header->table[CM_TABLE_BLOCK];

	blocks->offset = header->file_bytes;
	blocks->rows = blocks->capacity = MANY;
	header->file_bytes += (uint64_t)MANY * blocks->stride;
	if (chmod(region->path, 0600) || truncate(region->path, (off_t)header->file_bytes))
		fail("truncate");
}

static uint32_t add_text(const char *text)
{
	struct cm_record *record = &region->header->record;
	const uint32_t id = (uint32_t)record->text_bytes, bytes = (uint32_t)strlen(text) + 1;

	(void)row_at(CM_TABLE_TEXT, id + bytes);
	memcpy(cm_region_row(region, CM_TABLE_TEXT, id), text, bytes);
	record->text_bytes += bytes;
	return id;
}

static void add_module(uint32_t row, uint64_t start, uint32_t path, uint32_t first, uint32_t last)
{
	struct cm_module *module = row_at(CM_TABLE_MODULE, row);

	*module = (struct cm_module){.start = start,
				     .end = start + LENGTH,
				     .bias = start,
				     .path = path,
				     .first = first,
				     .last = last};
}

static uint32_t add_stack(uint32_t generation, uint64_t from, uint32_t frames)
{
	struct cm_record *record = &region->header->record;
	const uint32_t id = (uint32_t)record->stack_words;
	uint64_t *words;
	uint32_t i;

	(void)row_at(CM_TABLE_STACK, id + frames + 1);
	words = cm_region_row(region, CM_TABLE_STACK, id);
	words[0] = cm_stack_word(frames, 0, generation);
	for (i = 0; i < frames; i++)
		words[i + 1] = (i % 2 ? STABLE_AT : from) + 0x8000 + UINT64_C(64) * i;
	record->stack_words += frames + 1;
	record->stack_count++;
	return id;
}

static void begin_record(void)
{
	struct cm_device_row *device = row_at(CM_TABLE_DEVICE, 0);

	device->flags = CM_DEVICE_USED;
	(void)snprintf(device->name, sizeof(device->name), "Test Device");
	region->header->record = (struct cm_record){.context = CM_CONTEXT_ALL,
						    .depth = FRAMES,
						    .max_entries = UINT64_MAX,
						    .stack_words = 1,
						    .text_bytes = 1};
}

static void reload(uint32_t generations, const char *stable, const char *reloaded)
{
	const uint32_t stable_path = add_text(stable), path = add_text(reloaded);
	uint32_t i;

	add_module(0, STABLE_AT, stable_path, 0, UINT32_MAX);
	for (i = 0; i < generations; i++) {
		if (i + 1 < MODULES_MAX)
			add_module(i + 1, RELOADED_AT, path, i, i);
		(void)add_stack(i, RELOADED_AT, FRAMES);
	}
	region->header->record.generation = generations;
}

static void fill(const char *kind, char **words)
{
	struct cm_header *header = region->header;

	if (!strcmp(kind, "says"))
		(void)snprintf(header->cmdline, sizeof(header->cmdline), "%s", words[0]);
	if (!strcmp(kind, "reloads"))
		reload((uint32_t)strtoul(words[0], NULL, 10), words[1], words[2]);
	if (!strcmp(kind, "names")) {
		add_module(0, STABLE_AT, add_text(words[0]), 0, UINT32_MAX);
		(void)add_stack(0, STABLE_AT, 1);
	}
	if (!strcmp(kind, "sparse"))
		claim_blocks();
}

int main(int argc, char **argv)
{
	struct cm_region_params params = {.version = CM_VERSION, .events = 64};
	char pid[16], start[16];

	if (argc < 3)
		return 2;
	params.dir = argv[2];
	if (cm_region_create(&params, &region) || !region->path[0])
		fail(argv[2]);
	region->header->state = CM_REGION_LIVE;
	(void)snprintf(region->header->comm, sizeof(region->header->comm), "forged");
	(void)snprintf(pid, sizeof(pid), "%d", FAKE_PID);
	(void)snprintf(start, sizeof(start), "%d", FAKE_TIME);
	begin_record();
	(void)snprintf(region->header->cmdline, sizeof(region->header->cmdline), "%s",
		       strcmp(argv[1], "own") ? "forged" : "genuine");
	fill(argv[1], argv + 3);
	if (!strcmp(argv[1], "as") && argc > 4)
		set_name(params.dir, argv[3], argv[4]);
	else if (strcmp(argv[1], "own") != 0)
		set_name(params.dir, pid, start);
	(void)printf("%s\n", region->path);
	(void)fflush(stdout);
	if (!strcmp(argv[1], "as") || !strcmp(argv[1], "own"))
		(void)getchar();
	if (!strcmp(argv[1], "own"))
		cm_region_remove(region);
	cm_region_abandon(region);
	return 0;
}
