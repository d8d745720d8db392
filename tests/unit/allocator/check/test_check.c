/* SPDX-License-Identifier: MIT */
/* Each thing that cm_cache_check looks at is made wrong once, and it says what. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/reuse/epoch.h"
#include "allocator/state/pages.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/fixture.h"

/* Something of everything: blocks in use, free, in the open epoch and in a closed one. */
struct stage {
	struct fixture fixture;
	struct cm_cache *cache;
	struct cm_heap *heap;
	struct cm_device *device;
	uint32_t live, large, closed, open;                     /* blocks */
	uint32_t host_live, host_ready, host_open, host_closed; /* pinned ones */
};

static uint32_t get(struct stage *stage, uint64_t bytes)
{
	uint64_t addr = fixture_get(&stage->fixture, bytes);

	assert_int_not_equal(addr, 0);
	return cm_page_map_find(&stage->cache->pages, stage->device->index, addr);
}

static uint32_t get_host(struct stage *stage, uint64_t bytes)
{
	uint64_t addr = 0;

	assert_int_equal(
		cm_cache_host_alloc(stage->cache, stage->heap, CM_HOST_PORTABLE, bytes, &addr), 0);
	return (uint32_t)cm_ptr_map_find(&stage->cache->pinned.map, addr);
}

static void put(struct stage *stage, uint32_t block)
{
	assert_int_equal(fixture_put(&stage->fixture, stage->cache->block[block].addr), 0);
}

static void put_host(struct stage *stage, uint32_t block)
{
	uint64_t forward;

	assert_int_equal(
		cm_cache_host_free(stage->cache, stage->cache->block[block].addr, &forward), 0);
}

static void open_stage(struct stage *stage, bool pages)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.expandable_segments = pages;
	memset(stage, 0, sizeof(*stage));
	assert_true(fixture_open(&stage->fixture, &(struct fixture_params){.policy = &policy}));
	stage->cache = stage->fixture.cache;
	stage->heap = stage->fixture.heap;
	stage->device = stage->heap->device;
	stage->live = get(stage, 4 * KIB);
	stage->closed = get(stage, 4 * KIB);
	stage->open = get(stage, 4 * KIB);
	stage->large = get(stage, 30 * MIB);
}

/* One block of either kind in an epoch that is closed and waits, one in the open one. */
static void leave_epochs(struct stage *stage)
{
	stage->host_live = get_host(stage, 64 * KIB);
	stage->host_closed = get_host(stage, 64 * KIB);
	stage->host_open = get_host(stage, 64 * KIB);
	stage->host_ready = get_host(stage, 64 * KIB);
	put_host(stage, stage->host_ready);
	cm_cache_poll(stage->cache);
	(void)fixture_launch(&stage->fixture, stage->fixture.ctx, 1,
			     stage->cache->block[stage->live].addr, 4 * KIB, FAKE_FOREVER);
	put(stage, stage->closed);
	put_host(stage, stage->host_closed);
	cm_lock_acquire(&stage->cache->event_lock);
	assert_true(cm_epoch_close_event_locked(stage->heap));
	cm_lock_release(&stage->cache->event_lock);
	cm_cache_poll(stage->cache);
	put(stage, stage->open);
	put_host(stage, stage->host_open);
}

static void close_stage(struct stage *stage)
{
	fake_finish_all();
	fixture_close(&stage->fixture);
}

static void try_wrong(struct stage *stage, void *at, size_t bytes, uint64_t value,
		      const char *expected)
{
	char why[200] = "";
	uint64_t before = 0;
	int err;

	memcpy(&before, at, bytes);
	memcpy(at, &value, bytes);
	err = cm_cache_check(stage->cache, why, sizeof(why));
	memcpy(at, &before, bytes);
	if (err != -EUCLEAN || !strstr(why, expected))
		fail_msg("for \"%s\" it answers %d, \"%s\"", expected, err, why);
	if (cm_cache_check(stage->cache, why, sizeof(why)))
		fail_msg("after \"%s\": %s", expected, why);
}

/* As long as `field` has that value, the complaint is `expected`. */
#define WRONG(stage, field, value, expected) \
	try_wrong(stage, (void *)&(field), sizeof(field), (uint64_t)(value), expected)

static struct cm_segment *segment_of(const struct stage *stage, uint32_t block)
{
	return &stage->cache->segment[stage->cache->block[block].segment];
}

static struct cm_page *page_of(const struct stage *stage, uint64_t addr)
{
	return cm_page_map_look(&stage->cache->pages, addr);
}

