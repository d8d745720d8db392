/* SPDX-License-Identifier: MIT */
/*
 * The structures of the allocator, and what is done to them under the device's lock.
 *
 * A cache holds devices, a device holds the heaps of its contexts. The lock, the counters and the
 * spare rows are the device's, since PyTorch's statistics are kept by device; the free blocks and
 * the epochs are the heap's, since memory of one context is of no use in another.
 *
 * Rows: cm_block and cm_segment live in the region (stats/layout.h) and refer to each other by
 * index. Equations that hold whenever the lock is free, checked by check.c:
 *   - the blocks of a segment tile it, in the order of their links; no two neighbours are FREE,
 *     but for those of the small pool that `may_be_apart`; `busy` of a segment counts the others;
 *   - a FREE block is in the bins of its heap and pool, unless its segment is exported or its heap
 *     drains; a PENDING block is on the list of exactly one epoch; a LIVE block is in its page's
 *     cell;
 *   - the counters equal the sums over the rows.
 *
 * Functions here never call the driver unless they say so; those named *_locked want the device's
 * lock held.
 */
#ifndef CM_ALLOCATOR_STATE_STATE_H
#define CM_ALLOCATOR_STATE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/bins.h"
#include "allocator/base/lock.h"
#include "allocator/base/page_map.h"
#include "allocator/base/ptr_map.h"
#include "allocator/base/thread.h"
#include "allocator/cache.h"
#include "allocator/state/pending_release.h"
#include "allocator/state/uncached_rows.h"
#include "stats/counters.h"
#include "stats/tick.h"

#define CM_BATCHES_MAX    32 /* closed at once; a power of two */
#define CM_HEAPS_MAX      256
#define CM_SPARE_BATCH    64 /* rows of blocks that a device fetches: a cache line of is_free */
#define CM_DECAY_SPANS    64
#define CM_FENCE_CONTEXTS 16 /* contexts whose work a fence can capture */

/*
 * Whether work of one device's contexts may be touching memory of another device that it names
 * (reuse/reach.h): it may while `begun` is not `done`. The numbers only grow, and
 * done <= ended <= begun.
 */
struct cm_reach {
	_Atomic uint64_t begun; /* submissions, counted before the driver is called */
	_Atomic uint64_t ended; /* of these, the ones for which the driver call has returned */
	_Atomic uint64_t done;  /* of these, the ones before a complete event; event lock */
};

struct cm_fence {
	uint32_t events;
	bool broken; /* a context answered with an error: it may never be complete */
	struct cm_fence_event {
		struct cm_heap *heap; /* whose context; NULL: complete, or the context is gone */
		uint64_t event;
		struct cm_reach *reach; /* why it is there; NULL: for another reason */
		uint64_t number;        /* `done` of that, once the whole fence is complete */
	} event[CM_FENCE_CONTEXTS];
};

/* Freed blocks, linked by link_next. Of a device: the newest first, without `last`. Pinned ones:
 * the oldest first, and linked by link_prev too. */
struct cm_block_list {
	uint32_t first;
	uint32_t last;
};

/*
 * A batch of freed blocks that become ready together: an epoch of a heap, or a batch of pinned
 * memory. It is open while frees join it; closing it records its fence.
 */
struct cm_batch {
	uint64_t number;
	struct cm_block_list list; /* its PENDING blocks; `age` of pinned ones is the number */
	uint64_t blocks; /* this and the fields below `recorded` are used by epochs only */
	uint64_t bytes;
	uint64_t work;   /* at its last free: cm_device_work, or cm_cache_work of pinned memory */
	uint32_t thread; /* that did its last free */
	bool recorded;   /* the fence was recorded */
	/* No unbounded work between the last free and the record: the events capture no more than a
	 * cudaFree at that moment would have waited for. */
	bool clean;
	uint64_t closed_ns; /* when its events were recorded */
	uint32_t closes;    /* events recorded, and barriers laid: counted when it becomes ready */
	uint32_t barriers;
	struct cm_fence fence;
};

