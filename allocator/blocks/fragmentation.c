/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/fragmentation.h"

#include "allocator/base/size_class.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/blocks/whole.h"
#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* Shares of the card; docs/decisions/pages.md has what others measure. */
#define PACK_TENTHS 7  /* reserved: blocks go where they touch few pages */
#define FULL_SHARE  32 /* not reserved: less is hardly any room */
/* Until a 32nd more is in use than when they were counted anew: questions, and requests for which
 * pages are moved. */
#define QUESTIONS_MOST 1024u
#define MOVES_MOST     256u
#define RISE_SHARE     32
#define LOOKS          256u /* at free blocks, for one that is not spared */

static uint64_t used_bytes(const struct cm_heap *heap)
{
	return (uint64_t)cm_stat_current(heap->device->row, CM_STAT_ALLOCATED_BYTES);
}

/* What the process can have of the card, as far as is known. */
static uint64_t card_bytes(const struct cm_heap *heap)
{
	const struct cm_device *device = heap->device;
	uint64_t bytes = device->row->total_bytes;

	if (device->row->allowed_bytes && device->row->allowed_bytes < bytes)
		bytes = device->row->allowed_bytes;
	return device->refused_at && device->refused_at < bytes ? device->refused_at : bytes;
}

static bool card_fills_up(const struct cm_heap *heap)
{
	/* An old driver can only be waited for without a limit. */
	return heap->cache->policy.exchange && heap->can & CM_CAN_CTX_EVENTS &&
	       cm_paged_serves(heap) &&
	       cm_device_reserved_locked(heap->device) >= card_bytes(heap) / 10 * PACK_TENTHS;
}

void cm_fragmentation_note_reserved_locked(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;

	cm_poll_policy_note_reserved_locked(device);
	cm_whole_note_reserved_locked(device);
	if (cm_device_reserved_locked(heap->device) >= device->refused_at)
		device->refused_at = 0;
	heap->card_fills_up = card_fills_up(heap);
	if (heap->card_fills_up)
		heap->pending_sizes = ~UINT64_C(0);
	else if (!heap->row->pending_blocks)
		heap->pending_sizes = 0;
}

void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes)
{
	heap->device->refused_at = cm_device_reserved_locked(heap->device) + bytes;
}

/* Counts anew where more is in use than ever. */
static void note_rise(struct cm_heap *heap)
{
	const uint64_t used = used_bytes(heap);

	if (used <= heap->spared_at + heap->spared_at / RISE_SHARE)
		return;
	heap->spared_at = used;
	heap->spared_questions = heap->moves = 0;
}

/* Hardly any room is left: to move pages at every step is better than to fail. */
static bool is_full(const struct cm_heap *heap)
{
	const uint64_t card = card_bytes(heap);

	return cm_device_reserved_locked(heap->device) + card / FULL_SHARE >= card;
}

bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap)
{
	if (!heap->card_fills_up || !cm_paged_serves(heap))
		return false;
	if (is_full(heap))
		return true;
	note_rise(heap);
	return heap->moves < MOVES_MOST && heap->spared_questions < QUESTIONS_MOST;
}

/* Whether the free block is left alone, where `size` bytes of it would do: shared pages at both
 * ends would take what is more than whole pages. */
static bool spares(struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	return heap->cache->segment[block->segment].flags & CM_SEGMENT_PAGED &&
	       cm_paged_touched(block->addr, block->size, size) > size / CM_PAGED_PAGE &&
	       cm_fragmentation_packs_pages_locked(heap);
}

bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
					 uint64_t size)
{
	return (heap->row->pending_blocks &&
		cm_poll_policy_has_pending_between_locked(heap, size, block->size)) ||
	       spares(heap, block, size);
}

/* The first block of the bin in which the best fit for `size` bytes stands, and the next one behind
 * a block; 0: there is none. Of blocks of a bin some may be smaller. */
static uint32_t first_fit(const struct cm_bins *bins, uint64_t size)
{
	const uint32_t index = cm_bins_find(bins, size);

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
	const struct cm_bins *bins = &heap->bins[CM_FIT_LARGE];
	const struct cm_block *block = heap->cache->block;
	uint32_t index = cm_bins_find(bins, size), looks;

	if (!index || !spares(heap, &block[index], size))
		return index;
	index = first_fit(bins, size);
	for (looks = 0; index && looks < LOOKS; looks++, index = next_fit(bins, index))
		if (block[index].size >= size && !spares(heap, &block[index], size))
			return index;
	return 0;
}

uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most)
{
	const struct cm_bins *bins = &heap->bins[CM_FIT_LARGE];
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
	heap->spared_questions += found != 0;
	return found;
}

void cm_fragmentation_note_move_locked(struct cm_heap *heap)
{
	heap->moves++;
}
