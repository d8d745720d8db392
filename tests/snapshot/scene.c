/* SPDX-License-Identifier: MIT */
#include "tests/snapshot/scene.h"

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/counters.h"

#define FRAMES    32
#define FAKE_TIME 4242
#define FAKE_PID  5000100
#define THREAD    77
#define TICKS_US  1000

struct scene scene;

void fail(const char *what)
{
	(void)fprintf(stderr, "maker: %s: %s\n", what, strerror(errno));
	exit(1);
}

void *row_at(enum cm_table table, uint32_t index)
{
	if (cm_region_commit(scene.region, table, index + 1))
		fail("no space");
	return cm_region_row(scene.region, table, index);
}

uint32_t add_text(const char *text)
{
	const uint32_t bytes = (uint32_t)strlen(text) + 1, id = scene.texts;

	(void)row_at(CM_TABLE_TEXT, scene.texts + bytes);
	memcpy(cm_region_row(scene.region, CM_TABLE_TEXT, id), text, bytes);
	scene.texts += bytes;
	scene.region->header->record.text_bytes = scene.texts;
	return id;
}

__attribute__((noinline)) uint32_t capture(void)
{
	static uint32_t python;
	void *address[FRAMES];
	uint64_t words[FRAMES + 3];
	uint32_t id = scene.words, n = 1;
	int count, i;

	if (scene.plain)
		return scene.stack;
	if (!python)
		python = add_text("train_step\ntrain.py");
	count = backtrace(address, FRAMES);
	for (i = 1; i < count; i++)
		words[n++] = (uint64_t)(uintptr_t)address[i];
	words[n++] = cm_frame_python(31, python);
	words[0] = cm_stack_word(n - 1, 0, 0);
	/* Each once: the last ones are looked through. */
	for (i = 1; i < (int)scene.words;) {
		const uint64_t *old = cm_region_row(scene.region, CM_TABLE_STACK, (uint32_t)i);

		if (cm_stack_frames(old[0]) == n - 1 && !memcmp(old, words, n * sizeof(words[0])))
			return (uint32_t)i;
		i += 1 + (int)cm_stack_frames(old[0]);
	}
	(void)row_at(CM_TABLE_STACK, id + n);
	memcpy(cm_region_row(scene.region, CM_TABLE_STACK, id), words, n * sizeof(words[0]));
	scene.words += n;
	scene.region->header->record.stack_words = scene.words;
	scene.region->header->record.stack_count++;
	return id;
}

struct cm_device_row *device_row(uint32_t device)
{
	return cm_region_row(scene.region, CM_TABLE_DEVICE, device);
}

void note(const struct place *place, enum cm_action action, uint64_t addr, uint64_t size,
	  uint32_t stack)
{
	const bool host = place->device == CM_DEVICE_NONE;
	const enum cm_table table = host ? CM_TABLE_HOST_EVENT : CM_TABLE_EVENT;
	const uint32_t ring = scene.region->header->table[table].ring;
	uint64_t *next = host ? &scene.region->header->host.event_next
			      : &device_row(place->device)->event_next;
	const uint32_t first = host ? 0 : place->device * ring;
	struct cm_event *event;

	(void)row_at(table, first + ring - 1);
	event = cm_region_row(scene.region, table, first + (uint32_t)((*next)++ & (ring - 1)));
	*event = (struct cm_event){
		.number = *next,
		.tick = scene.tick += 10 * TICKS_US,
		.addr = addr,
		.size = size,
		.thread = THREAD,
		.stack = stack,
		.action = (uint8_t)action,
		.heap = (uint16_t)scene.heap,
		.pool = action < CM_ACTION_OUTSIDE_ALLOC ? CM_POOL_LARGE : CM_UNCACHED_ASYNC,
		.annotation = scene.annotation,
	};
}

