/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/fragmentation.h"

#include "allocator/base/size_class.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/state/limit.h"
#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* docs/decisions/layout.md has the measurements of other values. */
#define FILL_TENTHS 5 /* if 5/10 of the card are reserved, splits may pin only a share: */
#define PIN_LEAST   5 /* 1/5 of the room above the peak at first, */
#define PIN_MOST    2 /* and 1/2 of it once as much has returned in exchange as is reserved, */
#define PIN_STEPS   UINT64_C(16) /* in so many steps */
/* While blocks grow and 1/10 is reserved, idle segments of at least 1/WHOLE_SHARE of the card are
 * not split. Blocks grow if the largest segment has doubled in the last third of all requests: if
 * fewer than 1/GROW_SPAN of as many requests have come since as before. */
#define GROW_TENTHS 1
#define WHOLE_SHARE 64
#define GROW_SPAN   2
/* If segments of 20 MiB would pin over 1/TAIL_SHARE of the room, segments hold a whole number of
 * blocks, and leave at most 1/UNUSED_SHARE unused. */
#define TAIL_SHARE   256
#define UNUSED_SHARE 32
/* If blocks are not split, idle segments return once they exceed 1/8 of the room, and no block
 * serves a request that leaves more of it unused. */
#define UNSPLIT_SHARE 8
#define WAIT_TENTHS   4  /* with pages, if 4/10 are reserved: requests for them wait for barriers */
#define PACK_TENTHS   7  /* with pages, if 7/10 are reserved: pages move, and few are touched */
#define FULL_SHARE    32 /* with pages: if less than 1/32 is not reserved, moves have no limit */
/* With pages: if at most half of the card was ever in use, a program has settled once it has freed
 * its peak twice since that rose by 1/32. Its requests divide handles. */
#define SETTLED_TIMES 2
/* While blocks of the small pool merge late, a remainder of up to 1/16 of the request stays with
 * its block. */
#define LATE_REST_SHIFT 4
/* When that ends, so many free blocks are read for neighbours that have not merged, in less than
 * half a millisecond. What is left merges when nothing fits. */
#define MERGE_LOOKS (8 * CM_MERGE_LOOKS)
/* Limits that hold until 1/32 more is in use than when they were last reset: */
#define FUTILE_MOST 1024u /* searches for pages that found no better place than a ready block */
#define MOVES_MOST  256u  /* requests for which pages are moved */
#define RISE_SHARE  32
#define LOOKS       256u /* free blocks that one search reads to find one that is not spared */

static uint64_t used_bytes(const struct cm_heap *heap)
{
	return (uint64_t)cm_stat_current(heap->device->row, CM_STAT_ALLOCATED_BYTES);
}

/* How much of the card the shard can have beside the others, as far as is known. */
static uint64_t card_bytes(const struct cm_heap *heap)
{
	const struct cm_device *device = heap->device;
	const uint64_t limit = cm_limit_bytes(device),
		       others = cm_shards_reserved_by_others(device);
	uint64_t bytes = device->first->row->total_bytes;

	if (limit && limit < bytes)
		bytes = limit;
	bytes = others < bytes ? bytes - others : 0;
	return device->refused_at && device->refused_at < bytes ? device->refused_at : bytes;
}

static bool is_share(const struct cm_heap *heap, uint64_t bytes, uint32_t tenths)
{
	return bytes >= card_bytes(heap) / 10 * tenths;
}

void cm_fragmentation_note_segment_locked(struct cm_heap *heap, uint64_t bytes)
{
	if (bytes / 2 < heap->large_segment)
		return;
	heap->doubled_at = heap->large_segment ? cm_poll_policy_requests(heap) : 0;
	heap->large_segment = bytes;
}

static bool blocks_grow(const struct cm_heap *heap)
{
	return cm_poll_policy_requests(heap) - heap->doubled_at < heap->doubled_at / GROW_SPAN;
}

static bool card_fills_up(const struct cm_heap *heap)
{
	const struct cm_cache *cache = heap->cache;
	const uint64_t reserved = cm_device_reserved_locked(heap->device);

	/* An old driver can only be waited for without a limit. */
	if (!cache->policy.exchange || !(heap->can & CM_CAN_CTX_EVENTS))
		return false;
	if (cm_paged_serves(heap))
		return is_share(heap, reserved, PACK_TENTHS);
	return cache->plain &&
	       is_share(heap, reserved, blocks_grow(heap) ? GROW_TENTHS : FILL_TENTHS);
}

