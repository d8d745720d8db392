/* SPDX-License-Identifier: MIT */
/*
 * Frees of any address, and the look-up of addresses. The path of most frees is in blocks/free.h.
 */
#include <errno.h>

#include "allocator/blocks/free.h"
#include "allocator/blocks/heap.h"
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/paged/paged.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/ordered.h"
#include "allocator/reuse/reach.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"

/* How often, and for how long, a thread tries a lock that it may hold itself: others hold it for
 * less than a microsecond, or some milliseconds if they are preempted. */
#define INSIDE_TRIES  400
#define INSIDE_NAP_NS UINT64_C(50000)

/* An address inside our memory at which no driver allocation starts: the driver refuses it like any
 * stale pointer. */
static uint64_t invalid_alias(const struct cm_place_info *info, uint64_t addr)
{
	return addr == info->segment_addr ? addr + 1 : addr;
}

static enum cm_place place_of(const struct cm_block *block, uint64_t addr)
{
	if (block->state != CM_BLOCK_LIVE)
		return CM_PLACE_IDLE;
	return block->addr == addr ? CM_PLACE_LIVE : CM_PLACE_INTERIOR;
}

static bool is_idle(const struct cm_cache *cache, const struct cm_segment *segment)
{
	uint32_t b = segment->first;

	while (b && cache->block[b].state != CM_BLOCK_LIVE)
		b = cache->block[b].next;
	return !b;
}

static struct cm_place_info tell_place(struct cm_cache *cache, uint32_t b, uint64_t addr)
{
	const struct cm_block *block = &cache->block[b];
	const struct cm_segment *segment = &cache->segment[block->segment];
	const enum cm_place place = place_of(block, addr);

	return (struct cm_place_info){
		.place = place,
		.block_addr = block->addr,
		.block_size = block->size,
		.requested = place == CM_PLACE_IDLE ? 0 : block->requested,
		.segment_addr = segment->addr,
		.segment_size = segment->size,
		.segment_flags = segment->flags,
		.segment_is_idle = place == CM_PLACE_IDLE && is_idle(cache, segment),
		.ctx = segment->context,
	};
}

/* If the memory is on its way to the driver, waits for the driver's answer, which counts then. */
static int lookup_each(struct cm_device *device, uint64_t addr, void *data)
{
	struct cm_cache *cache = device->cache;
	struct cm_place_info *info = data;
	bool pending;
	uint32_t b;

	do {
		cm_lock_acquire(&device->lock);
		b = cm_rows_find_block_locked(device, addr);
		if (b)
			*info = tell_place(cache, b, addr);
		pending = !b && cm_pending_release_has_locked(&device->releases, addr);
		cm_lock_release(&device->lock);
	} while (pending && cm_pending_release_await(&device->releases, cache->ops, addr));
	if (pending)
		*info = (struct cm_place_info){
			.place = CM_PLACE_IDLE, .segment_addr = addr, .segment_is_idle = true};
	return b || pending ? 0 : -ENOENT;
}

/* If no other context can reach the memory, what was freed is ready after this. */
static bool make_all_ready(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;
	bool ready;

	if (!cache->ops->gate_enter())
		return false;
	cm_lock_acquire(&cache->event_lock);
	ready = cm_reach_is_alone_event_locked(heap) && cm_epoch_synchronize_event_locked(heap);
	cm_lock_release(&cache->event_lock);
	cache->ops->gate_leave();
	return ready;
}

/* With sync=free the program waits here, as it would in cudaFree, and gets the errors of earlier
 * work of the context that is current. A cudaFree does not wait for other contexts; for them the
 * block waits in its epoch. */
static int wait_for_context(struct cm_heap *heap)
{
	const struct cm_heap *own = cm_thread.heap;
	const int err = make_all_ready(heap) ? 0 : cm_heap_synchronize(heap);

	return own && own->first != heap->first ? 0 : err;
}

/* While a capture is active the segment stays unreclaimed until the next release. If another thread
 * is releasing it, wait for that thread: after a free without pending work the driver has the
 * memory. */
static int release_segment(struct cm_device *device, uint32_t segment, uint64_t addr)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	int err;

	if (!ops->gate_enter()) {
		cm_device_note_unreclaimed(device);
		return 0;
	}
	err = cm_release_unreclaimed_segment(device, segment);
	ops->gate_leave();
	(void)cm_pending_release_await(&device->releases, ops, addr);
	return err;
}

/* No block in use starts there, but it may be inside our memory, or in memory that is on its way to
 * the driver. */
static int refuse(struct cm_device *device, uint64_t addr, uint64_t *ret_forward)
{
	struct cm_place_info info;

	if (lookup_each(device, addr, &info))
		return -ENOENT;
	*ret_forward = invalid_alias(&info, addr);
	return -EFAULT;
}

/* What remains to be done after a free on the device, or after one that failed. */
static int finish_free(struct cm_device *device, uint64_t addr, struct cm_freed freed,
		       uint64_t *ret_forward)
{
	if (!freed.heap)
		return refuse(device, addr, ret_forward);
	if (freed.unreclaimed_segment)
		return release_segment(device, freed.unreclaimed_segment, addr);
	if (device->cache->policy.sync == CM_SYNC_FREE)
		return wait_for_context(freed.heap);
	return 0;
}

