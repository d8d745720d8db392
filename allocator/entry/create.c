/* SPDX-License-Identifier: MIT */
/* Creates and destroys a cache, and gives devices and contexts their rows and heaps. */
#include "allocator/cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/entry/create.h"
#include "allocator/entry/uncached.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/ordered.h"
#include "allocator/reuse/reach.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/limit.h"
#include "allocator/state/pages.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"
#include "stats/counters.h"
#include "stats/region.h"
#include "stats/sparse.h"

/* CUDA's contexts and its libraries' own memory take some 300 to 700 MiB on today's cards. */
#define CONTEXT_BYTES_MAX (UINT64_C(1) << 30)

/* Distinguishes the number of a device from that of the process. */
#define OWN_WORK (UINT64_C(1) << 63)

static void *map_zeroed(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	return memory == MAP_FAILED ? NULL : memory;
}

int cm_cache_create(const struct cm_cache_params *params, struct cm_cache **ret_cache)
{
	struct cm_cache *cache = cm_sparse_map(sizeof(*cache));
	bool unlimited;

	if (!cache)
		return -ENOMEM;
	cache->ops = params->ops;
	cache->policy = *params->policy;
	unlimited = cache->policy.max_split_size == UINT64_MAX;
	cache->plain = unlimited && cache->policy.placement == CM_PLACEMENT_SPLIT;
	cache->exact = unlimited && cache->policy.placement == CM_PLACEMENT_EXACT;
	cache->region = params->region;
	cache->pinned_events = params->region->header->record.events;
	cache->events = cache->pinned_events ? UINT64_MAX : 0;
	cache->block = cm_region_row(params->region, CM_TABLE_BLOCK, 0);
	cache->segment = cm_region_row(params->region, CM_TABLE_SEGMENT, 0);
	cache->blocks = CM_SPARE_BATCH; /* row 0 means none; see is_free for the others */
	cache->segments = 1;            /* row 0 means none */
	if (cm_region_commit(cache->region, CM_TABLE_BLOCK, cache->blocks) ||
	    cm_region_commit(cache->region, CM_TABLE_SEGMENT, 1) ||
	    cm_page_map_init(&cache->pages, cache->block)) {
		(void)munmap(cache, sizeof(*cache));
		return -ENOMEM;
	}
	cm_lock_init(&cache->event_lock, CM_LOCK_EVENT, 0);
	cm_lock_init(&cache->uncached.lock, CM_LOCK_UNCACHED, 0);
	cm_lock_init(&cache->tables, CM_LOCK_TABLES, 0);
	cm_pinned_init(cache);
	*ret_cache = cache;
	return 0;
}

bool cm_cache_has_hits(const struct cm_cache *cache)
{
	return cache->plain && !cm_size_is_rounded_up(&cache->policy) && !cache->ops->tick &&
	       cache->policy.mode == CM_MODE_CACHE && cache->policy.sync != CM_SYNC_FREE;
}

void cm_cache_destroy(struct cm_cache *cache)
{
	uint32_t i;

	if (!cache)
		return;
	for (i = 0; i < cache->heaps; i++)
		(void)munmap(cache->heap[i], sizeof(*cache->heap[i]));
	for (i = 0; i < cache->devices; i++)
		(void)munmap(cache->device[i], sizeof(*cache->device[i]));
	cm_ptr_map_fini(&cache->pinned.map);
	cm_uncached_fini(&cache->uncached);
	cm_page_map_fini(&cache->pages);
	(void)munmap(cache, sizeof(*cache));
}

static void fill_device_row(struct cm_cache *cache, struct cm_device_row *row,
			    const struct cm_context_info *info)
{
	row->ordinal = info->ordinal;
	memcpy(row->uuid, info->uuid, sizeof(row->uuid));
	memcpy(row->name, info->name, sizeof(row->name));
	row->name[sizeof(row->name) - 1] = '\0';
	memcpy(row->pci, info->pci, sizeof(row->pci));
	row->pci[sizeof(row->pci) - 1] = '\0';
	row->total_bytes = info->total_bytes;
	row->free_bytes = info->free_bytes;
	row->free_seen_ns = cache->ops->now_ns();
	row->max_split_size = cache->policy.max_split_size == UINT64_MAX
				      ? -1
				      : (int64_t)cache->policy.max_split_size;
	row->flags = CM_DEVICE_USED | (info->simulated ? CM_DEVICE_SIMULATED : 0);
}

/* Memory that is missing before the first request: this process's contexts may have it, up to this
 * much, or other processes. */
static uint64_t context_bytes(const struct cm_context_info *info)
{
	uint64_t missing = info->total_bytes - info->free_bytes;

	return missing < CONTEXT_BYTES_MAX ? missing : CONTEXT_BYTES_MAX;
}

/* From the second device on, each device counts its own work. What was freed before counts as
 * followed by work, since numbers of the old counter mean nothing in the new one. */