void open_place(struct place *place, uint32_t device, uint64_t addr, uint64_t size, uint32_t flags)
{
	struct cm_segment *segment;

	place->device = device;
	place->segment = ++scene.segments;
	place->next = addr;
	place->end = addr + size;
	place->last = 0;
	segment = row_at(CM_TABLE_SEGMENT, place->segment);
	*segment = (struct cm_segment){.addr = addr,
				       .size = size,
				       .device = device,
				       .heap = scene.heap,
				       .flags = CM_SEGMENT_USED | flags,
				       .stack = capture()};
	note(place, CM_ACTION_SEGMENT_ALLOC, addr, size, segment->stack);
	if (device == CM_DEVICE_NONE) {
		cm_stat4_raise(&scene.region->header->host.segment, 1);
		cm_stat4_raise(&scene.region->header->host.reserved_bytes, (int64_t)size);
		return;
	}
	cm_counters_raise(device_row(device), CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
	cm_counters_raise(device_row(device), CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, (int64_t)size);
}

struct cm_block *append(struct place *place, uint64_t size)
{
	struct cm_segment *segment = cm_region_row(scene.region, CM_TABLE_SEGMENT, place->segment);
	struct cm_block *block = row_at(CM_TABLE_BLOCK, ++scene.blocks);

	*block = (struct cm_block){
		.addr = place->next, .size = size, .prev = place->last, .segment = place->segment};
	if (place->last)
		((struct cm_block *)cm_region_row(scene.region, CM_TABLE_BLOCK, place->last))
			->next = scene.blocks;
	else
		segment->first = scene.blocks;
	segment->blocks++;
	place->last = scene.blocks;
	place->next += size;
	return block;
}

static void book_host(int64_t size)
{
	struct cm_host_row *host = &scene.region->header->host;

	cm_stat4_raise(&host->allocated, 1);
	cm_stat4_raise(&host->allocated_bytes, size);
	cm_stat4_raise(&host->active, 1);
	cm_stat4_raise(&host->active_bytes, size);
}

__attribute__((noinline)) struct cm_block *cuda_get(struct place *place, uint64_t requested)
{
	const uint64_t size = (requested + 511) & ~UINT64_C(511);
	struct cm_block *block;

	if (size > place->end - place->next)
		fail("the segment is full");
	block = append(place, size);
	block->requested = requested;
	block->state = CM_BLOCK_LIVE;
	block->stack = capture();
	note(place, CM_ACTION_ALLOC, block->addr, requested, block->stack);
	block->tick = scene.tick;
	if (place->device == CM_DEVICE_NONE)
		book_host((int64_t)size);
	else
		cm_counters_alloc(device_row(place->device), CM_POOL_LARGE, (int64_t)size,
				  (int64_t)requested);
	return block;
}

void put(struct place *place, struct cm_block *block, bool ready)
{
	const uint64_t requested = block->requested;

	note(place, CM_ACTION_FREE_REQUESTED, block->addr, requested, block->stack);
	cm_counters_free(device_row(place->device), CM_POOL_LARGE, (int64_t)block->size);
	block->state = CM_BLOCK_PENDING;
	if (!ready)
		return;
	note(place, CM_ACTION_FREE_COMPLETED, block->addr, requested, block->stack);
	cm_counters_ready(device_row(place->device), CM_POOL_LARGE, 1, (int64_t)block->size,
			  (int64_t)requested);
	block->state = CM_BLOCK_FREE;
	block->requested = 0;
	block->stack = 0;
}

void close_place(struct place *place)
{
	if (place->next < place->end)
		append(place, place->end - place->next)->state = CM_BLOCK_FREE;
}

static void add_device(uint32_t device, const char *name)
{
	struct cm_device_row *row = row_at(CM_TABLE_DEVICE, device);

	row->flags = CM_DEVICE_USED;
	row->ordinal = (int32_t)device;
	row->heaps = 1;
	row->uuid[0] = (uint8_t)(device + 1);
	row->total_bytes = 80 * GIB;
	row->max_split_size = -1;
	(void)snprintf(row->name, sizeof(row->name), "%s", name);
}

/* Contexts of the first device, of the second, and of the first again. */
static void add_heaps(void)
{
	static const uint32_t devices[] = {0, 1, 0};
	uint32_t i;

	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		*(struct cm_heap_row *)row_at(CM_TABLE_HEAP, i) = (struct cm_heap_row){
			.context = 0x1000 + i, .device = devices[i], .flags = CM_HEAP_USED};
}

void begin(const struct cm_region_params *params)
{
	if (cm_region_create(params, &scene.region) || !scene.region->path[0])
		fail(params->dir);
	scene.texts = 1;
	scene.words = 1;
	scene.region->header->record = (struct cm_record){
		.events = 1, .context = CM_CONTEXT_ALL, .depth = FRAMES, .max_entries = UINT64_MAX};
	add_device(0, "Test Device 80G");
	add_device(1, "Test Device 80G");
	add_heaps();
}

/* The build-id of an object's notes, if it has one. */
static void set_build_id(struct cm_module *module, const struct dl_phdr_info *info)
{
	const ElfW(Nhdr) * head;
	const char *at, *end;
	size_t i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_NOTE)
			continue;
		at = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		end = at + info->dlpi_phdr[i].p_memsz;
		while (at + sizeof(*head) <= end) {
			head = (const void *)at;
			at += sizeof(*head) + ((head->n_namesz + 3) & ~3u);
			if (head->n_type == NT_GNU_BUILD_ID && head->n_descsz <= 20) {
				memcpy(module->build_id, at, head->n_descsz);
				module->build_id_bytes = head->n_descsz;
			}
			at += (head->n_descsz + 3) & ~3u;
		}
	}
}