void cm_fragmentation_set_merging_locked(struct cm_heap *heap)
{
	const bool late = heap->cache->plain && !heap->watches_splits;

	if (late)
		heap->may_be_apart = true;
	else if (heap->merges_late)
		heap->may_be_apart = !cm_heap_merge_all_locked(heap, MERGE_LOOKS);
	heap->merges_late = late;
	heap->small_rest_shift = late ? LATE_REST_SHIFT : 63;
}

void cm_fragmentation_note_reserved_locked(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;

	cm_poll_policy_note_reserved_locked(device);
	if (cm_device_reserved_locked(heap->device) >= device->refused_at)
		device->refused_at = 0;
	heap->card_fills_up = card_fills_up(heap);
	heap->watches_splits = heap->card_fills_up || cm_paged_serves(heap);
	cm_fragmentation_set_merging_locked(heap);
}

void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes)
{
	heap->device->refused_at = cm_device_reserved_locked(heap->device) + bytes;
}

bool cm_fragmentation_is_refused_locked(const struct cm_heap *heap, uint64_t bytes)
{
	const struct cm_device *device = heap->device;

	return device->refused_at &&
	       cm_device_reserved_locked(device) + bytes >= device->refused_at;
}

/* Resets the limits if more is in use than ever before. */
static void note_rise(struct cm_heap *heap)
{
	const uint64_t used = used_bytes(heap);

	if (used <= heap->spared_at + heap->spared_at / RISE_SHARE)
		return;
	heap->spared_at = used;
	heap->futile_searches = heap->spared_moves = 0;
}

/* Hardly any room is left: moving pages at every step is better than failing. */
bool cm_fragmentation_is_full_locked(const struct cm_heap *heap)
{
	const uint64_t card = card_bytes(heap);

	return cm_device_reserved_locked(heap->device) + card / FULL_SHARE >= card;
}

bool cm_fragmentation_awaits_barrier_locked(const struct cm_heap *heap)
{
	return heap->cache->policy.exchange &&
	       is_share(heap, cm_device_reserved_locked(heap->device), WAIT_TENTHS);
}

bool cm_fragmentation_moves_pages_locked(const struct cm_heap *heap, uint64_t bytes)
{
	return is_share(heap, cm_device_reserved_locked(heap->device) + bytes, PACK_TENTHS);
}

bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap)
{
	if (!heap->card_fills_up || !cm_paged_serves(heap))
		return false;
	if (cm_fragmentation_is_full_locked(heap))
		return true;
	note_rise(heap);
	return heap->spared_moves < MOVES_MOST && heap->futile_searches < FUTILE_MOST;
}

/* For a heap on pages: what exceeds whole pages goes to shared pages at both ends. */
static bool spares_pages(struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	return heap->cache->segment[block->segment].flags & CM_SEGMENT_PAGED &&
	       cm_paged_touched(block->addr, block->size, size) > size / CM_PAGED_PAGE &&
	       cm_fragmentation_packs_pages_locked(heap);
}

/* What the card has left, times the part of the card that it is. */
static uint64_t weighted_room(const struct cm_heap *heap)
{
	const uint64_t card = card_bytes(heap), reserved = cm_device_reserved_locked(heap->device);
	const uint64_t room = card > reserved ? card - reserved : 0;

	/* In parts of 1/1024, as the product of two sizes may not fit 64 bits. */
	return room ? (room << 10) / card * (room >> 10) : 0;
}

uint32_t cm_fragmentation_handle_pages_locked(const struct cm_heap *heap, uint64_t size)
{
	return cm_paged_handle_pages(cm_paged_pages_of(size), weighted_room(heap));
}

/* The handle on both sides of an address in a run; count 0: there is none. */
static struct cm_paged_span handle_across(const struct cm_paged *paged,
					  const struct cm_segment *run, uint64_t addr)
{
	const uint32_t behind = cm_paged_page_at(paged, addr);
	struct cm_paged_span pages = {cm_paged_page_at(paged, addr - 1), 0};

	if (paged->page[pages.first].handle != paged->page[behind].handle)
		return pages;
	pages.first = cm_paged_handle_start(paged, pages.first, cm_paged_page_at(paged, run->addr));
	pages.count = cm_paged_handle_end(paged, behind,
					  cm_paged_page_at(paged, cm_paged_end_of(run))) -
		      pages.first;
	return pages;
}

/* What the card has above the most that was ever in use, or is with `used` bytes. */
static uint64_t room_above(const struct cm_heap *heap, uint64_t used)
{
	const struct cm_stat_pool *all = &heap->device->row->stat[CM_POOL_ALL];
	const uint64_t peak = (uint64_t)all->peak[CM_STAT_ALLOCATED_BYTES];
	const uint64_t most = used > peak ? used : peak, card = card_bytes(heap);

	return card > most ? card - most : 0;
}

