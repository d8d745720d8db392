/* SPDX-License-Identifier: MIT */
/*
 * Pinned memory under its lock: size classes, lists, rows and counters.
 */
#include <assert.h>
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "stats/region.h"

/* Freed memory is worth an event of its own once it comes to this share of what is in use. */
#define CLOSE_SHARE 32

/* Grains of a class are m << shift, m from 8 to 15; below 8 grains each number has a class. */
uint32_t cm_pinned_class(uint64_t bytes)
{
	uint64_t grains = (bytes + CM_GRAIN - 1) >> CM_GRAIN_SHIFT;
	uint32_t shift = grains < 8 ? 0 : (uint32_t)(60 - __builtin_clzll(grains));

	return 8 * shift + (uint32_t)((grains + (UINT64_C(1) << shift) - 1) >> shift) - 1;
}

uint64_t cm_pinned_class_bytes(uint32_t class)
{
	uint32_t n = class + 1;

	return n < 16 ? n * CM_GRAIN : (n % 8 + 8) * CM_GRAIN << (n / 8 - 1);
}

/* The class that a block of that size serves: the block is at least as large as the class says. */
static uint32_t class_below(uint64_t size)
{
	uint32_t class = cm_pinned_class(size);

	return cm_pinned_class_bytes(class) > size ? class - 1 : class;
}

static uint32_t kind_of(const struct cm_segment *segment)
{
	return segment->flags >> CM_SEGMENT_KIND_SHIFT;
}

/* NULL: a block of a request that was passed on has the program's own size, and no class. */
static uint32_t *ready_list(struct cm_cache *cache, const struct cm_block *block)
{
	const struct cm_segment *segment = &cache->segment[block->segment];

	if (segment->flags & CM_SEGMENT_DIRECT)
		return NULL;
	return &cm_segment_heap(cache, segment)->pinned[kind_of(segment)][class_below(block->size)];
}

static void append_pending(struct cm_block *block, struct cm_block_list *list, uint32_t index)
{
	block[index].link_prev = list->last;
	block[index].link_next = 0;
	if (list->last)
		block[list->last].link_next = index;
	else
		list->first = index;
	list->last = index;
}

static void unlink_pending(struct cm_block *block, struct cm_batch *batch, uint32_t index)
{
	uint32_t prev = block[index].link_prev, next = block[index].link_next;

	if (prev)
		block[prev].link_next = next;
	else
		batch->list.first = next;
	if (next)
		block[next].link_prev = prev;
	else
		batch->list.last = prev;
	batch->bytes -= block[index].size;
}

/* The youngest one is the first of its class, since it is most likely in the CPU's caches. */
static void link_ready(struct cm_cache *cache, uint32_t index)
{
	struct cm_block *block = cache->block;
	struct cm_block_list *aged = &cache->pinned.aged;
	uint32_t *first = ready_list(cache, &block[index]);

	block[index].link_prev = 0;
	block[index].link_next = first ? *first : 0;
	if (block[index].link_next)
		block[block[index].link_next].link_prev = index;
	if (first)
		*first = index;
	block[index].aged[0] = aged->last;
	block[index].aged[1] = 0;
	if (aged->last)
		block[aged->last].aged[1] = index;
	else
		aged->first = index;
	aged->last = index;
}

static void unlink_ready(struct cm_cache *cache, uint32_t index)
{
	struct cm_block *block = cache->block;
	struct cm_block_list *aged = &cache->pinned.aged;
	uint32_t prev = block[index].link_prev, next = block[index].link_next;
	uint32_t older = block[index].aged[0], younger = block[index].aged[1];
	uint32_t *first = ready_list(cache, &block[index]);

	if (prev)
		block[prev].link_next = next;
	else if (first)
		*first = next;
	if (next)
		block[next].link_prev = prev;
	if (older)
		block[older].aged[1] = younger;
	else
		aged->first = younger;
	if (younger)
		block[younger].aged[0] = older;
	else
		aged->last = older;
}

static struct cm_batch *batch_of(struct cm_pinned *pinned, const struct cm_block *block)
{
	return block->age == (uint32_t)pinned->batches.open.number
		       ? &pinned->batches.open
		       : cm_batch_at(&pinned->batches, block->age);
}

