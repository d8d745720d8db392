/* SPDX-License-Identifier: MIT */
#include "tools/demo/heap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stats/counters.h"
#include "stats/tick.h"
#include "tools/output/text.h"

#define MIB   ((int64_t)1 << 20)
#define ROUND 512 /* of a block */
/* The least that is requested from the driver; requests of LARGE bytes or more are rounded to
 * ROUND_LARGE. */
#define SEGMENT     (20 * MIB)
#define LARGE       (10 * MIB)
#define ROUND_LARGE (2 * MIB)
#define REST        MIB /* what is left of a block is cut off from this size on */
#define FIRST_ADDR  UINT64_C(0x7f2000000000)
#define EVENTS      32768
#define STACKS      (1 << 20) /* bytes */

static struct cm_block *block_at(const struct cm_demo_heap *heap, uint32_t index)
{
	return cm_region_row(heap->region, CM_TABLE_BLOCK, index);
}

static struct cm_segment *segment_at(const struct cm_demo_heap *heap, uint32_t index)
{
	return cm_region_row(heap->region, CM_TABLE_SEGMENT, index);
}

static void stamp(uint64_t *tick, uint64_t *time_ns)
{
	*tick = cm_tick();
	*time_ns = cm_time_now();
}

/* The number is stored last: a reader drops a row whose number does not match its place. */
static void note(struct cm_demo_heap *heap, enum cm_action action, uint64_t addr, uint64_t bytes,
		 uint32_t stack)
{
	const uint64_t number = heap->row->event_next + 1;
	const uint32_t ring = heap->region->header->table[CM_TABLE_EVENT].ring;
	struct cm_event *event = cm_region_row(heap->region, CM_TABLE_EVENT,
					       (uint32_t)((number - 1) & (ring - 1)));

	if (!heap->region->header->record.events)
		return;
	__atomic_store_n(&event->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with the reader's two looks at it */
	event->tick = cm_tick();
	event->addr = addr;
	event->size = bytes;
	event->thread = heap->region->header->pid;
	event->stack = stack;
	event->action = (uint8_t)action;
	event->pool = CM_POOL_LARGE;
	event->heap = 0;
	event->annotation = 0;
	__atomic_store_n(&event->number, number, __ATOMIC_RELEASE);
	heap->row->event_next = number;
}

static void fill_device(struct cm_demo_heap *heap, uint32_t number)
{
	struct cm_device_row *row = heap->row;

	row->ordinal = (int32_t)number;
	row->heaps = 1;
	memcpy(row->uuid, "made-up card   ", 15);
	row->uuid[15] = (uint8_t)number;
	(void)snprintf(row->name, sizeof(row->name), "Made-up card");
	row->total_bytes = (uint64_t)heap->card->total;
	row->max_split_size = -1;
	row->flags = CM_DEVICE_USED | CM_DEVICE_SIMULATED;
}

static void fill_option(struct cm_demo_heap *heap)
{
	struct cm_option_row *row = cm_region_row(heap->region, CM_TABLE_OPTION, 0);

	(void)snprintf(row->name, sizeof(row->name), "mode");
	(void)snprintf(row->value, sizeof(row->value), "cache");
	(void)snprintf(row->fallback, sizeof(row->fallback), "cache");
	(void)snprintf(row->origin, sizeof(row->origin), "default");
	(void)snprintf(row->help, sizeof(row->help), "made up by cudamemstat demo");
}

static void fill_header(struct cm_header *header, const char *command)
{
	const char *name = strrchr(command, '/');

	/* The program without its folder and its arguments. */
	name = name && strcspn(command, " ") > (size_t)(name - command) ? name + 1 : command;
	(void)snprintf(header->comm, sizeof(header->comm), "%.*s", (int)strcspn(name, " "), name);
	(void)snprintf(header->cmdline, sizeof(header->cmdline), "%s", command);
	header->record.events = 1;
	header->record.context = CM_CONTEXT_ALL;
	header->record.depth = CM_DEMO_FRAMES;
	header->record.max_entries = UINT64_MAX;
	header->flags |= CM_REGION_CONTROL;
	stamp(&header->tick_base, &header->time_base_ns);
}

/* Commits all rows at once, so that no request has to. */
static int commit(struct cm_region *region)
{
	static const struct {
		enum cm_table table;
		uint32_t rows;
	} tables[] = {
		{CM_TABLE_OPTION, 1},
		{CM_TABLE_DEVICE, 1},
		{CM_TABLE_HEAP, 1},
		{CM_TABLE_SEGMENT, CM_DEMO_SEGMENTS},
		{CM_TABLE_BLOCK, CM_DEMO_BLOCKS},
	};
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]) && !err; i++)
		err = cm_region_commit(region, tables[i].table, tables[i].rows);
	return err ? err
		   : cm_region_commit(region, CM_TABLE_EVENT,
				      region->header->table[CM_TABLE_EVENT].ring);
}