/* The open batch and the closed ones, see reuse/batch_ring.h. */
struct cm_batch_ring {
	struct cm_cache *cache;
	struct cm_heap *heap; /* NULL: of pinned memory */
	struct cm_lock *lock; /* guards `open` */
	/* False: a part is done; call again. Others may have the lock in between. */
	bool (*retire_locked)(struct cm_batch_ring *ring, struct cm_batch *batch);
	struct cm_batch open;
	/* Guarded by the event lock: closed[n & (CM_BATCHES_MAX - 1)] for n in [oldest,
	 * open.number). */
	struct cm_batch closed[CM_BATCHES_MAX];
	uint64_t oldest;
};

#define CM_PINNED_IDLE_BYTES (UINT64_C(256) << 20)
#define CM_PINNED_MAX        (UINT64_C(1) << 40) /* beyond it the driver answers */
#define CM_PINNED_CLASSES    232u                /* up to CM_PINNED_MAX */

/* From DRAINING on nothing is cached. Changed by life_cycle.h alone. */
enum cm_heap_state {
	CM_STATE_UNUSED,
	CM_STATE_SERVING,
	CM_STATE_SUSPENDED, /* the driver may be destroying the context: no other call names it */
	CM_STATE_DRAINING,
	CM_STATE_DEAD, /* its last query returned a sticky error: nothing waits for its work */
	CM_STATE_DRAINING_SUSPENDED,
	CM_STATE_COUNT
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): by who reads and writes it */
struct cm_heap {
	struct cm_cache *cache;
	struct cm_device *device; /* the shard, see struct cm_device */
	struct cm_heap *first;    /* of the same context, in the first shard; changes with ctx */
	struct cm_heap_row *row;
	uint64_t ctx;   /* 0: not in use */
	uint32_t index; /* in cache->heap and the heap table */
	uint32_t can;   /* CM_CAN_* */
	/* Changes under the device's lock and others that docs/architecture.md names; any of them
	 * is enough to read it. */
	_Atomic uint8_t state;
	/* Contexts that have had the heap and are gone: a later one may have the same handle.
	 * Changed under the device's lock. */
	_Atomic uint32_t gone;

	/* A thread that records or polls a fence of another device reads what is above. What every
	 * request writes begins with a cache line of its own. */
	_Alignas(64) uint64_t live_bytes;
	bool card_fills_up; /* this and the next: see fragmentation.h */
	bool watches_splits;
	/* Blocks of the small pool merge when nothing fits, not when they become ready. */
	bool merges_late;
	bool may_be_apart;        /* free neighbours of that pool may not have merged */
	uint8_t small_rest_shift; /* of them, so small a part of its size stays with a request */
	/* Of a block of the large pool, so much stays with a request that it serves: nothing with
	 * pages, so that they fill up. */
	uint64_t rest_most;
	uint32_t futile_searches; /* this and the next: see FUTILE_MOST in fragmentation.c */
	uint32_t spared_moves;
	uint64_t spared_at; /* in use on the device when these were counted anew */

	/* Here and below, [CM_POOL_ALL] is not used. */
	struct cm_bins bins[CM_POOL_COUNT];
	uint32_t pinned[CM_HOST_KINDS][CM_PINNED_CLASSES]; /* ready, the youngest first */
	uint32_t searches[CM_POOL_COUNT]; /* requests, the clock of a free block's age */
	uint64_t polled_bytes;  /* pending at a poll that found nothing ready, see poll_policy.h */
	uint32_t last_poll;     /* at this request, of both pools */
	uint32_t misses;        /* requests in a row that no ready block served: slow_path.c */
	uint64_t polled_ns;     /* when one of them last polled */
	uint32_t lags;          /* polls in a row whose events were not complete, or not queried */
	int32_t quick_polls;    /* how many in a row came soon after the one before */
	uint64_t large_segment; /* the heap's largest when that had last doubled, */
	uint32_t doubled_at;    /* at this request, of both pools: see fragmentation.h */