/* Whether a program with room repeats itself: it frees, and needs no more than before. */
static bool has_settled(const struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	const struct cm_stat_pool *large = &device->row->stat[CM_POOL_LARGE];
	const int64_t peak = large->peak[CM_STAT_ALLOCATED_BYTES];
	const int64_t freed = large->freed[CM_STAT_ALLOCATED_BYTES];

	/* The program may reset its counters. */
	if (peak > device->risen_to + device->risen_to / RISE_SHARE || freed < device->risen_at) {
		device->risen_to = peak;
		device->risen_at = freed;
	}
	return freed - device->risen_at >= peak * SETTLED_TIMES &&
	       room_above(heap, 0) >= card_bytes(heap) / 2;
}

struct cm_paged_span cm_fragmentation_divided_locked(const struct cm_heap *heap,
						     const struct cm_block *block, uint64_t size)
{
	const struct cm_segment *run = &heap->cache->segment[block->segment];
	const struct cm_paged *paged = heap->device->paged[cm_segment_pool(run)];
	struct cm_paged_span pages = {0, 0};

	if (!(run->flags & CM_SEGMENT_PAGED) || block->size <= size || has_settled(heap))
		return pages;
	pages = handle_across(paged, run, block->addr + size);
	if (cm_paged_addr_of(paged, pages.first) < block->addr ||
	    cm_paged_addr_of(paged, pages.first + pages.count) > block->addr + block->size ||
	    pages.count <= cm_paged_divided_pages(cm_paged_pages_of(size), weighted_room(heap)))
		pages.count = 0;
	return pages;
}

/* Whether there is one; quick. The block is larger than `size`. Pages beside the block are not
 * read, as they may be in no run. */
static bool divides(const struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	const struct cm_segment *run = &heap->cache->segment[block->segment];
	const struct cm_paged *paged = heap->device->paged[CM_POOL_LARGE];
	const struct cm_paged_page *page;
	uint64_t addr = block->addr + size;

	if (!(run->flags & CM_SEGMENT_PAGED))
		return false;
	page = &paged->page[cm_paged_page_at(paged, addr)];
	addr = addr / CM_PAGED_PAGE * CM_PAGED_PAGE;
	return ((addr > block->addr && page[-1].handle == page->handle) ||
		(addr + CM_PAGED_PAGE < block->addr + block->size &&
		 page[1].handle == page->handle)) &&
	       cm_fragmentation_divided_locked(heap, block, size).count;
}

/* What blocks in use pin: the free blocks of their segments. */
static uint64_t pinned_bytes(const struct cm_heap *heap)
{
	return (uint64_t)cm_stat_current(heap->device->row, CM_STAT_INACTIVE_SPLIT_BYTES);
}

uint64_t cm_fragmentation_unsplit_most_locked(const struct cm_heap *heap, uint64_t bytes)
{
	const uint64_t room = room_above(heap, used_bytes(heap) + bytes);

	return card_bytes(heap) - room + room / UNSPLIT_SHARE;
}

bool cm_fragmentation_unsplit_serves_locked(const struct cm_heap *heap, uint64_t rest)
{
	return rest < CM_SEGMENT_GRAIN ||
	       rest <= room_above(heap, used_bytes(heap)) / UNSPLIT_SHARE;
}

/* How much may be pinned once `used` bytes are in use. What has returned in exchange is counted
 * from 0 again when the program resets its counters. */
static uint64_t pinned_most(const struct cm_heap *heap, uint64_t used)
{
	const uint64_t room = room_above(heap, used);
	const uint64_t reserved = cm_device_reserved_locked(heap->device) + 1;
	const uint64_t returned = (uint64_t)heap->device->row->scalar[CM_SCALAR_exchange_bytes];
	const uint64_t least = room / PIN_LEAST;
	const uint64_t more = returned < reserved ? room / (PIN_MOST * PIN_STEPS) *
							    (returned * PIN_STEPS / reserved)
						  : room / PIN_MOST;

	return more > least ? more : least;
}

/* Whether too much is pinned if `size` bytes are allocated and `more` bytes are pinned with it. */
static bool pins_too_much(const struct cm_heap *heap, uint64_t size, uint64_t more)
{
	return pinned_bytes(heap) + more > pinned_most(heap, used_bytes(heap) + size);
}

/* Whether a free segment is not to be split for `size` bytes. */
static bool spares_segment(const struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	if (!heap->card_fills_up || cm_block_is_split(block) ||
	    block->size <= cm_size_of_driver(size))
		return false;
	return (blocks_grow(heap) && block->size >= card_bytes(heap) / WHOLE_SHARE) ||
	       pins_too_much(heap, size, block->size - size);
}