int cm_demo_heap_init(struct cm_demo_heap *heap, const char *dir, struct cm_demo_card *card,
		      uint32_t card_number, const char *command)
{
	const struct cm_region_params params = {.dir = dir,
						.version = CM_VERSION,
						.events = EVENTS,
						.stack_bytes = STACKS,
						.text_bytes = STACKS};
	struct cm_record *record;
	struct cm_heap_row *row;
	int err;

	memset(heap, 0, sizeof(*heap));
	err = cm_region_create(&params, &heap->region);
	if (!err && heap->region->backing != CM_BACKING_FILE)
		err = heap->region->error ? heap->region->error : -EIO;
	if (!err)
		err = commit(heap->region);
	if (err)
		return err;
	record = &heap->region->header->record;
	heap->row = cm_region_row(heap->region, CM_TABLE_DEVICE, 0);
	heap->card = card;
	heap->next_addr = FIRST_ADDR;
	cm_intern_table_init(&heap->texts, heap->region, CM_TABLE_TEXT, &record->text_bytes,
			     &record->texts_lost, NULL);
	cm_intern_table_init(&heap->stacks, heap->region, CM_TABLE_STACK, &record->stack_words,
			     &record->stacks_lost, &record->stack_count);
	row = cm_region_row(heap->region, CM_TABLE_HEAP, 0);
	row->context = 1;
	row->flags = CM_HEAP_USED;
	fill_device(heap, card_number);
	fill_option(heap);
	fill_header(heap->region->header, command);
	heap->region->header->state = CM_REGION_LIVE;
	return 0;
}

uint32_t cm_demo_heap_stack(struct cm_demo_heap *heap, const struct cm_demo_frame *frames,
			    size_t count)
{
	uint64_t words[1 + CM_DEMO_FRAMES];
	char text[256];
	size_t i;
	int length;

	count = count > CM_DEMO_FRAMES ? CM_DEMO_FRAMES : count;
	words[0] = cm_stack_word((uint32_t)count, 0, 0);
	for (i = 0; i < count; i++) {
		length = snprintf(text, sizeof(text), "%s%c%s", frames[i].function,
				  CM_FRAME_TEXT_SPLIT, frames[i].file);
		words[1 + i] = cm_frame_python(
			frames[i].line,
			cm_intern_table_add(&heap->texts, text, (size_t)length + 1));
	}
	return cm_intern_table_add(&heap->stacks, words, (1 + count) * sizeof(words[0]));
}

/* What the driver would say is free on the card. */
static void update_free(struct cm_demo_heap *heap)
{
	const int64_t left = heap->card->total - heap->card->others -
			     atomic_load_explicit(&heap->card->used, memory_order_relaxed);

	heap->row->free_bytes = left > 0 ? (uint64_t)left : 0;
	heap->row->free_seen_ns = cm_monotonic_ns();
}

static uint32_t take_row(struct cm_demo_heap *heap)
{
	if (heap->spare_count)
		return heap->spare_blocks[--heap->spare_count];
	return heap->blocks + 1 < CM_DEMO_BLOCKS ? ++heap->blocks : 0;
}

static void drop_row(struct cm_demo_heap *heap, uint32_t index)
{
	memset(block_at(heap, index), 0, sizeof(struct cm_block));
	heap->spare_blocks[heap->spare_count++] = index;
}

/* A free block that shares its segment: PyTorch's inactive split. */
static bool is_split(const struct cm_block *block)
{
	return block->state == CM_BLOCK_FREE && (block->prev || block->next);
}

/* Counts a block among the free pieces of split segments, or no longer. */
static void count_split(struct cm_demo_heap *heap, const struct cm_block *block, bool more)
{
	const int64_t bytes = (int64_t)block->size;

	if (!is_split(block))
		return;
	cm_counters_change(heap->row, CM_POOL_LARGE, CM_STAT_INACTIVE_SPLIT, more ? 1 : -1);
	cm_counters_change(heap->row, CM_POOL_LARGE, CM_STAT_INACTIVE_SPLIT_BYTES,
			   more ? bytes : -bytes);
}

static uint32_t find_segment_row(const struct cm_demo_heap *heap)
{
	uint32_t i;

	for (i = 1; i < CM_DEMO_SEGMENTS; i++)
		if (!(segment_at(heap, i)->flags & CM_SEGMENT_USED))
			return i;
	return 0;
}

/* Takes bytes of the card, if so many are free. */
static bool take_card(struct cm_demo_card *card, int64_t bytes)
{
	int64_t used = atomic_load(&card->used);

	do {
		if (used + bytes > card->total - card->others)
			return false;
	} while (!atomic_compare_exchange_weak(&card->used, &used, used + bytes));
	return true;
}