	struct cm_batch_ring epochs;
	/* The fences of barriers: what is allocated behind the last one may not be idle. A batch
	 * holds what a barrier does not make ready, as its segment is NAMED. Only the last one may
	 * hold nothing, but for those that a thread waits for. `open` is always empty; the event
	 * lock guards all of it. */
	struct cm_batch_ring ordered;
	uint32_t settlers; /* threads in cm_ordered_settle; guarded by the event lock */
	/* The event that threads wait for (cm_fence_begin_wait_event_locked), which is not recorded
	 * again meanwhile; and one that is known to be complete. Guarded by the event lock. */
	uint64_t awaited_event;
	uint32_t awaiters;
	bool awaited_is_spare;
	uint64_t seen_event;

	uint32_t gathered_at; /* the request, of both pools, that last got all idle pages of other
			       * contexts: paged_ready.c */
	uint64_t open_to; /* ordinals of the devices that reach the heap's pages beside its own */

	uint64_t spare_event[CM_BATCHES_MAX]; /* events of this context, not in use */
	uint32_t spare_events;

	_Atomic uint32_t calls; /* see cm_heap_begin_call_locked */
};

/* How a thread stops all shards of a device, see shards.c. */
struct cm_turns {
	_Atomic uint32_t taken;   /* (first) 1: a thread stops the shards, or is about to */
	_Atomic uint32_t parked;  /* enum cm_parked */
	bool stopped;             /* by the thread that has taken the turn */
	struct cm_device_row sum; /* (first) of all rows, while they are stopped */
};

/* A moment at which all work of a device had ended, as a fence has shown. */
struct cm_idle {
	uint64_t ns;       /* when the fence was seen complete; 0: none was, or a thread was
			    * submitting work before it was recorded, which it may not cover */
	uint64_t work;     /* cm_device_work before it was recorded */
	uint64_t barriers; /* the same, of the device's barriers */
};

/* Memory that became idle in one span of time and has gone back, see decay.c. */
struct cm_given {
	uint64_t span;
	uint64_t bytes;
};

/* Segments given back for one, at most; see exchange.h. */
#define CM_EXCHANGE_MAX 64

/*
 * A shard of a device: what one lock guards, with a row of its own in the region. A device has one
 * shard until threads contend for it (shards.h). What is marked (first) is used in the first shard
 * alone, by way of `first`.
 */