static void count_work_apart(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_relaxed);
	struct cm_device *device;

	for (i = 0; i < n; i++) {
		device = cache->device[i];
		cm_lock_acquire(&device->lock);
		if (device->work_number != device->first->own_work) {
			(void)__atomic_fetch_or(device->own_work, OWN_WORK, __ATOMIC_RELAXED);
			device->work_number = device->first->own_work;
		}
		cm_lock_release(&device->lock);
	}
}

/* Maps a device for the next row; `first`: its first shard, NULL: itself. No other thread sees it
 * before add_device. NULL: no room. */
static struct cm_device *map_device(struct cm_cache *cache, struct cm_device *first)
{
	const uint32_t row = atomic_load_explicit(&cache->devices, memory_order_relaxed);
	struct cm_device *device;

	if (row == CM_DEVICES_MAX || cm_region_commit(cache->region, CM_TABLE_DEVICE, row + 1))
		return NULL;
	device = map_zeroed(sizeof(*device));
	if (!device)
		return NULL;
	device->cache = cache;
	device->index = row;
	device->first = first ? first : device;
	device->work_number = first ? first->work_number : cache->ops->work_number;
	cm_lock_init(&device->reclaim_lock, CM_LOCK_RECLAIM, row);
	cm_lock_init(&device->paging, CM_LOCK_PAGING, row);
	cm_lock_init(&device->lock, CM_LOCK_DEVICE, row);
	device->releases.lock = &device->lock;
	device->row = cm_region_row(cache->region, CM_TABLE_DEVICE, row);
	cm_cache_open_ring(cache, CM_TABLE_EVENT, row, device->first->index, &device->ring);
	return device;
}

static void add_device(struct cm_cache *cache, struct cm_device *device)
{
	cache->device[device->index] = device;
	/* Release: a thread that sees the count sees the device. */
	atomic_store_explicit(&cache->devices, device->index + 1, memory_order_release);
}

/* The event lock is held, so no other thread adds a device. */
static struct cm_device *find_device(struct cm_cache *cache, const struct cm_context_info *info)
{
	uint32_t row = cm_cache_device_row(cache, info->ordinal);
	struct cm_device *device;

	if (row != UINT32_MAX)
		return cache->device[row];
	device = map_device(cache, NULL);
	if (!device)
		return NULL;
	device->context_bytes = context_bytes(info);
	cm_counters_begin(device->row);
	fill_device_row(cache, device->row, info);
	cm_counters_end(device->row);
	add_device(cache, device);
	cm_limit_apply_event_locked(device);
	if (atomic_fetch_add_explicit(&cache->first_shards, 1, memory_order_acq_rel))
		count_work_apart(cache);
	return device;
}

/* An unused heap of the same device, whose context is gone, or a new slot. */
static struct cm_heap *find_slot(struct cm_cache *cache, struct cm_device *device)
{
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_relaxed);
	struct cm_heap *heap;

	for (i = 0; i < n; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		/* The thread that destroys a context waits for the calls in it. */
		if (!heap->ctx && heap->device == device && !cm_heap_has_calls(heap))
			return heap;
	}
	if (n == CM_HEAPS_MAX || cm_region_commit(cache->region, CM_TABLE_HEAP, n + 1))
		return NULL;
	heap = map_zeroed(sizeof(*heap));
	if (!heap)
		return NULL;
	heap->cache = cache;
	heap->device = device;
	heap->first = heap;
	heap->index = n;
	heap->row = cm_region_row(cache->region, CM_TABLE_HEAP, n);
	atomic_store_explicit(&cache->heap[n], heap, memory_order_release);
	atomic_store_explicit(&cache->heaps, n + 1, memory_order_release);
	return heap;
}

/* `first`: of the same context, the heap itself in the first shard. */
static void open_heap(struct cm_heap *heap, struct cm_heap *first,
		      const struct cm_context_info *info)
{
	enum cm_pool pool;

	cm_lock_acquire(&heap->device->lock);
	heap->first = first;
	__atomic_store_n(&heap->can, info->can, __ATOMIC_RELAXED); /* read by settle */
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
		cm_bins_init(&heap->bins[pool], heap->cache->block);
	cm_epoch_init(heap);
	heap->live_bytes = 0;
	heap->card_fills_up = false;
	heap->watches_splits = cm_paged_serves(heap);
	heap->merges_late = heap->may_be_apart = false;
	cm_fragmentation_set_merging_locked(heap);
	heap->rest_most = cm_paged_serves(heap) ? 0 : CM_SMALL_MAX;
	heap->spared_at = heap->large_segment = 0;
	cm_poll_policy_init_locked(heap);
	heap->misses = heap->lags = 0;
	memset(heap->row, 0, sizeof(*heap->row));
	heap->row->context = info->ctx;
	heap->row->context_id = info->id;
	heap->row->device = heap->device->index;
	heap->row->epoch_open = heap->epochs.open.number;
	if (heap->cache->policy.reached || info->open_to || cm_heap_flags(first) & CM_HEAP_SHARED)
		heap->row->flags = CM_HEAP_SHARED;
	cm_heap_begin_locked(heap);
	heap->open_to = info->open_to;
	cm_counters_begin(heap->device->row);
	heap->device->row->heaps++;
	cm_counters_end(heap->device->row);
	/* Release: a thread that finds the heap by its context finds it initialised. */
	__atomic_store_n(&heap->ctx, info->ctx, __ATOMIC_RELEASE);
	cm_lock_release(&heap->device->lock);
}