static uint64_t current(const struct cm_stat4 *stat)
{
	return (uint64_t)stat->current;
}

uint64_t cm_pinned_idle_locked(const struct cm_pinned *pinned)
{
	return current(&pinned->row->reserved_bytes) - current(&pinned->row->allocated_bytes);
}

uint64_t cm_pinned_limit_locked(const struct cm_pinned *pinned)
{
	return current(&pinned->row->allocated_bytes) + CM_PINNED_IDLE_BYTES;
}

bool cm_pinned_is_worth_closing_locked(const struct cm_pinned *pinned)
{
	return pinned->batches.open.bytes &&
	       pinned->batches.open.bytes * CLOSE_SHARE >= current(&pinned->row->allocated_bytes);
}

static void note(struct cm_cache *cache, enum cm_action action, const struct cm_segment *segment,
		 uint32_t stack, uint64_t tick, uint64_t size)
{
	struct cm_pinned *pinned = &cache->pinned;

	cm_ring_add(&pinned->ring, &pinned->row->event_next, action, cm_segment_pool(segment),
		    segment->heap, cm_origin_of(stack), tick, segment->addr, size);
}

void cm_pinned_note_oom(struct cm_heap *heap, uint64_t bytes)
{
	struct cm_cache *cache = heap->cache;
	struct cm_pinned *pinned = &cache->pinned;

	cm_lock_acquire(&pinned->lock);
	if (!pinned->ring.row)
		cm_cache_open_ring(cache, CM_TABLE_HOST_EVENT, 0, 0, &pinned->ring);
	cm_seq_begin(&pinned->row->seq);
	pinned->row->num_host_ooms++;
	/* How much more the driver could pin is not known. */
	cm_ring_add(&pinned->ring, &pinned->row->event_next, CM_ACTION_OOM, CM_POOL_ALL,
		    heap->index, cm_origin_of(cm_thread.stack), cm_cache_tick(cache),
		    CM_FREE_UNKNOWN, bytes);
	cm_seq_end(&pinned->row->seq);
	cm_lock_release(&pinned->lock);
}

static void count_allocation(struct cm_cache *cache, uint32_t index, uint64_t bytes)
{
	struct cm_block *block = &cache->block[index];
	struct cm_host_row *row = cache->pinned.row;

	block->state = CM_BLOCK_LIVE;
	block->requested = bytes;
	block->stack = cm_thread.stack;
	block->tick = cm_cache_tick(cache);
	cm_stat4_raise(&row->allocated, 1);
	cm_stat4_raise(&row->allocated_bytes, (int64_t)block->size);
	cm_stat4_raise(&row->active, 1);
	cm_stat4_raise(&row->active_bytes, (int64_t)block->size);
	note(cache, CM_ACTION_ALLOC, &cache->segment[block->segment], block->stack, block->tick,
	     bytes);
}

static void count_free(struct cm_cache *cache, uint32_t index)
{
	struct cm_block *block = &cache->block[index];
	struct cm_host_row *row = cache->pinned.row;

	block->state = CM_BLOCK_PENDING;
	block->tick = cm_cache_tick(cache);
	block->stack = cm_block_free_stack(block);
	cm_stat4_lower(&row->allocated, 1);
	cm_stat4_lower(&row->allocated_bytes, (int64_t)block->size);
	note(cache, CM_ACTION_FREE_REQUESTED, &cache->segment[block->segment], block->stack,
	     block->tick, block->requested);
}

static void count_ready(struct cm_cache *cache, uint32_t index, uint64_t tick)
{
	struct cm_block *block = &cache->block[index];
	struct cm_host_row *row = cache->pinned.row;

	block->state = CM_BLOCK_FREE;
	block->tick = tick;
	cm_stat4_lower(&row->active, 1);
	cm_stat4_lower(&row->active_bytes, (int64_t)block->size);
	note(cache, CM_ACTION_FREE_COMPLETED, &cache->segment[block->segment], block->stack, tick,
	     block->requested);
}

