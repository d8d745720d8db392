/* SPDX-License-Identifier: MIT */
/*
 * Makes a region whose every event, block and stack is known:
 *
 *   maker DIR [EVENTS BLOCKS [STACKS] | shards COUNT]
 *
 * A small solver is played on two devices and pinned memory: weights that stay, activations that
 * come and go, a buffer that is forgotten in each step, a request that fails. The stacks are this
 * program's own, with an inlined function and Python frames among them; its modules are in the map.
 * With EVENTS and BLOCKS the first device has so many, for measurements; with STACKS they come from
 * so many stacks, with sizes and lifetimes as those of a training. With "shards" the first device
 * has several segments, and COUNT shards, 1 or 2. Prints the path of the region.
 */
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/region.h"
#include "tests/split_device.h"

#define KIB       UINT64_C(1024)
#define MIB       (1024 * KIB)
#define GIB       (1024 * MIB)
#define STEPS     6
#define FRAMES    32
#define TICKS_US  1000
#define FAKE_TIME 4242
#define FAKE_PID  5000100
#define THREAD    77

struct place {
	uint32_t device;
	uint32_t segment;
	uint32_t last; /* its last block */
	uint64_t next; /* where the next block begins */
	uint64_t end;
};

static struct {
	struct cm_region *region;
	uint32_t segments;
	uint32_t blocks;
	uint64_t tick;
	uint32_t texts;
	uint32_t words;
	uint32_t annotation;
	uint32_t heap; /* of what comes next */
	struct place place[3];
	bool plain;     /* no stacks of this program */
	uint32_t stack; /* that is in their place */
} maker;