struct cm_device {
	/* First, so that a hit has one address in a register for both. */
	_Alignas(64) struct cm_lock lock;
	/* (first) One thread at a time returns memory, or retries after a failure. */
	struct cm_lock reclaim_lock;
	struct cm_lock paging; /* one thread at a time moves pages, see paged.h */
	/* Threads of other devices read it: not in a cache line that requests write. */
	uint32_t index;
	struct cm_device *first;              /* its first shard */
	struct cm_device *_Atomic next_shard; /* of the device; once set it stays */
	struct cm_turns turns;
	_Atomic uint32_t chosen; /* (first) threads that have chosen a shard */
	/* The ranges of its contexts' pages, NULL: none is reserved. */
	struct cm_paged *paged[CM_POOL_COUNT];
	bool has_forgotten; /* pages whose context is gone: they are mapped, and in no run */
	bool reset;         /* accumulated counters were reset: current != allocated - freed */
	_Atomic bool unreclaimed;      /* there may be work for cm_release_unreclaimed */
	_Atomic uint32_t giving_pages; /* threads that return idle pages; lowered once these are
					* returned and counted in `returns` */
	struct cm_cache *cache;
	struct cm_device_row *row;
	/* See cm_device_work. Changed under the device's lock and the event lock. */
	const uint64_t *work_number;
	struct cm_ring ring;
	uint32_t spare_block; /* unused block rows, by link_next */
	struct cm_pending_releases releases;
	struct cm_pending_release exchanged[CM_EXCHANGE_MAX]; /* guarded by the reclaim lock */
	/* (first) See cm_epoch_quiesces; guarded by the event lock and the reclaim lock. */
	struct cm_fence probe;
	uint64_t probe_ns;         /* when it was recorded */
	struct cm_idle idle;       /* (first) see cm_epoch_is_idle; guarded by the event lock */
	uint64_t barriers;         /* (first) laid so far; guarded by the event lock */
	uint64_t batch_bytes;      /* an open epoch of so much is closed, see poll_policy.h */
	uint64_t poll_bytes;       /* with so much pending any request may poll */
	uint64_t gather_bytes;     /* may be pending without a poll, as the card has room */
	_Atomic uint64_t reserved; /* (first) by all shards */
	_Atomic uint64_t most_reserved; /* (first) with a large segment; see exchange.h */
	uint64_t refused_at; /* reserved plus the request when the driver refused; 0: it has not */
	int64_t risen_to;    /* the large pool's peak when it had last risen, */
	int64_t risen_at;    /* and what it had freed then: see fragmentation.c */
	uint64_t decay_tick; /* the clock's ticks at decay_ns, to tell how fast it goes */
	uint64_t decay_ns;
	struct cm_given given[CM_DECAY_SPANS]; /* guarded by the reclaim lock */
	uint64_t given_decay_ns; /* the decay time of their spans; guarded by the reclaim lock */
	uint64_t context_bytes;  /* (first) see struct cm_oom_figures */
	_Atomic uint64_t taken_bytes; /* (first) from the driver, see limit.h; at least the counters
				       * of reserved and uncached memory */
	_Atomic uint64_t failed_size; /* of the last request that failed for lack of memory */
	struct cm_reach
		reach[CM_DEVICES_MAX]; /* (first) of its memory, by the other device's row */
	/* (first) The first one counts. Alone in its cache line, since every launch writes it. */
	_Alignas(64) uint64_t own_work[8];
	struct cm_recent recent;
};

struct cm_pinned {
	struct cm_lock lock;
	struct cm_host_row *row;
	struct cm_ring ring;   /* backed with the first block */
	struct cm_ptr_map map; /* every row of ours by address, in use or not */
	struct cm_pending_releases releases;
	bool reset; /* accumulated counters were reset: current != allocated - freed */

	struct cm_batch_ring batches;

	/* Ready blocks of all contexts, the longest idle first, by aged[0] and aged[1]. Those of
	 * a context, kind and class are on a list of its heap too. Blocks of CM_SEGMENT_DIRECT are
	 * not: they only wait to be returned. */
	struct cm_block_list aged;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of use */
struct cm_cache {
	const struct cm_driver_ops *ops;
	struct cm_policy policy;
	bool plain; /* the policy lets every ready block serve and be split */
	bool exact; /* it splits no block, and no other option limits what serves */
	_Atomic uint32_t suspensions; /* how often a heap was suspended */
	struct cm_region *region;
	struct cm_block *block; /* the tables in the region */
	struct cm_segment *segment;
	struct cm_page_map pages;
	struct cm_pinned pinned;
	struct cm_uncached uncached;

	/* Held by a thread that records, queries or waits for events, or changes the set of
	 * contexts. In one cache line with what it guards, as threads of all devices take it. */
	_Alignas(64) struct cm_lock event_lock;
	uint32_t ending; /* contexts without heap that the driver may be destroying; event lock */
	_Atomic uint32_t
		suspended; /* those of them that have a heap; changed under the event lock */