CM_TEST(wrong_segments_and_blocks_are_named)
{
	struct stage stage;
	struct cm_block *block;
	struct cm_segment *segment;
	uint32_t free_block, medium;

	open_stage(&stage, false);
	medium = get(&stage, 3 * MIB);
	block = stage.cache->block;
	segment = segment_of(&stage, stage.live);
	free_block = block[stage.open].next;
	assert_int_equal(block[free_block].state, CM_BLOCK_FREE);

	WRONG(&stage, segment->first, 0, "stand for");
	WRONG(&stage, segment->first, stage.cache->blocks, "is not its own");
	WRONG(&stage, segment->heap, 9, "belongs to heap 9");
	WRONG(&stage, segment->context, 77, "is not of its heap's context");
	WRONG(&stage, segment->flags, segment->flags | CM_SEGMENT_EXACT, "is of one piece");
	WRONG(&stage, segment->flags, segment->flags | CM_SEGMENT_HOST, "is lost");
	WRONG(&stage, segment->flags, 0, "segment rows are in use");
	WRONG(&stage, segment->blocks, 7, "stand for 7");
	WRONG(&stage, stage.cache->spare_segment, 1, "segment rows are in use");
	WRONG(&stage, block[stage.closed].addr, 512, "does not follow");
	WRONG(&stage, block[stage.live].size, 0, "has 0 bytes");
	WRONG(&stage, block[stage.live].requested, 1 * MIB, "serves 1048576");
	WRONG(&stage, block[stage.live].state, 17, "is in state 17");
	WRONG(&stage, block[stage.open].state, CM_BLOCK_FREE, "2 blocks are not free, not 3");
	WRONG(&stage, segment->busy, 7, "3 blocks are not free, not 7");
	WRONG(&stage, block[medium].state, CM_BLOCK_FREE, "are free neighbours");
	stage.heap->may_be_apart = false;
	WRONG(&stage, block[stage.open].state, CM_BLOCK_FREE, "are free neighbours");
	stage.heap->may_be_apart = true;
	WRONG(&stage, stage.cache->is_free[stage.live], 1, "is marked as free");
	WRONG(&stage, stage.device->spare_block, stage.live, "is in use");
	WRONG(&stage, stage.device->spare_block, 0, "is lost");
	WRONG(&stage, page_of(&stage, segment->addr)->device, 0, "the page map does not know");
	WRONG(&stage, page_of(&stage, segment->addr)->owner, 9, "the page map does not know");
	WRONG(&stage, *cm_page_cell(page_of(&stage, segment->addr), segment->addr), 0,
	      "the page map has block 0 in place of");
	WRONG(&stage, *cm_page_cell(page_of(&stage, segment->addr), segment->addr), stage.closed,
	      "the page map has block 0 in place of");
	WRONG(&stage, *cm_recent_at(&stage.device->recent, block[stage.live].addr), stage.large,
	      "knows block");
	WRONG(&stage, *cm_recent_at(&stage.device->recent, block[stage.live].addr),
	      stage.device->spare_block, "knows block");
	WRONG(&stage, block[free_block].requested, 1, "does not name block");
	WRONG(&stage, segment_of(&stage, stage.large)->addr, segment->addr, "does not follow");
	close_stage(&stage);
}

CM_TEST(wrong_heaps_and_epochs_are_named)
{
	struct cm_batch *closed;
	struct cm_block *block;
	struct stage stage;
	struct cm_heap *heap;

	open_stage(&stage, false);
	leave_epochs(&stage);
	block = stage.cache->block;
	heap = stage.heap;
	closed = &heap->epochs.closed[heap->epochs.oldest & (CM_BATCHES_MAX - 1)];
	assert_int_equal(closed->list.first, stage.closed);
	assert_int_equal(heap->epochs.open.list.first, stage.open);

	WRONG(&stage, heap->state, CM_STATE_UNUSED, "in use in one place only");
	WRONG(&stage, heap->state, CM_STATE_DEAD, "its flags are 0x1");
	WRONG(&stage, heap->row->flags, 0, "its flags are 0");
	WRONG(&stage, stage.cache->suspended, 1, "0 heaps are suspended, not 1");
	WRONG(&stage, heap->live_bytes, 1, "bytes are live, not 1");
	WRONG(&stage, heap->epochs.oldest, heap->epochs.oldest + 9, "has epochs");
	WRONG(&stage, closed->number, 99, "stands in the place of");
	WRONG(&stage, closed->list.first, stage.live, "by mistake");
	WRONG(&stage, heap->epochs.open.list.first, stage.closed, "by mistake");
	WRONG(&stage, heap->epochs.open.bytes, 1, "states 1 blocks of 1 bytes");
	WRONG(&stage, heap->row->pending_bytes, 1, "its epochs hold");
	WRONG(&stage, stage.cache->contexts, 4, "contexts have a heap, not 4");
	WRONG(&stage, block[stage.closed].link_next, stage.open, "and holds 2");
	close_stage(&stage);
}