static void fail(const char *what)
{
	(void)fprintf(stderr, "maker: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *row_at(enum cm_table table, uint32_t index)
{
	if (cm_region_commit(maker.region, table, index + 1))
		fail("no space");
	return cm_region_row(maker.region, table, index);
}

static uint32_t add_text(const char *text)
{
	const uint32_t bytes = (uint32_t)strlen(text) + 1, id = maker.texts;

	(void)row_at(CM_TABLE_TEXT, maker.texts + bytes);
	memcpy(cm_region_row(maker.region, CM_TABLE_TEXT, id), text, bytes);
	maker.texts += bytes;
	maker.region->header->record.text_bytes = maker.texts;
	return id;
}

/* This program's stack from the caller's caller on, and two Python frames behind it. */
__attribute__((noinline)) static uint32_t capture(void)
{
	static uint32_t python;
	void *address[FRAMES];
	uint64_t words[FRAMES + 3];
	uint32_t id = maker.words, n = 1;
	int count, i;

	if (maker.plain)
		return maker.stack;
	if (!python)
		python = add_text("train_step\ntrain.py");
	count = backtrace(address, FRAMES);
	for (i = 1; i < count; i++)
		words[n++] = (uint64_t)(uintptr_t)address[i];
	words[n++] = cm_frame_python(31, python);
	words[0] = cm_stack_word(n - 1, 0, 0);
	/* Each once: the last ones are looked through. */
	for (i = 1; i < (int)maker.words;) {
		const uint64_t *old = cm_region_row(maker.region, CM_TABLE_STACK, (uint32_t)i);

		if (cm_stack_frames(old[0]) == n - 1 && !memcmp(old, words, n * sizeof(words[0])))
			return (uint32_t)i;
		i += 1 + (int)cm_stack_frames(old[0]);
	}
	(void)row_at(CM_TABLE_STACK, id + n);
	memcpy(cm_region_row(maker.region, CM_TABLE_STACK, id), words, n * sizeof(words[0]));
	maker.words += n;
	maker.region->header->record.stack_words = maker.words;
	maker.region->header->record.stack_count++;
	return id;
}

static struct cm_device_row *device_row(uint32_t device)
{
	return cm_region_row(maker.region, CM_TABLE_DEVICE, device);
}

static void note(const struct place *place, enum cm_action action, uint64_t addr, uint64_t size,
		 uint32_t stack)
{
	const bool host = place->device == CM_DEVICE_NONE;
	const enum cm_table table = host ? CM_TABLE_HOST_EVENT : CM_TABLE_EVENT;
	const uint32_t ring = maker.region->header->table[table].ring;
	uint64_t *next = host ? &maker.region->header->host.event_next
			      : &device_row(place->device)->event_next;
	const uint32_t first = host ? 0 : place->device * ring;
	struct cm_event *event;

	(void)row_at(table, first + ring - 1);
	event = cm_region_row(maker.region, table, first + (uint32_t)((*next)++ & (ring - 1)));
	*event = (struct cm_event){
		.number = *next,
		.tick = maker.tick += 10 * TICKS_US,
		.addr = addr,
		.size = size,
		.thread = THREAD,
		.stack = stack,
		.action = (uint8_t)action,
		.heap = (uint16_t)maker.heap,
		.pool = action < CM_ACTION_OUTSIDE_ALLOC ? CM_POOL_LARGE : CM_UNCACHED_ASYNC,
		.annotation = maker.annotation,
	};
}

static void open_place(struct place *place, uint32_t device, uint64_t addr, uint64_t size,
		       uint32_t flags)
{
	struct cm_segment *segment;

	place->device = device;
	place->segment = ++maker.segments;
	place->next = addr;
	place->end = addr + size;
	place->last = 0;
	segment = row_at(CM_TABLE_SEGMENT, place->segment);
	*segment = (struct cm_segment){.addr = addr,
				       .size = size,
				       .device = device,
				       .heap = maker.heap,
				       .flags = CM_SEGMENT_USED | flags,
				       .stack = capture()};
	note(place, CM_ACTION_SEGMENT_ALLOC, addr, size, segment->stack);
	if (device == CM_DEVICE_NONE) {
		cm_stat4_raise(&maker.region->header->host.segment, 1);
		cm_stat4_raise(&maker.region->header->host.reserved_bytes, (int64_t)size);
		return;
	}
	cm_counters_raise(device_row(device), CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
	cm_counters_raise(device_row(device), CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, (int64_t)size);
}

/* A block behind the last one of the place. */
static struct cm_block *append(struct place *place, uint64_t size)
{
	struct cm_segment *segment = cm_region_row(maker.region, CM_TABLE_SEGMENT, place->segment);
	struct cm_block *block = row_at(CM_TABLE_BLOCK, ++maker.blocks);

	*block = (struct cm_block){
		.addr = place->next, .size = size, .prev = place->last, .segment = place->segment};
	if (place->last)
		((struct cm_block *)cm_region_row(maker.region, CM_TABLE_BLOCK, place->last))
			->next = maker.blocks;
	else
		segment->first = maker.blocks;
	segment->blocks++;
	place->last = maker.blocks;
	place->next += size;
	return block;
}

static void book_host(int64_t size)
{
	struct cm_host_row *host = &maker.region->header->host;

	cm_stat4_raise(&host->allocated, 1);
	cm_stat4_raise(&host->allocated_bytes, size);
	cm_stat4_raise(&host->active, 1);
	cm_stat4_raise(&host->active_bytes, size);
}

__attribute__((noinline)) static struct cm_block *cuda_get(struct place *place, uint64_t requested)
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
	block->tick = maker.tick;
	if (place->device == CM_DEVICE_NONE)
		book_host((int64_t)size);
	else
		cm_counters_alloc(device_row(place->device), CM_POOL_LARGE, (int64_t)size,
				  (int64_t)requested);
	return block;
}

static void put(struct place *place, struct cm_block *block, bool ready)
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

/* What is left of a place is one free block. */
static void close_place(struct place *place)
{
	if (place->next < place->end)
		append(place, place->end - place->next)->state = CM_BLOCK_FREE;
}

/* In the optimized build it is there only in its caller. */
static inline __attribute__((always_inline)) struct cm_block *inlined_get(uint64_t bytes)
{
	return cuda_get(&maker.place[0], bytes);
}

__attribute__((noinline)) static void load_weights(void)
{
	int i;

	for (i = 0; i < 4; i++)
		(void)cuda_get(&maker.place[0], (8 + (uint64_t)i) * MIB);
}

__attribute__((noinline)) static void solver_step(int step)
{
	struct cm_block *activation, *scratch;

	maker.annotation = add_text(step % 2 ? "odd step" : "even step");
	activation = inlined_get((uint64_t)(step + 1) * MIB);
	scratch = cuda_get(&maker.place[0], 300 * KIB);
	put(&maker.place[0], scratch, true);
	put(&maker.place[0], activation, step < STEPS - 1);
	(void)cuda_get(&maker.place[0], 100000 + (uint64_t)step);
	maker.annotation = 0;
}

__attribute__((noinline)) static void fail_for_memory(void)
{
	note(&maker.place[0], CM_ACTION_OOM, 3 * GIB, 90 * GIB, capture());
	maker.heap = 1;
	note(&maker.place[1], CM_ACTION_OOM, CM_FREE_UNKNOWN, 91 * GIB, capture());
	cm_counters_count(device_row(0), CM_SCALAR_num_ooms, 1);
	cm_counters_count(device_row(1), CM_SCALAR_num_ooms, 1);
}

static void play(void)
{
	int step;

	open_place(&maker.place[0], 0, UINT64_C(0x7f0000000000), 128 * MIB, 0);
	maker.heap = 1;
	open_place(&maker.place[1], 1, UINT64_C(0x7f8000000000), 2 * MIB, CM_SEGMENT_SMALL);
	maker.heap = 0;
	open_place(&maker.place[2], CM_DEVICE_NONE, UINT64_C(0x7e0000000000), 4 * MIB,
		   CM_SEGMENT_HOST);
	load_weights();
	maker.heap = 1;
	(void)cuda_get(&maker.place[1], 1000);
	maker.heap = 0;
	(void)cuda_get(&maker.place[2], 4 * MIB);
	for (step = 0; step < STEPS; step++)
		solver_step(step);
	maker.heap = 2;
	fail_for_memory();
	maker.heap = 0;
}

__attribute__((noinline)) static void play_many(uint64_t events, uint64_t blocks)
{
	struct cm_block *block;
	uint64_t i;

	maker.plain = true;
	open_place(&maker.place[0], 0, UINT64_C(0x7f0000000000), 512 * GIB, 0);
	for (i = 0; i < blocks; i++)
		(void)cuda_get(&maker.place[0], 512 + i % 60000);
	block = cuda_get(&maker.place[0], MIB);
	for (i = blocks + 2; i + 3 <= events; i += 3) {
		note(&maker.place[0], CM_ACTION_FREE_REQUESTED, block->addr, MIB, 0);
		note(&maker.place[0], CM_ACTION_FREE_COMPLETED, block->addr, MIB, 0);
		note(&maker.place[0], CM_ACTION_ALLOC, block->addr, MIB, 0);
	}
}

static void change_outside(enum cm_action action, uint64_t addr, uint64_t size)
{
	struct cm_stat4 *bytes = &device_row(0)->other_bytes[CM_UNCACHED_ASYNC];
	struct cm_stat4 *count = &device_row(0)->other_count[CM_UNCACHED_ASYNC];

	note(&maker.place[0], action, addr, size, 0);
	if (action == CM_ACTION_OUTSIDE_ALLOC) {
		cm_stat4_raise(bytes, (int64_t)size);
		cm_stat4_raise(count, 1);
	} else {
		cm_stat4_lower(bytes, (int64_t)size);
		cm_stat4_lower(count, 1);
	}
}

/* Memory in the cache and outside, alternating. The first of that has no event. */
static void play_outside(void)
{
	const uint64_t addr = UINT64_C(0x7e0000000000);

	cm_stat4_raise(&device_row(0)->other_bytes[CM_UNCACHED_ASYNC], 5 * MIB);
	cm_stat4_raise(&device_row(0)->other_count[CM_UNCACHED_ASYNC], 1);
	open_place(&maker.place[0], 0, UINT64_C(0x7f0000000000), 64 * MIB, 0);
	(void)cuda_get(&maker.place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_ALLOC, addr, 16 * MIB);
	(void)cuda_get(&maker.place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_ALLOC, addr + GIB, 4 * MIB);
	(void)cuda_get(&maker.place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_FREE, addr, 16 * MIB);
	(void)cuda_get(&maker.place[0], 8 * MIB);
}

/* A stack of Python frames: layer<n> < forward < main. */
static uint32_t busy_stack(uint32_t n)
{
	char text[64];
	uint64_t *word;
	uint32_t id = maker.words, name, i;

	(void)row_at(CM_TABLE_STACK, id + 3);
	word = cm_region_row(maker.region, CM_TABLE_STACK, id);
	word[0] = cm_stack_word(3, 0, 0);
	for (i = 0; i < 3; i++) {
		if (i)
			(void)snprintf(text, sizeof(text), "%s\nmodel.py",
				       i == 1 ? "forward" : "main");
		else
			(void)snprintf(text, sizeof(text), "layer%u\nmodel.py", (unsigned)n);
		name = add_text(text);
		word = cm_region_row(maker.region, CM_TABLE_STACK, id);
		word[1 + i] = cm_frame_python(100 * i + n, name);
	}
	maker.words += 4;
	maker.region->header->record.stack_words = maker.words;
	maker.region->header->record.stack_count++;
	return id;
}

/* Two segments side by side, with everything that happens to one, and memory outside the cache. */
static void play_shards(void)
{
	const uint64_t outside = UINT64_C(0x7e0000000000);
	struct cm_block *block, *other;
	uint32_t i;

	maker.plain = true;
	maker.stack = busy_stack(1);
	open_place(&maker.place[0], 0, UINT64_C(0x7f0000000000), 64 * MIB, 0);
	maker.stack = busy_stack(2);
	maker.heap = 2;
	open_place(&maker.place[1], 0, UINT64_C(0x7f8000000000), 64 * MIB, 0);
	for (i = 0; i < 40; i++) {
		maker.stack = busy_stack(3 + i % 4);
		maker.annotation = add_text(i % 2 ? "odd step" : "even step");
		maker.heap = 0;
		block = cuda_get(&maker.place[0], (1 + i % 3) * 100 * KIB);
		maker.heap = 2;
		other = cuda_get(&maker.place[1], (1 + i % 5) * 200 * KIB);
		if (i % 4)
			put(&maker.place[1], other, i % 8 != 1);
		maker.heap = 0;
		if (i % 3)
			put(&maker.place[0], block, i < 30);
		if (i % 10 == 4)
			change_outside(CM_ACTION_OUTSIDE_ALLOC, outside + i * GIB, i * MIB);
		if (i % 20 == 19)
			change_outside(CM_ACTION_OUTSIDE_FREE, outside + (i - 5) * GIB,
				       (i - 5) * MIB);
	}
	note(&maker.place[0], CM_ACTION_OOM, GIB, 90 * GIB, maker.stack);
	note(&maker.place[0], CM_ACTION_OOM, CM_FREE_UNKNOWN, 91 * GIB, maker.stack);
	cm_counters_count(device_row(0), CM_SCALAR_num_ooms, 2);
	maker.annotation = 0;
}

#define SLOT (64 * MIB)

/* Slots of 64 MiB, filled and emptied by a fixed sequence of numbers that look random. */
static void play_busy(uint64_t events, uint64_t slots, uint32_t stacks)
{
	struct {
		uint64_t size;
		uint32_t stack;
	} *slot = calloc(slots, sizeof(*slot));
	uint32_t *stack = calloc(stacks, sizeof(*stack));
	uint64_t i, seed = 1, n, addr;
	struct cm_block *block;

	if (!slot || !stack)
		fail("no memory");
	for (i = 0; i < stacks; i++)
		stack[i] = busy_stack((uint32_t)i);
	open_place(&maker.place[0], 0, UINT64_C(0x7f0000000000), slots * SLOT, 0);
	for (i = 0; i + 3 < events;) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		n = (seed >> 33) % slots;
		addr = UINT64_C(0x7f0000000000) + n * SLOT;
		if (slot[n].size) {
			note(&maker.place[0], CM_ACTION_FREE_REQUESTED, addr, slot[n].size,
			     slot[n].stack);
			note(&maker.place[0], CM_ACTION_FREE_COMPLETED, addr, slot[n].size,
			     slot[n].stack);
			slot[n].size = 0;
			i += 2;
			continue;
		}
		/* Every 16th slot holds its memory, as weights do: up to 32 MiB, else up to 512
		 * KiB. */
		slot[n].size = 512 * (1 + (seed >> 40) % (n % 16 ? 1024 : 65536));
		slot[n].stack = stack[(n + seed / 3) % stacks];
		note(&maker.place[0], CM_ACTION_ALLOC, addr, slot[n].size, slot[n].stack);
		i++;
	}
	for (n = 0; n < slots; n++) {
		if (slot[n].size) {
			block = append(&maker.place[0], slot[n].size);
			block->requested = slot[n].size;
			block->state = CM_BLOCK_LIVE;
			block->stack = slot[n].stack;
			block->tick = maker.tick;
			cm_counters_alloc(device_row(0), CM_POOL_LARGE, (int64_t)slot[n].size,
					  (int64_t)slot[n].size);
		}
		if (slot[n].size < SLOT)
			append(&maker.place[0], SLOT - slot[n].size)->state = CM_BLOCK_FREE;
	}
	free(slot);
	free(stack);
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

/* Gives the region the identity of a process that is not there, and a clock that is known. */
static void finish(const char *dir)
{
	struct cm_header *header = maker.region->header;
	char path[sizeof(maker.region->path)] = "";

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
	if (rename(maker.region->path, path))
		fail(path);
	(void)puts(path);
}

int main(int argc, char **argv)
{
	const bool shards = argc > 3 && !strcmp(argv[2], "shards");
	const bool many = argc > 3 && !shards;
	const uint64_t events = many ? strtoull(argv[2], NULL, 10) : 4096;
	const struct cm_region_params params = {
		.dir = argc > 1 ? argv[1] : ".", .version = CM_VERSION, .events = (uint32_t)events};
	uint32_t modules = 0;

	if (cm_region_create(&params, &maker.region) || !maker.region->path[0])
		fail(params.dir);
	maker.texts = 1;
	maker.words = 1;
	maker.region->header->record = (struct cm_record){
		.events = 1, .context = CM_CONTEXT_ALL, .depth = FRAMES, .max_entries = UINT64_MAX};
	add_device(0, "Test Device 80G");
	add_device(1, "Test Device 80G");
	add_heaps();
	if (many && argc > 4)
		play_busy(events, strtoull(argv[3], NULL, 10), (uint32_t)atoi(argv[4]));
	else if (shards)
		play_shards();
	else if (many)
		play_many(events, strtoull(argv[3], NULL, 10));
	else if (argc > 2)
		play_outside();
	else
		play();
	(void)dl_iterate_phdr(add_module, &modules);
	close_place(&maker.place[0]);
	if (!many)
		close_place(&maker.place[1]);
	if (shards && atoi(argv[3]) > 1 && !split_device(maker.region))
		fail("no space");
	finish(params.dir);
	cm_region_abandon(maker.region);
	return 0;
}