	/* The tables' lock guards what follows, and changes of the page map. */
	_Alignas(64) struct cm_lock tables;
	uint32_t blocks;        /* block rows ever used, the first CM_SPARE_BATCH included */
	uint32_t segments;      /* segment rows ever used, row 0 included */
	uint32_t spare_segment; /* unused segment rows, by `first` */

	_Atomic uint32_t devices;      /* rows in use; they only grow in number */
	_Atomic uint32_t first_shards; /* how many of them are first shards */
	struct cm_device *device[CM_DEVICES_MAX];
	uint32_t held;          /* devices of cm_cache_hold; guarded by the pinned memory's lock */
	_Atomic uint32_t heaps; /* slots ever used */
	struct cm_heap *_Atomic heap[CM_HEAPS_MAX]; /* a slot is reused, its heap never freed */
	_Atomic uint32_t contexts;                  /* heaps in use */
	_Atomic bool wants_close;
	_Atomic bool has_named;     /* a segment was NAMED; it never goes back */
	_Atomic uint64_t events;    /* devices whose rings are written, a bit a row */
	_Atomic bool pinned_events; /* the ring of pinned memory is; changed under the event lock */
	_Atomic uint64_t ooms;      /* requests that failed for lack of memory */
	_Atomic uint64_t returns;   /* to the driver that are done, see cm_cache_returns */
	/* 1: the block row is FREE device memory. A merge with neighbours reads this array, in
	 * which sixty rows share a cache line, instead of rows that it does not need otherwise. A
	 * line belongs to one device, see cm_rows_fetch_blocks; the first one to none, since a
	 * block without a neighbour reads row 0. */
	_Alignas(CM_SPARE_BATCH) uint8_t is_free[CM_BLOCKS_MAX];
};

/* The clock of rows and events. The processor's counter is read in place, since every request and
 * every free does. */
static inline uint64_t cm_cache_tick(const struct cm_cache *cache)
{
	return CM_LIKELY(!cache->ops->tick) ? cm_tick() : cache->ops->tick();
}

/* See work_number of struct cm_driver_ops. */
static inline uint64_t cm_cache_work(const struct cm_cache *cache)
{
	return __atomic_load_n(cache->ops->work_number, __ATOMIC_RELAXED);
}

/* Whether a thread may be submitting such work, to any device. If not, what the caller submits
 * comes behind all work that was counted until now. */
static inline bool cm_cache_is_work_under_way(const struct cm_cache *cache)
{
	const uint64_t ended = __atomic_load_n(cache->ops->work_ended, __ATOMIC_ACQUIRE);

	return ended != cm_cache_work(cache);
}

/* cm_cache_work for work of the device alone, once there is another device. The device's lock or
 * the event lock is held. */
static inline uint64_t cm_device_work(const struct cm_device *device)
{
	return __atomic_load_n(device->work_number, __ATOMIC_RELAXED);
}

static inline struct cm_device *cm_cache_device(struct cm_cache *cache, uint32_t row)
{
	return row < atomic_load_explicit(&cache->devices, memory_order_acquire)
		       ? cache->device[row]
		       : NULL;
}

/* Whether the row is a segment of the device, whose lock the caller holds. A thread of another
 * device may be writing the row: `device` is stored before `flags`, and never cleared. */
static inline bool cm_segment_is_of(const struct cm_segment *segment,
				    const struct cm_device *device)
{
	return __atomic_load_n(&segment->flags, __ATOMIC_ACQUIRE) & CM_SEGMENT_USED &&
	       __atomic_load_n(&segment->device, __ATOMIC_RELAXED) == device->index;
}

/* A block of device memory, or a row that becomes unused; its device's lock is held. `index`: the
 * row's. */
static inline void cm_block_set_state(struct cm_cache *cache, struct cm_block *block,
				      uint32_t index, enum cm_block_state state)
{
	block->state = state;
	cache->is_free[index] = state == CM_BLOCK_FREE;
}

/* Adds a batch of new block rows to the device's unused ones, or nothing if none are left. Batches,
 * so that most splits do not take the tables' lock. */
void cm_rows_fetch_blocks(struct cm_device *device);

/* A block row for the device, all of which the caller fills; 0 if the table is full or no memory is
 * left for it. */
CM_ALWAYS_INLINE uint32_t cm_rows_take_block(struct cm_device *device)
{
	uint32_t index;

	if (CM_UNLIKELY(!device->spare_block))
		cm_rows_fetch_blocks(device);
	index = device->spare_block;
	if (CM_LIKELY(index))
		device->spare_block = device->cache->block[index].link_next;
	return index;
}

CM_ALWAYS_INLINE void cm_rows_give_block(struct cm_device *device, uint32_t index)
{
	struct cm_block *block = &device->cache->block[index];

	*cm_recent_at(&device->recent, block->addr) = 0;
	cm_block_set_state(device->cache, block, index, CM_BLOCK_NONE);
	block->link_next = device->spare_block;
	device->spare_block = index;
}

/* The context of the heap, 0: none; and its CM_HEAP_*. Without a lock both may be out of date. */
static inline uint64_t cm_heap_ctx(const struct cm_heap *heap)
{
	return __atomic_load_n(&heap->ctx, __ATOMIC_ACQUIRE);
}

static inline uint32_t cm_heap_flags(const struct cm_heap *heap)
{
	return __atomic_load_n(&heap->row->flags, __ATOMIC_RELAXED);
}

/* Without a lock these may be out of date. */
static inline enum cm_heap_state cm_heap_state(const struct cm_heap *heap)
{
	return atomic_load_explicit(&heap->state, memory_order_relaxed);
}

static inline bool cm_heap_drains(const struct cm_heap *heap)
{
	return cm_heap_state(heap) >= CM_STATE_DRAINING;
}

static inline bool cm_heap_is_dead(const struct cm_heap *heap)
{
	return cm_heap_state(heap) == CM_STATE_DEAD;
}

static inline bool cm_heap_is_suspended(const struct cm_heap *heap)
{
	return cm_heap_state(heap) == CM_STATE_SUSPENDED ||
	       cm_heap_state(heap) == CM_STATE_DRAINING_SUSPENDED;
}

/* The next heap of the device that is in use, of any of its shards, from slot *at on, NULL: there
 * is none. Heaps come and go unless the event lock is held. */
static inline struct cm_heap *cm_device_next_heap(const struct cm_device *device, uint32_t *at)
{
	const struct cm_cache *cache = device->cache;
	const uint32_t heaps = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;

	while (*at < heaps) {
		heap = atomic_load_explicit(&cache->heap[(*at)++], memory_order_relaxed);
		if (cm_heap_ctx(heap) && heap->device->first == device->first)
			return heap;
	}
	return NULL;
}

/* The same for the heaps of one context, itself included. */
static inline struct cm_heap *cm_heap_next_shard(const struct cm_heap *heap, uint32_t *at)
{
	const uint64_t ctx = cm_heap_ctx(heap->first);
	struct cm_heap *each;

	while ((each = cm_device_next_heap(heap->device, at)))
		if (cm_heap_ctx(each) == ctx)
			return each;
	return NULL;
}

/* Whether it stands for the device as a whole: the first of its shards. */
static inline bool cm_device_is_first(const struct cm_device *device)
{
	return device->first == device;
}

/* Whether it is the heap of its context in the first shard. */
static inline bool cm_heap_is_first(const struct cm_heap *heap)
{
	return cm_device_is_first(heap->device);
}

static inline bool cm_device_has_shards(const struct cm_device *device)
{
	return atomic_load_explicit(&device->first->next_shard, memory_order_acquire) != NULL;
}

static inline struct cm_device *cm_device_next_shard(const struct cm_device *device)
{
	return atomic_load_explicit(&device->next_shard, memory_order_acquire);
}

/* The fence of the last ordered barrier; no events: all work before it is done. The event lock is
 * held. */
static inline struct cm_fence *cm_heap_ordered(struct cm_heap *heap)
{
	return &heap->ordered.closed[(heap->ordered.open.number - 1) & (CM_BATCHES_MAX - 1)].fence;
}

/* Bytes that are freed and not ready, in open and closed epochs. Without the device's lock the
 * number may be out of date, but it has everything that the calling thread knows to be freed. */
static inline uint64_t cm_heap_pending_bytes(const struct cm_heap *heap)
{
	return __atomic_load_n(&heap->row->pending_bytes, __ATOMIC_RELAXED);
}

static inline struct cm_heap *cm_segment_heap(struct cm_cache *cache,
					      const struct cm_segment *segment)
{
	return atomic_load_explicit(&cache->heap[segment->heap], memory_order_relaxed);
}

/* At most so many blocks stay pending without a poll. Polls for this reason are at least so many
 * requests apart. */
#define CM_PENDING_BLOCKS 256

static inline enum cm_pool cm_segment_pool(const struct cm_segment *segment)
{
	/* Without a branch: a processor cannot predict the pool. */
	return (enum cm_pool)(CM_POOL_LARGE - (segment->flags / CM_SEGMENT_SMALL & 1));
}

/* Whether a free block of the segment may be allocated, and so stands in the bins; the segment is
 * the heap's. */
static inline bool cm_heap_recycles(const struct cm_heap *heap, const struct cm_segment *segment)
{
	return CM_LIKELY(!(segment->flags & (CM_SEGMENT_EXPORTED | CM_SEGMENT_DIRECT)) &&
			 !cm_heap_drains(heap));
}

static inline bool cm_segment_is_recycled(struct cm_cache *cache, const struct cm_segment *segment)
{
	return cm_heap_recycles(cm_segment_heap(cache, segment), segment);
}

/* A segment that is not recycled may have become free, or a context with pages was destroyed, and
 * no thread has returned the memory. */
static inline void cm_device_note_unreclaimed(struct cm_device *device)
{
	atomic_store_explicit(&device->unreclaimed, true, memory_order_relaxed);
}

/* Memory has returned to the driver. Release: a thread that sees the number and then asks the
 * driver can get it. */
static inline void cm_cache_note_return(struct cm_cache *cache)
{
	atomic_fetch_add_explicit(&cache->returns, 1, memory_order_release);
}

/* Whether the block is a part of its segment, not all of it. */
static inline bool cm_block_is_split(const struct cm_block *block)
{
	return block->prev || block->next;
}

/* Whether the segment is of a device, and none of its blocks is in use or pending. */
static inline bool cm_segment_is_free(const struct cm_segment *segment)
{
	return (segment->flags & (CM_SEGMENT_USED | CM_SEGMENT_HOST)) == CM_SEGMENT_USED &&
	       !segment->busy;
}

/* The calling thread with a stack: cm_thread.stack, or that of a block. Under a lock, so that the
 * thread's id is known. */
static inline struct cm_event_origin cm_origin_of(uint32_t stack)
{
	return (struct cm_event_origin){cm_thread.id, stack, cm_thread.annotation};
}

/* The stack of a free: its own if frees are recorded, else that of the allocation. */
static inline uint32_t cm_block_free_stack(const struct cm_block *block)
{
	return CM_UNLIKELY(cm_thread.stack) ? cm_thread.stack : block->stack;
}

/* Adds an event of `tick` to the device's ring: see stats/counters.h. */
static inline void cm_device_note_locked(struct cm_device *device, enum cm_action action,
					 enum cm_pool pool, uint32_t heap, uint32_t stack,
					 uint64_t tick, uint64_t addr, uint64_t size)
{
	cm_ring_add(&device->ring, &device->row->event_next, action, pool, heap,
		    cm_origin_of(stack), tick, addr, size);
}

#endif
