/* SPDX-License-Identifier: MIT */
/*
 * What the hooks announce of work: the program's own waits for it, and in processes with several
 * devices what it names.
 */
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/ordered.h"
#include "allocator/state/state.h"

static uint32_t count_devices(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->devices, memory_order_acquire);
}

bool cm_cache_has_devices(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->first_shards, memory_order_acquire) > 1;
}

uint64_t cm_cache_all_rows(const struct cm_cache *cache)
{
	return cm_cache_rows_of_devices(cache, UINT64_MAX);
}

uint64_t cm_cache_rows_of_devices(const struct cm_cache *cache, uint64_t ordinals)
{
	uint32_t i, n = count_devices(cache);
	uint64_t rows = 0;

	for (i = 0; i < n; i++)
		if (cm_device_is_first(cache->device[i]) &&
		    ordinals >> (cache->device[i]->row->ordinal & 63) & 1)
			rows |= UINT64_C(1) << i;
	return rows;
}

uint64_t cm_cache_rows_of(const struct cm_cache *cache, uint64_t addr)
{
	const uint8_t had = cm_page_map_get(&cache->pages, addr);
	const uint8_t owner = had == CM_PAGE_MIXED ? cm_page_map_owner(&cache->pages, addr)
						   : CM_PAGE_NONE;
	const uint8_t page = owner != CM_PAGE_NONE ? owner : had;

	if (page == CM_PAGE_NONE)
		return 0;
	return page == CM_PAGE_MIXED ? cm_cache_all_rows(cache)
				     : UINT64_C(1) << cache->device[page - 1]->first->index;
}

static bool is_anything_pending(const struct cm_heap *heap)
{
	const struct cm_heap *each;
	uint32_t at = 0;

	while ((each = cm_heap_next_shard(heap, &at)))
		if (cm_heap_pending_bytes(each))
			return true;
	return false;
}

struct cm_program_wait cm_cache_begin_wait(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_program_wait wait = {0};
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);

	if (heap && is_anything_pending(heap) && cm_lock_try(&cache->event_lock)) {
		wait = cm_epoch_begin_wait_event_locked(heap, ctx);
		cm_lock_release(&cache->event_lock);
	}
	return wait;
}

void cm_cache_end_wait(const struct cm_program_wait *wait)
{
	struct cm_cache *cache;

	if (!wait->shards)
		return;
	cache = wait->shard[0].heap->cache;
	if (!cache->ops->gate_enter())
		return;
	if (cm_lock_try(&cache->event_lock)) {
		cm_epoch_end_wait_event_locked(wait);
		cm_lock_release(&cache->event_lock);
	}
	cache->ops->gate_leave();
	cm_check_after(cache);
}

/* Release: a thread that reads the number sees the work counted as under way, too
 * (cm_epoch_begin_idle_event_locked acquires). */
static void count_work(struct cm_device *device)
{
	(void)__atomic_fetch_add(device->own_work, 1, __ATOMIC_RELEASE);
}

/* Waits for work on what was allocated behind the last barrier of each heap of the device; no
 * further barrier is laid from now on. Heaps without context events have no barriers. They are
 * skipped, as the event lock may be held for long. */
static void settle(const struct cm_device *device)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	while ((heap = cm_device_next_heap(device, &at)))
		/* One that is being opened has no barrier yet. */
		if (__atomic_load_n(&heap->can, __ATOMIC_RELAXED) & CM_CAN_CTX_EVENTS)
			cm_ordered_settle(heap);
}

static uint32_t take_row(uint64_t *rows)
{
	const uint32_t row = (uint32_t)__builtin_ctzll(*rows);

	*rows &= *rows - 1;
	return row;
}

struct cm_submission cm_cache_begin_reach(struct cm_cache *cache, uint64_t ctx, uint64_t named)
{
	const struct cm_heap *heap = named ? cm_cache_find_heap(cache, ctx) : NULL;
	struct cm_submission submission = {0};
	struct cm_device *device;
	uint64_t rows;

	if (!heap)
		return submission;
	submission.by = heap->device->first->index;
	submission.named = named & ~(UINT64_C(1) << submission.by);
	for (rows = submission.named; rows;) {
		device = cache->device[take_row(&rows)];
		/* The driver may also order the work after all earlier work of the other device
		 * (cuMemcpyPeer). */
		count_work(device);
		count_work(heap->device);
		atomic_fetch_add_explicit(&device->reach[submission.by].begun, 1,
					  memory_order_relaxed);
		settle(device);
	}
	return submission;
}

void cm_cache_end_reach(struct cm_cache *cache, struct cm_submission submission)
{
	struct cm_reach *reach;

	while (submission.named) {
		reach = &cache->device[take_row(&submission.named)]->reach[submission.by];
		/* Release: a thread that sees the count records its events after the work. */
		atomic_fetch_add_explicit(&reach->ended, 1, memory_order_release);
	}
}

void cm_cache_note_work(struct cm_cache *cache, uint64_t ctx)
{
	const struct cm_heap *heap = cm_cache_find_heap(cache, ctx);
	uint32_t i, n = count_devices(cache);

	for (i = 0; i < n; i++)
		if (cm_device_is_first(cache->device[i]) &&
		    (!heap || heap->device == cache->device[i]))
			count_work(cache->device[i]);
}