bool cm_pinned_take_locked(struct cm_heap *heap, uint32_t kind, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_cache *cache = heap->cache;
	struct cm_host_row *row = cache->pinned.row;
	uint32_t index = heap->pinned[kind][cm_pinned_class(bytes)];

	assert(cm_lock_is_held(&cache->pinned.lock));
	if (!index)
		return false;
	unlink_ready(cache, index);
	cm_seq_begin(&row->seq);
	count_allocation(cache, index, bytes);
	row->cache_hits++;
	cm_seq_end(&row->seq);
	*ret_addr = cache->block[index].addr;
	return true;
}

/* One row of each table, or none. */
static int take_pinned_rows(struct cm_heap *heap, uint32_t *ret_segment, uint32_t *ret_block)
{
	uint32_t b, s = 0;

	cm_lock_acquire(&heap->device->lock);
	b = cm_rows_take_block(heap->device);
	if (b)
		s = cm_rows_take_segment(heap->cache);
	if (b && !s)
		cm_rows_give_block(heap->device, b);
	/* Under the lock: its holder may ask cm_runs_has_block about any row. */
	if (s)
		heap->cache->block[b] = (struct cm_block){.segment = s};
	cm_lock_release(&heap->device->lock);
	if (!s)
		return -ENOSPC;
	*ret_segment = s;
	*ret_block = b;
	return 0;
}

static void fill_rows(struct cm_heap *heap, uint32_t s, uint32_t b, uint64_t addr, uint64_t size)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *segment = &cache->segment[s];
	struct cm_block *block = &cache->block[b];

	segment->addr = block->addr = addr;
	segment->size = block->size = size;
	segment->context = heap->ctx;
	segment->heap = heap->index;
	__atomic_store_n(&segment->device, CM_DEVICE_NONE, __ATOMIC_RELAXED);
	segment->first = b;
	segment->blocks = 1;
	segment->stack = cm_thread.stack;
	segment->tick = cm_cache_tick(cache);
}

static void count_segment(struct cm_cache *cache, const struct cm_segment *segment, uint64_t bytes,
			  uint64_t ns)
{
	struct cm_host_row *row = cache->pinned.row;

	cm_seq_begin(&row->seq);
	row->num_host_alloc++;
	cm_duration_add(&row->alloc_time, ns);
	if (segment->flags & CM_SEGMENT_REGISTERED) {
		cm_stat4_raise(&row->registered, 1);
		cm_stat4_raise(&row->registered_bytes, (int64_t)segment->size);
	} else {
		cm_stat4_raise(&row->segment, 1);
		cm_stat4_raise(&row->reserved_bytes, (int64_t)segment->size);
		note(cache, CM_ACTION_SEGMENT_ALLOC, segment, segment->stack, segment->tick,
		     segment->size);
		count_allocation(cache, segment->first, bytes);
	}
	cm_seq_end(&row->seq);
}

int cm_pinned_enter_locked(struct cm_heap *heap, uint64_t addr, uint64_t size, uint32_t kind,
			   uint32_t flags, uint64_t bytes, uint64_t ns)
{
	struct cm_cache *cache = heap->cache;
	const uint32_t lost = cm_ptr_map_find(&cache->pinned.map, addr);
	struct cm_segment *segment;
	uint32_t s, b;
	int err;

	assert(cm_lock_is_held(&cache->pinned.lock));
	if (lost)
		(void)cm_pinned_remove_locked(cache, lost);
	err = cm_ptr_map_reserve(&cache->pinned.map);
	if (!err)
		err = take_pinned_rows(heap, &s, &b);
	if (err)
		return err;
	if (!cache->pinned.ring.row)
		cm_cache_open_ring(cache, CM_TABLE_HOST_EVENT, 0, 0, &cache->pinned.ring);
	fill_rows(heap, s, b, addr, size);
	segment = &cache->segment[s];
	flags |= CM_SEGMENT_HOST | CM_SEGMENT_EXACT | kind << CM_SEGMENT_KIND_SHIFT |
		 (size <= CM_SMALL_MAX ? CM_SEGMENT_SMALL : 0);
	/* Release: a thread that walks the table without our lock sees that no device has the
	 * row. */
	__atomic_store_n(&segment->flags, flags | CM_SEGMENT_USED, __ATOMIC_RELEASE);
	cache->block[b].state = CM_BLOCK_LIVE;
	cache->block[b].requested = bytes;
	cm_ptr_map_add(&cache->pinned.map, addr, b);
	count_segment(cache, segment, bytes, ns);
	return 0;
}