/* Calls `each` for the devices that may own addr, until one returns something other than -ENOENT:
 * the one that has the page now, then others that had it. */
static int on_device_of(struct cm_cache *cache, uint64_t addr,
			int (*each)(struct cm_device *device, uint64_t addr, void *data),
			void *data)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	uint8_t owner, page = cm_page_map_get(&cache->pages, addr);
	int err = -ENOENT;

	if (page == CM_PAGE_NONE)
		return -ENOENT;
	/* Anew if the page has moved to another shard meanwhile. */
	do {
		owner = cm_page_map_owner(&cache->pages, addr);
		if (owner != CM_PAGE_NONE)
			err = each(cache->device[owner - 1], addr, data);
	} while (err == -ENOENT && cm_page_map_owner(&cache->pages, addr) != owner);
	page = cm_page_map_get(&cache->pages, addr);
	for (i = 0; i < n && err == -ENOENT; i++)
		if ((page == CM_PAGE_MIXED || i == page - 1u) && i != owner - 1u)
			err = each(cache->device[i], addr, data);
	return err;
}

static int free_each(struct cm_device *device, uint64_t addr, void *data)
{
	const struct cm_heap *own = cm_thread.heap;

	if (CM_UNLIKELY(cm_device_has_shards(device) && own && own->device != device &&
			own->device->first == device->first))
		cm_thread.remote_frees++;
	return finish_free(device, addr, cm_device_free(device, addr), data);
}

int cm_cache_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	int err = on_device_of(cache, addr, free_each, ret_forward);

	cm_check_after(cache);
	return err;
}

/* If this thread already holds the lock, trylock fails. */
static bool can_lock(struct cm_device *device)
{
	uint64_t backoff = INSIDE_NAP_NS;
	int tries;

	for (tries = 0; tries < INSIDE_TRIES; tries++) {
		if (cm_lock_try(&device->lock)) {
			cm_lock_release(&device->lock);
			return true;
		}
		cm_ops_backoff(device->cache->ops, &backoff, INSIDE_NAP_NS);
	}
	return false;
}

static int free_inside_each(struct cm_device *device, uint64_t addr, void *data)
{
	return can_lock(device) ? free_each(device, addr, data) : -ENOENT;
}

int cm_cache_free_inside(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	return on_device_of(cache, addr, free_inside_each, ret_forward);
}

void cm_cache_lookup(struct cm_cache *cache, uint64_t addr, struct cm_place_info *ret_info)
{
	*ret_info = (struct cm_place_info){.place = CM_PLACE_FOREIGN};
	(void)on_device_of(cache, addr, lookup_each, ret_info);
}

static int export_each(struct cm_device *device, uint64_t addr, void *data)
{
	struct cm_cache *cache = device->cache;
	struct cm_heap **heap = data;
	struct cm_segment *segment;
	uint32_t b;

	cm_lock_acquire(&device->lock);
	b = cm_rows_find_block_locked(device, addr);
	if (b) {
		segment = &cache->segment[cache->block[b].segment];
		*heap = cm_segment_heap(cache, segment);
		if (cm_segment_is_recycled(cache, segment))
			cm_heap_unbin_segment_locked(*heap, segment);
		__atomic_fetch_or(&segment->flags, CM_SEGMENT_EXPORTED, __ATOMIC_RELAXED);
	}
	cm_lock_release(&device->lock);
	return b ? 0 : -ENOENT;
}

/* Memory may have been allocated behind a barrier of another shard, and moved. */
static void settle_context(const struct cm_heap *heap)
{
	struct cm_heap *each;
	uint32_t at = 0;

	while ((each = cm_heap_next_shard(heap, &at)))
		cm_ordered_settle(each);
}

int cm_cache_mark_exported(struct cm_cache *cache, uint64_t addr)
{
	struct cm_heap *heap;
	int err = on_device_of(cache, addr, export_each, &heap);

	if (!err)
		settle_context(heap);
	return err;
}

void cm_cache_mark_shared(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx), *each;
	uint32_t at = 0;

	if (!heap)
		return;
	/* The event lock: no barrier is laid from here on. */
	cm_lock_acquire(&cache->event_lock);
	while ((each = cm_heap_next_shard(heap, &at))) {
		cm_lock_acquire(&each->device->lock);
		__atomic_fetch_or(&each->row->flags, CM_HEAP_SHARED, __ATOMIC_RELAXED);
		cm_lock_release(&each->device->lock);
	}
	cm_lock_release(&cache->event_lock);
	settle_context(heap);
}

int cm_cache_open_to(struct cm_cache *cache, uint64_t ctx, uint64_t ordinals)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);

	if (!heap || !ordinals)
		return 0;
	cm_cache_mark_shared(cache, ctx);
	return cm_paged_open_to(heap, ctx, ordinals);
}