CM_TEST(wrong_bins_are_named)
{
	uint32_t index, bin, other = 4000;
	struct cm_block *block;
	struct cm_bins *bins;
	struct stage stage;

	open_stage(&stage, false);
	block = stage.cache->block;
	bins = &stage.heap->bins[CM_POOL_SMALL];
	index = block[stage.open].next;
	bin = cm_bins_of(block[index].size >> CM_GRAIN_SHIFT);
	assert_int_equal(bins->head[bin], index);

	WRONG(&stage, bins->head[bin], stage.live, "and is not free");
	WRONG(&stage, bins->head[bin], 0, "the bitmap is wrong about bin");
	WRONG(&stage, bins->head[other], index, "the bitmap is wrong about bin");
	WRONG(&stage, bins->map[bin >> 6], 0, "the upper bitmap is wrong");
	WRONG(&stage, bins->top[bin >> 12], 0, "the upper bitmap is wrong");
	WRONG(&stage, block[index].link_next, index, "is broken at block");
	close_stage(&stage);
}

CM_TEST(wrong_counters_are_named)
{
	struct cm_device_row *row;
	struct stage stage;

	open_stage(&stage, false);
	row = stage.device->row;

	WRONG(&stage, row->seq, row->seq + 1, "is in the middle of a change");
	WRONG(&stage, row->heaps, 5, "has 1 heaps, not 5");
	WRONG(&stage, row->stat[CM_POOL_SMALL].current[CM_STAT_SEGMENT], 40, "the rows make");
	WRONG(&stage, row->stat[CM_POOL_SMALL].peak[CM_STAT_SEGMENT], 0, "above its peak");
	WRONG(&stage, row->stat1[CM_STAT1_OVERSIZE_SEGMENTS].allocated, 40, "less");
	WRONG(&stage, row->stat1[CM_STAT1_OVERSIZE_SEGMENTS].current, 3, "the rows make");
	close_stage(&stage);
}

CM_TEST(wrong_pages_are_named)
{
	struct cm_paged *paged;
	struct cm_segment *run;
	struct stage stage;
	uint32_t at = 0;

	open_stage(&stage, true);
	paged = stage.heap->device->paged[CM_POOL_LARGE];
	assert_non_null(paged);
	run = segment_of(&stage, stage.large);
	at = (uint32_t)((run->addr - paged->base) / CM_PAGED_PAGE);

	WRONG(&stage, paged->page[at].run, 0, "is not where segment 0 begins");
	WRONG(&stage, paged->page[at].handle, 0, "is not where segment");
	WRONG(&stage, paged->page[at + run->size / CM_PAGED_PAGE - 1].run, 0, "is not its own");
	WRONG(&stage, paged->top, at, "bytes of pages are mapped, runs have");
	WRONG(&stage, paged->top, paged->top - 1, "and 14 pages");
	/* The next run is not joined to memory that others see. */
	assert_int_equal(cm_cache_mark_exported(stage.cache, stage.cache->block[stage.large].addr),
			 0);
	(void)get(&stage, 30 * MIB);
	at += (uint32_t)(run->size / CM_PAGED_PAGE);
	WRONG(&stage, paged->page[at].handle, paged->page[at - 1].handle, "shares a handle");
	close_stage(&stage);
}

CM_TEST(wrong_pinned_memory_is_named)
{
	struct cm_pinned *pinned;
	struct cm_batch *closed;
	struct cm_segment *segment;
	struct cm_block *block;
	struct stage stage;

	open_stage(&stage, false);
	leave_epochs(&stage);
	cm_cache_host_add_registered(stage.cache, stage.heap, 0x1000, 4096, 0);
	block = stage.cache->block;
	pinned = &stage.cache->pinned;
	segment = segment_of(&stage, stage.host_live);
	closed = &pinned->batches.closed[pinned->batches.oldest & (CM_BATCHES_MAX - 1)];

	WRONG(&stage, segment->first, 0, "host segment");
	WRONG(&stage, segment->heap, 9, "is of heap 9");
	WRONG(&stage, segment->blocks, 2, "is not the one of block");
	WRONG(&stage, block[stage.host_live].state, 17, "is in state 17");
	WRONG(&stage, block[stage.host_live].requested, 1 * MIB, "serves 1048576");
	WRONG(&stage, pinned->map.count, 17, "17 in the map");
	WRONG(&stage, pinned->batches.open.list.first, stage.host_live, "by mistake");
	WRONG(&stage, pinned->batches.open.bytes, 3, "states 3 bytes");
	WRONG(&stage, pinned->row->seq, pinned->row->seq + 1,
	      "pinned memory is in the middle of a change");
	WRONG(&stage, pinned->row->segment.current, 40, "host segment is 40");
	WRONG(&stage, pinned->row->segment.peak, 0, "host segment is");
	assert_int_not_equal(pinned->batches.oldest, pinned->batches.open.number);
	WRONG(&stage, closed->number, 99, "stands in the place of");
	WRONG(&stage, closed->list.first, stage.host_live, "by mistake");
	assert_int_equal(block[stage.host_ready].state, CM_BLOCK_FREE);
	WRONG(&stage, pinned->aged.first, stage.host_live, "is out of order");
	WRONG(&stage, pinned->aged.last, stage.host_live, "by age");
	WRONG(&stage, block[stage.host_ready].link_prev, stage.host_live, "is ready in class");
	close_stage(&stage);
}