/* Work of the new context can reach memory of the others, and no barrier holds it back. */
static void settle_others(const struct cm_heap *added, bool is_found)
{
	struct cm_cache *cache = added->cache;
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;

	for (i = 0; i < n; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		if (heap != added && (is_found || heap->device->first == added->device))
			cm_ordered_settle(heap);
	}
}

int cm_cache_add_heap(struct cm_cache *cache, const struct cm_context_info *info,
		      struct cm_heap **ret_heap)
{
	struct cm_heap *heap, *added = NULL;
	struct cm_device *device;

	cm_lock_acquire(&cache->event_lock);
	heap = cm_cache_find_heap(cache, info->ctx);
	if (!heap) {
		device = find_device(cache, info);
		heap = added = device ? find_slot(cache, device) : NULL;
		if (added) {
			open_heap(added, added, info);
			atomic_fetch_add_explicit(&cache->contexts, 1, memory_order_relaxed);
			if (info->is_found)
				cm_reach_open_all_event_locked(device);
		}
	}
	cm_lock_release(&cache->event_lock);
	if (!heap)
		return -ENOSPC;
	if (added)
		settle_others(added, info->is_found);
	*ret_heap = heap;
	return 0;
}

/* Further shards repeat what tells a device from others. */
static void fill_shard_row(struct cm_device_row *row, const struct cm_device *first)
{
	row->ordinal = first->row->ordinal;
	memcpy(row->uuid, first->row->uuid, sizeof(row->uuid));
	memcpy(row->name, first->row->name, sizeof(row->name));
	memcpy(row->pci, first->row->pci, sizeof(row->pci));
	row->max_split_size = first->row->max_split_size;
	row->first_shard = first->index + 1;
	row->flags = CM_DEVICE_USED | CM_DEVICE_PART | (first->row->flags & CM_DEVICE_SIMULATED);
}

static struct cm_device *add_shard_event_locked(struct cm_cache *cache, struct cm_device *first)
{
	struct cm_device *device, *last = first;

	/* The other half of the rows is for devices that come later. */
	if (atomic_load_explicit(&cache->devices, memory_order_relaxed) >= CM_DEVICES_MAX / 2)
		return NULL;
	device = map_device(cache, first);
	if (!device)
		return NULL;
	cm_counters_begin(device->row);
	fill_shard_row(device->row, first);
	cm_counters_end(device->row);
	/* All peaks are the first shard's until it needs less. */
	cm_shards_stop(first);
	cm_counters_begin(first->row);
	(void)cm_counters_lift_peaks(first->row, CM_POOL_SMALL);
	(void)cm_counters_lift_peaks(first->row, CM_POOL_LARGE);
	first->row->flags |= CM_DEVICE_PART;
	cm_counters_end(first->row);
	add_device(cache, device);
	while (cm_device_next_shard(last))
		last = cm_device_next_shard(last);
	atomic_store_explicit(&last->next_shard, device, memory_order_release);
	cm_shards_resume(first);
	return device;
}

/* The shard of that number, 0: the first one; NULL: there is no room for it. */
static struct cm_device *find_shard_event_locked(struct cm_cache *cache, struct cm_device *first,
						 uint32_t number)
{
	struct cm_device *shard = first, *next;

	for (; number; number--, shard = next) {
		next = cm_device_next_shard(shard);
		if (!next)
			next = add_shard_event_locked(cache, first);
		if (!next)
			return NULL;
	}
	return shard;
}

struct cm_heap *cm_create_shard_heap(struct cm_heap *first, uint32_t number)
{
	struct cm_cache *cache = first->cache;
	struct cm_heap *heap = NULL;
	struct cm_context_info info;
	struct cm_device *shard;

	cm_lock_acquire(&cache->event_lock);
	info = (struct cm_context_info){.ctx = first->ctx,
					.id = first->row->context_id,
					.can = first->can,
					.open_to = first->open_to};
	/* Another thread may have added it. */
	if (info.ctx && cm_heap_state(first) == CM_STATE_SERVING)
		heap = cm_shards_find_heap(first, number);
	if (!heap && info.ctx && cm_heap_state(first) == CM_STATE_SERVING) {
		shard = find_shard_event_locked(cache, first->device, number);
		heap = shard ? find_slot(cache, shard) : NULL;
		if (heap)
			open_heap(heap, first, &info);
	}
	cm_lock_release(&cache->event_lock);
	/* Caching may have stopped meanwhile. The fence, and that in cm_heap_drain: a thread that
	 * stops it sees the heap, or this one sees that it has stopped. */
	atomic_thread_fence(memory_order_seq_cst);
	if (heap && cm_heap_drains(first))
		cm_heap_drain(first);
	return heap;
}