void cm_pinned_free_locked(struct cm_cache *cache, uint32_t index)
{
	struct cm_batch *open = &cache->pinned.batches.open;
	struct cm_block *block = &cache->block[index];

	assert(cm_lock_is_held(&cache->pinned.lock));
	cm_seq_begin(&cache->pinned.row->seq);
	count_free(cache, index);
	cm_seq_end(&cache->pinned.row->seq);
	block->age = (uint32_t)open->number;
	append_pending(cache->block, &open->list, index);
	open->bytes += block->size;
	open->work = cm_cache_work(cache);
}

/* The blocks of a batch become ready. */
static bool retire_locked(struct cm_batch_ring *ring, struct cm_batch *batch)
{
	struct cm_cache *cache = ring->cache;
	uint64_t tick = cm_cache_tick(cache);
	uint32_t index = batch->list.first, next;

	assert(cm_lock_is_held(&cache->pinned.lock));
	cm_seq_begin(&cache->pinned.row->seq);
	for (; index; index = next) {
		next = cache->block[index].link_next;
		count_ready(cache, index, tick);
		link_ready(cache, index);
	}
	cm_seq_end(&cache->pinned.row->seq);
	batch->list = (struct cm_block_list){0};
	batch->bytes = 0;
	return true;
}

void cm_pinned_init(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;

	pinned->row = &cache->region->header->host;
	cm_lock_init(&pinned->lock, CM_LOCK_PINNED, 0);
	pinned->releases.lock = &pinned->lock;
	pinned->batches.cache = cache;
	pinned->batches.lock = &pinned->lock;
	pinned->batches.retire_locked = retire_locked;
	cm_batch_ring_empty(&pinned->batches);
}

static void count_release(struct cm_cache *cache, const struct cm_segment *segment)
{
	struct cm_host_row *row = cache->pinned.row;
	uint64_t tick = cm_cache_tick(cache);
	enum cm_block_state state = cache->block[segment->first].state;

	cm_seq_begin(&row->seq);
	if (segment->flags & CM_SEGMENT_REGISTERED) {
		cm_stat4_lower(&row->registered, 1);
		cm_stat4_lower(&row->registered_bytes, (int64_t)segment->size);
	} else {
		if (state == CM_BLOCK_LIVE)
			count_free(cache, segment->first);
		if (state != CM_BLOCK_FREE)
			count_ready(cache, segment->first, tick);
		cm_stat4_lower(&row->segment, 1);
		cm_stat4_lower(&row->reserved_bytes, (int64_t)segment->size);
		note(cache, CM_ACTION_SEGMENT_FREE, segment, cm_thread.stack, tick, segment->size);
	}
	cm_seq_end(&row->seq);
}

struct cm_pending_release cm_pinned_remove_locked(struct cm_cache *cache, uint32_t index)
{
	struct cm_pinned *pinned = &cache->pinned;
	struct cm_block *block = &cache->block[index];
	uint32_t s = block->segment;
	struct cm_segment *segment = &cache->segment[s];
	struct cm_heap *heap = cm_segment_heap(cache, segment);
	struct cm_device *device = heap->device;
	struct cm_pending_release release = {.heap = heap,
					     .ctx = segment->context,
					     .addr = segment->addr,
					     .size = segment->size};

	assert(cm_lock_is_held(&pinned->lock));
	if (block->state == CM_BLOCK_PENDING)
		unlink_pending(cache->block, batch_of(pinned, block), index);
	else if (block->state == CM_BLOCK_FREE)
		unlink_ready(cache, index);
	(void)cm_ptr_map_remove(&pinned->map, block->addr);
	count_release(cache, segment);
	cm_lock_acquire(&device->lock);
	cm_rows_give_block(device, index);
	cm_rows_give_segment(cache, s);
	cm_lock_release(&device->lock);
	return release;
}

void cm_pinned_count_release_locked(struct cm_pinned *pinned, uint64_t ns)
{
	cm_seq_begin(&pinned->row->seq);
	pinned->row->num_host_free++;
	cm_duration_add(&pinned->row->free_time, ns);
	cm_seq_end(&pinned->row->seq);
}