/* A new segment that is one free block. Its row; 0: no memory, or no row. */
static uint32_t add_segment(struct cm_demo_heap *heap, int64_t bytes, uint32_t stack)
{
	const uint32_t index = find_segment_row(heap);
	const uint32_t first = index ? take_row(heap) : 0;
	struct cm_segment *segment;
	struct cm_block *block;

	if (!first)
		return 0;
	if (!take_card(heap->card, bytes)) {
		drop_row(heap, first);
		return 0;
	}
	block = block_at(heap, first);
	*block = (struct cm_block){.addr = heap->next_addr,
				   .size = (uint64_t)bytes,
				   .segment = index,
				   .state = CM_BLOCK_FREE,
				   .tick = cm_tick()};
	segment = segment_at(heap, index);
	*segment = (struct cm_segment){.addr = heap->next_addr,
				       .size = (uint64_t)bytes,
				       .context = 1,
				       .first = first,
				       .blocks = 1,
				       .flags = CM_SEGMENT_USED,
				       .stack = stack,
				       .tick = block->tick};
	heap->next_addr += (uint64_t)bytes + (uint64_t)(2 * MIB);
	cm_counters_raise(heap->row, CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
	cm_counters_raise(heap->row, CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, bytes);
	cm_counters_count(heap->row, CM_SCALAR_num_device_alloc, 1);
	cm_counters_count(heap->row, CM_SCALAR_cache_misses, 1);
	note(heap, CM_ACTION_SEGMENT_ALLOC, segment->addr, segment->size, stack);
	update_free(heap);
	return first;
}

/* The smallest free block that is large enough; 0: none. */
static uint32_t find_fit(const struct cm_demo_heap *heap, uint64_t bytes)
{
	uint32_t i, best = 0;

	for (i = 1; i <= heap->blocks; i++) {
		const struct cm_block *block = block_at(heap, i);

		if (block->state == CM_BLOCK_FREE && block->size >= bytes &&
		    (!best || block->size < block_at(heap, best)->size))
			best = i;
	}
	return best;
}

/* Splits a free block at the size, unless too little would be left. The caller counts both. */
static void cut(struct cm_demo_heap *heap, uint32_t index, uint64_t bytes)
{
	struct cm_block *block = block_at(heap, index), *rest;
	uint32_t row;

	if (block->size - bytes < (uint64_t)REST)
		return;
	row = take_row(heap);
	if (!row)
		return;
	rest = block_at(heap, row);
	*rest = (struct cm_block){.addr = block->addr + bytes,
				  .size = block->size - bytes,
				  .prev = index,
				  .next = block->next,
				  .segment = block->segment,
				  .state = CM_BLOCK_FREE,
				  .tick = cm_tick()};
	if (block->next)
		block_at(heap, block->next)->prev = row;
	block->next = row;
	block->size = bytes;
	segment_at(heap, block->segment)->blocks++;
	count_split(heap, rest, true);
}

static void note_oom(struct cm_demo_heap *heap, int64_t bytes, uint32_t stack)
{
	cm_counters_begin(heap->row);
	update_free(heap);
	cm_counters_count(heap->row, CM_SCALAR_num_ooms, 1);
	note(heap, CM_ACTION_OOM, heap->row->free_bytes, (uint64_t)bytes, stack);
	cm_counters_end(heap->row);
}

/* A free block for a request; 0: there is none, and no new segment. */
static uint32_t find_block(struct cm_demo_heap *heap, int64_t rounded, uint32_t stack)
{
	const int64_t grain = rounded < LARGE ? SEGMENT : ROUND_LARGE;
	const int64_t segment = (rounded + grain - 1) / grain * grain;
	uint32_t index = find_fit(heap, (uint64_t)rounded);

	if (index) {
		cm_counters_count(heap->row, CM_SCALAR_cache_hits, 1);
		return index;
	}
	return add_segment(heap, segment, stack);
}

uint32_t cm_demo_heap_alloc(struct cm_demo_heap *heap, int64_t bytes, uint32_t stack)
{
	const int64_t rounded = (bytes + ROUND - 1) / ROUND * ROUND;
	struct cm_block *block;
	uint32_t index;

	cm_counters_begin(heap->row);
	index = find_block(heap, rounded, stack);
	cm_counters_end(heap->row);
	if (!index && cm_demo_heap_trim(heap)) {
		cm_counters_begin(heap->row);
		cm_counters_count(heap->row, CM_SCALAR_num_alloc_retries, 1);
		index = find_block(heap, rounded, stack);
		cm_counters_end(heap->row);
	}
	if (!index) {
		note_oom(heap, bytes, stack);
		return 0;
	}
	cm_counters_begin(heap->row);
	block = block_at(heap, index);
	count_split(heap, block, false);
	cut(heap, index, (uint64_t)rounded);
	block->state = CM_BLOCK_LIVE;
	block->requested = (uint64_t)bytes;
	block->stack = stack;
	block->tick = cm_tick();
	cm_counters_alloc(heap->row, CM_POOL_LARGE, (int64_t)block->size, bytes);
	note(heap, CM_ACTION_ALLOC, block->addr, (uint64_t)bytes, stack);
	cm_counters_end(heap->row);
	return index;
}

void cm_demo_heap_free(struct cm_demo_heap *heap, uint32_t block)
{
	struct cm_block *row = block_at(heap, block);

	if (!block || row->state != CM_BLOCK_LIVE)
		return;
	cm_counters_begin(heap->row);
	row->state = CM_BLOCK_PENDING;
	row->free_stack = row->stack;
	row->tick = cm_tick();
	cm_counters_free(heap->row, CM_POOL_LARGE, (int64_t)row->size);
	note(heap, CM_ACTION_FREE_REQUESTED, row->addr, row->requested, row->stack);
	cm_counters_end(heap->row);
}

/* Merges a free block with the free one after it; neither is counted. */
static void join_next(struct cm_demo_heap *heap, uint32_t index)
{
	struct cm_block *block = block_at(heap, index), *next;
	const uint32_t gone = block->next;

	next = block_at(heap, gone);
	block->size += next->size;
	block->next = next->next;
	if (next->next)
		block_at(heap, next->next)->prev = index;
	segment_at(heap, block->segment)->blocks--;
	drop_row(heap, gone);
}

static bool is_free(const struct cm_demo_heap *heap, uint32_t index)
{
	return index && block_at(heap, index)->state == CM_BLOCK_FREE;
}

static void retire(struct cm_demo_heap *heap, uint32_t index)
{
	struct cm_block *block = block_at(heap, index);

	cm_counters_ready(heap->row, CM_POOL_LARGE, 1, (int64_t)block->size,
			  (int64_t)block->requested);
	note(heap, CM_ACTION_FREE_COMPLETED, block->addr, block->requested, block->stack);
	block->state = CM_BLOCK_FREE;
	block->requested = 0;
	block->stack = block->free_stack = 0;
	block->tick = cm_tick();
	if (is_free(heap, block->next)) {
		count_split(heap, block_at(heap, block->next), false);
		join_next(heap, index);
	}
	if (is_free(heap, block->prev)) {
		index = block->prev;
		count_split(heap, block_at(heap, index), false);
		join_next(heap, index);
	}
	count_split(heap, block_at(heap, index), true);
}

void cm_demo_heap_poll(struct cm_demo_heap *heap)
{
	struct cm_header *header = heap->region->header;
	uint32_t i;

	cm_counters_begin(heap->row);
	for (i = 1; i <= heap->blocks; i++)
		if (block_at(heap, i)->state == CM_BLOCK_PENDING)
			retire(heap, i);
	update_free(heap);
	cm_counters_end(heap->row);
	stamp(&header->tick_last, &header->time_last_ns);
}

int64_t cm_demo_heap_trim(struct cm_demo_heap *heap)
{
	int64_t returned = 0;
	uint32_t i;

	cm_counters_begin(heap->row);
	for (i = 1; i < CM_DEMO_SEGMENTS; i++) {
		struct cm_segment *segment = segment_at(heap, i);

		if (!(segment->flags & CM_SEGMENT_USED) || segment->blocks != 1 ||
		    !is_free(heap, segment->first))
			continue;
		returned += (int64_t)segment->size;
		cm_counters_lower(heap->row, CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
		cm_counters_lower(heap->row, CM_POOL_LARGE, CM_STAT_RESERVED_BYTES,
				  (int64_t)segment->size);
		cm_counters_count(heap->row, CM_SCALAR_num_device_free, 1);
		note(heap, CM_ACTION_SEGMENT_FREE, segment->addr, segment->size, segment->stack);
		drop_row(heap, segment->first);
		memset(segment, 0, sizeof(*segment));
	}
	(void)atomic_fetch_sub(&heap->card->used, returned);
	update_free(heap);
	cm_counters_end(heap->row);
	return returned;
}

void cm_demo_heap_count_traffic(struct cm_demo_heap *heap, int64_t requests)
{
	int64_t i;

	cm_counters_begin(heap->row);
	for (i = 0; i < requests; i++) {
		cm_counters_alloc(heap->row, CM_POOL_LARGE, 0, 0);
		cm_counters_free(heap->row, CM_POOL_LARGE, 0);
		cm_counters_ready(heap->row, CM_POOL_LARGE, 1, 0, 0);
	}
	cm_counters_count(heap->row, CM_SCALAR_cache_hits, requests);
	cm_counters_end(heap->row);
}