static int add_module(struct dl_phdr_info *info, size_t bytes, void *data)
{
	uint32_t *count = data;
	struct cm_module *module;
	char path[4096] = "";
	uint64_t start = UINT64_MAX, end = 0, from;
	ssize_t n;
	size_t i;

	(void)bytes;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		start = from < start ? from : start;
		end = from + info->dlpi_phdr[i].p_memsz > end ? from + info->dlpi_phdr[i].p_memsz
							      : end;
	}
	if (*info->dlpi_name) {
		(void)snprintf(path, sizeof(path), "%s", info->dlpi_name);
	} else {
		n = readlink("/proc/self/exe", path, sizeof(path) - 1);
		path[n > 0 ? n : 0] = '\0';
	}
	module = row_at(CM_TABLE_MODULE, (*count)++);
	*module = (struct cm_module){.start = start,
				     .end = end,
				     .bias = info->dlpi_addr,
				     .path = add_text(path),
				     .last = UINT32_MAX};
	set_build_id(module, info);
	return 0;
}

void add_modules(void)
{
	uint32_t modules = 0;

	(void)dl_iterate_phdr(add_module, &modules);
}

void finish(const char *dir)
{
	struct cm_header *header = scene.region->header;
	char path[sizeof(scene.region->path)] = "";

	header->pid = FAKE_PID;
	header->start_time = FAKE_TIME;
	header->state = CM_REGION_LIVE;
	header->tick_base = 0;
	header->time_base_ns = UINT64_C(1700000000) * 1000000000;
	header->tick_last = UINT64_C(10000000) * TICKS_US;
	header->time_last_ns = header->time_base_ns + UINT64_C(10000000) * 1000;
	(void)snprintf(header->comm, sizeof(header->comm), "solver");
	(void)snprintf(header->cmdline, sizeof(header->cmdline), "./solver --grid 2048");
	(void)snprintf(path, sizeof(path), "%s/" CM_REGION_PREFIX "%u.%d.%d", dir,
		       (unsigned)geteuid(), FAKE_PID, FAKE_TIME);
	if (rename(scene.region->path, path))
		fail(path);
	(void)puts(path);
	cm_region_abandon(scene.region);
}