/* Whether the policy spares the free block, although it fits `size` bytes. */
static bool spares(struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	return cm_paged_serves(heap) ? spares_pages(heap, block, size)
				     : spares_segment(heap, block, size);
}

static bool should_poll_on_pages(struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	return (heap->row->pending_bytes &&
		cm_poll_policy_before_split_locked(heap, size, block->size)) ||
	       (heap->card_fills_up && spares_pages(heap, block, size)) ||
	       divides(heap, block, size);
}

bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
					 uint64_t size)
{
	const uint64_t pending = heap->row->pending_bytes;

	if (cm_paged_serves(heap))
		return should_poll_on_pages(heap, block, size);
	if (pending && pins_too_much(heap, size, block->size - size + pending) &&
	    cm_poll_policy_before_split_locked(heap, size, block->size))
		return true;
	return spares_segment(heap, block, size);
}

/* The first block of the bin with the best fit for `size` bytes, and the block after a given one;
 * 0: there is none. Some blocks of a bin may be smaller. */
static uint32_t first_fit(const struct cm_bins *bins, uint64_t size)
{
	const uint32_t index = cm_bins_find(bins, size).index;

	return index ? bins->head[cm_bins_of(bins->block[index].size >> CM_GRAIN_SHIFT)] : 0;
}

static uint32_t next_fit(const struct cm_bins *bins, uint32_t index)
{
	const struct cm_block *block = &bins->block[index];
	uint32_t bin;

	if (block->link_next)
		return block->link_next;
	bin = cm_bins_next(bins, cm_bins_of(block->size >> CM_GRAIN_SHIFT) + 1);
	return bin < CM_BINS_COUNT ? bins->head[bin] : 0;
}

uint32_t cm_fragmentation_find_locked(struct cm_heap *heap, uint64_t size)
{
	const struct cm_bins *bins = &heap->bins[CM_POOL_LARGE];
	const struct cm_block *block = heap->cache->block;
	uint32_t index = cm_bins_find(bins, size).index, looks;

	if (index && block[index].size > size && divides(heap, &block[index], size))
		return 0;
	if (!index || !spares(heap, &block[index], size))
		return index;
	index = first_fit(bins, size);
	for (looks = 0; index && looks < LOOKS; looks++, index = next_fit(bins, index))
		if (block[index].size >= size && !spares(heap, &block[index], size) &&
		    (block[index].size == size || !divides(heap, &block[index], size)))
			return index;
	return 0;
}

uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most)
{
	const struct cm_bins *bins = &heap->bins[CM_POOL_LARGE];
	const struct cm_block *block = heap->cache->block;
	uint32_t index = first_fit(bins, size), found = 0, looks;
	uint64_t touched;

	for (looks = 0; index && looks < LOOKS; looks++, index = next_fit(bins, index)) {
		touched = cm_paged_touched(block[index].addr, block[index].size, size);
		if (block[index].size >= size && (found ? touched < most : touched <= most)) {
			found = index;
			most = touched;
		}
	}
	heap->futile_searches += found != 0;
	return found;
}

void cm_fragmentation_note_move_locked(struct cm_heap *heap)
{
	heap->spared_moves++;
}

/* The fewest blocks of a size that leave at most 1/32 of their segment unused; if none do, the
 * number that leaves the smallest part unused. */
static uint64_t made_to_measure(uint64_t size, uint64_t most)
{
	uint64_t n, bytes, best = 0, best_n = 1;

	for (n = 1; n * size <= most; n++) {
		bytes = cm_size_of_driver(n * size);
		if (best && n * best <= best_n * bytes)
			continue;
		best = bytes;
		best_n = n;
		if ((bytes - n * size) * UNUSED_SHARE <= bytes)
			break;
	}
	return best;
}

uint64_t cm_fragmentation_segment_bytes_locked(const struct cm_heap *heap, uint64_t size)
{
	const uint64_t bytes = cm_size_segment(&heap->cache->policy, size);

	if (size >= CM_MEDIUM_MAX)
		return cm_device_reserved_locked(heap->device) + bytes > card_bytes(heap) ? size
											  : bytes;
	if (!heap->cache->plain || cm_paged_serves(heap) || size <= CM_SMALL_MAX ||
	    pinned_bytes(heap) + bytes - size <=
		    room_above(heap, used_bytes(heap) + size) / TAIL_SHARE)
		return bytes;
	return made_to_measure(size, bytes);
}
