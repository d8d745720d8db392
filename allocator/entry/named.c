/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program names to devices other than the GPU.
 */
#include "allocator/cache.h"
#include "allocator/reuse/ordered.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"

struct range {
	uint64_t addr;
	uint64_t end;
};

static struct range range_of(uint64_t addr, uint64_t bytes)
{
	struct range range = {addr, 0};

	if (__builtin_add_overflow(addr, bytes, &range.end))
		range.end = UINT64_MAX;
	return range;
}

static bool overlaps(const struct cm_segment *segment, const struct range *range)
{
	return segment->addr < range->end && range->addr < segment->addr + segment->size;
}

/* Sets the flags on the device's segments in the range that have those of `on`; whether there are
 * any. */
static bool mark(struct cm_device *device, const struct range *range, uint32_t on, uint32_t flags)
{
	struct cm_cache *cache = device->cache;
	struct cm_segment *segment;
	bool found = false;
	uint32_t s, end;

	cm_lock_acquire(&device->lock);
	end = cm_rows_segments(cache);
	for (s = 1; s < end; s++) {
		segment = &cache->segment[s];
		if (!cm_segment_is_of(segment, device) || (segment->flags & on) != on ||
		    !overlaps(segment, range))
			continue;
		__atomic_fetch_or(&segment->flags, flags, __ATOMIC_RELAXED);
		found = true;
	}
	cm_lock_release(&device->lock);
	return found;
}

static void settle(struct cm_device *device)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	while ((heap = cm_device_next_heap(device, &at)))
		cm_ordered_settle(heap);
}

/* In this order: a barrier that is laid between the mark and the wait either leaves the blocks out,
 * or the wait covers it. */
static bool name_on(struct cm_device *device, const struct range *range)
{
	if (!mark(device, range, CM_SEGMENT_USED, CM_SEGMENT_NAMED))
		return false;
	settle(device);
	(void)mark(device, range, CM_SEGMENT_NAMED, CM_SEGMENT_SETTLED);
	return true;
}

/* Runs of pages join others that are not settled, so each call waits for them. */
static bool is_settled(struct cm_cache *cache, const struct range *range)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, range->addr, &info);
	return info.place != CM_PLACE_FOREIGN && info.segment_flags & CM_SEGMENT_SETTLED &&
	       !(info.segment_flags & CM_SEGMENT_PAGED) &&
	       range->end <= info.segment_addr + info.segment_size;
}

bool cm_cache_mark_named(struct cm_cache *cache, uint64_t addr, uint64_t bytes)
{
	const uint32_t n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	const struct range range = range_of(addr, bytes);
	bool marked = false;
	uint32_t i;

	if (is_settled(cache, &range))
		return false;
	/* Before the first mark, see cm_ordered_add_event_locked. */
	atomic_store_explicit(&cache->has_named, true, memory_order_relaxed);
	for (i = 0; i < n; i++)
		marked |= name_on(cache->device[i], &range);
	return marked;
}

void cm_cache_mark_reached(struct cm_cache *cache)
{
	uint32_t i, n;

	/* The event lock: heaps that are made from here on read it. */
	cm_lock_acquire(&cache->event_lock);
	cache->policy.reached = true;
	cm_lock_release(&cache->event_lock);
	n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	for (i = 0; i < n; i++)
		cm_cache_mark_shared(cache, cm_heap_ctx(atomic_load_explicit(
						    &cache->heap[i], memory_order_relaxed)));
}
