/* SPDX-License-Identifier: MIT */
/*
 * One request for pinned memory and one free.
 */
#include "allocator/pinned/pinned.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/cache.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"

struct request {
	struct cm_heap *heap;
	uint32_t kind;
	uint64_t bytes;
	uint64_t *ret_addr;
};

static bool take_cached(const struct request *request)
{
	struct cm_pinned *pinned = &request->heap->cache->pinned;
	bool taken;

	cm_lock_acquire(&pinned->lock);
	/* The last answer about the context may have stopped its heap, and made all of it ready. */
	taken = !cm_heap_drains(request->heap) &&
		cm_pinned_take_locked(request->heap, request->kind, request->bytes,
				      request->ret_addr);
	cm_lock_release(&pinned->lock);
	return taken;
}

/* Takes an idle block out of the counters, before release_block. */
static void pop_locked(struct cm_cache *cache, uint32_t index,
		       struct cm_pending_release *ret_release)
{
	*ret_release = cm_pinned_remove_locked(cache, index);
	cm_pending_release_begin_locked(&cache->pinned.releases, ret_release);
}

static int release_block(struct cm_cache *cache, struct cm_pending_release *release)
{
	uint64_t start = cache->ops->now_ns(), ns;
	int err;

	err = cache->ops->host_free(release->ctx, release->addr);
	cm_pending_release_end(&cache->pinned.releases, release);
	ns = cache->ops->now_ns() - start;
	if (err)
		return err;
	cm_lock_acquire(&cache->pinned.lock);
	cm_pinned_count_release_locked(&cache->pinned, ns);
	cm_lock_release(&cache->pinned.lock);
	return 0;
}

/* Whether the block's context may be named in a call. */
static bool may_go(struct cm_cache *cache, uint32_t index)
{
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];

	return !cm_heap_is_suspended(cm_segment_heap(cache, segment));
}

static bool is_on(struct cm_cache *cache, uint32_t index, const struct cm_device *device)
{
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];

	return !device || cm_segment_heap(cache, segment)->device == device;
}

/* The oldest ready block that may be returned, among contexts of the device (NULL: all); 0:
 * none. */
static uint32_t pick_ready_locked(struct cm_cache *cache, const struct cm_device *device)
{
	uint32_t index = cache->pinned.aged.first;

	while (index && !(may_go(cache, index) && is_on(cache, index, device)))
		index = cache->block[index].aged[1];
	return index;
}

/* The idle block to return first: the oldest ready one; if none is ready, the one freed last, which
 * the program expects to be freed now. */
static uint32_t pick_idle_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	uint32_t ready = pick_ready_locked(cache, NULL);
	uint64_t number;

	if (ready)
		return ready;
	if (pinned->batches.open.list.last)
		return pinned->batches.open.list.last;
	for (number = pinned->batches.open.number; number > pinned->batches.oldest; number--)
		if (cm_batch_at(&pinned->batches, number - 1)->list.last)
			return cm_batch_at(&pinned->batches, number - 1)->list.last;
	return 0;
}

/* Whether a block returns to the driver once it is freed. */
static bool is_passed_on(struct cm_cache *cache, uint32_t index)
{
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];

	return segment->flags & CM_SEGMENT_DIRECT ||
	       cm_heap_drains(cm_segment_heap(cache, segment));
}

/* Whether it may return now. */
static bool passes_on(struct cm_cache *cache, uint32_t index)
{
	return is_passed_on(cache, index) && may_go(cache, index);
}

/* An idle block of that kind; 0: none. Those that were freed during a capture are still there. */
static uint32_t pick_passed_on_locked(struct cm_cache *cache)
{
	struct cm_batch_ring *ring = &cache->pinned.batches;
	const struct cm_block *block = cache->block;
	uint32_t index = cache->pinned.aged.first;
	uint64_t number;

	while (index && !passes_on(cache, index))
		index = block[index].aged[1];
	for (number = ring->open.number; !index && number >= ring->oldest; number--) {
		index = number == ring->open.number ? ring->open.list.first
						    : cm_batch_at(ring, number)->list.first;
		while (index && !passes_on(cache, index))
			index = block[index].link_next;
	}
	return index;
}

/* Takes an idle block out of the counters: one that is `passed_on`, or if more is idle than the
 * limit. */
static bool pop_idle(struct cm_cache *cache, bool passed_on, struct cm_pending_release *ret_release)
{
	struct cm_pinned *pinned = &cache->pinned;
	uint32_t index = 0;

	cm_lock_acquire(&pinned->lock);
	if (passed_on)
		index = pick_passed_on_locked(cache);
	else if (cm_pinned_idle_locked(pinned) > cm_pinned_limit_locked(pinned))
		index = pick_idle_locked(cache);
	if (index && !may_go(cache, index))
		index = 0; /* the next free will see to it */
	if (index)
		pop_locked(cache, index, ret_release);
	cm_lock_release(&pinned->lock);
	return index != 0;
}

/* Returns idle memory beyond the limit, or what is `passed_on`, to the driver. Returns the driver's
 * first error. */
static int shrink(struct cm_cache *cache, bool passed_on)
{
	struct cm_pending_release release;
	int err = 0, one;

	if (!cache->ops->gate_enter())
		return 0; /* the next free will see to it */
	if (!passed_on) {
		cm_lock_acquire(&cache->event_lock);
		(void)cm_pinned_close_event_locked(cache);
		(void)cm_pinned_poll_event_locked(cache);
		cm_lock_release(&cache->event_lock);
	}
	while (pop_idle(cache, passed_on, &release)) {
		one = release_block(cache, &release);
		err = err ? err : one;
	}
	cache->ops->gate_leave();
	return err;
}

static bool has_ready(const struct cm_device *device)
{
	struct cm_pinned *pinned = &device->cache->pinned;

	return CM_WITH_LOCK(&pinned->lock, pick_ready_locked(device->cache, device) != 0);
}

/* The oldest one that has been ready since `tick` or before. */
static bool pop_ready(const struct cm_device *device, uint64_t tick,
		      struct cm_pending_release *ret_release)
{
	struct cm_cache *cache = device->cache;
	uint32_t index;

	cm_lock_acquire(&cache->pinned.lock);
	index = pick_ready_locked(cache, device);
	if (cache->block[index].tick > tick)
		index = 0;
	if (index)
		pop_locked(cache, index, ret_release);
	cm_lock_release(&cache->pinned.lock);
	return index != 0;
}

/* As cm_pinned_flush, of contexts of one device. The driver may wait for the device. */
static int flush_pinned_of(struct cm_device *device, uint64_t limit_ns, uint64_t *bytes)
{
	struct cm_pending_release release;
	int err;

	if (!has_ready(device))
		return 0;
	if (!cm_gate_lock(device->cache->ops, &device->first->reclaim_lock))
		return -EBUSY;
	err = cm_epoch_quiesces(device, limit_ns);
	while (!err && pop_ready(device, UINT64_MAX, &release))
		if (!release_block(device->cache, &release))
			*bytes += release.size;
	cm_lock_release(&device->first->reclaim_lock);
	return err;
}

bool cm_pinned_has_idle(struct cm_cache *cache)
{
	return CM_WITH_LOCK(&cache->pinned.lock, cm_pinned_idle_locked(&cache->pinned) != 0);
}

bool cm_pinned_release_aged(struct cm_device *device, uint64_t tick)
{
	struct cm_cache *cache = device->cache;
	struct cm_pending_release release;

	cm_lock_acquire(&cache->event_lock);
	(void)cm_pinned_close_event_locked(cache);
	(void)cm_pinned_poll_event_locked(cache);
	cm_lock_release(&cache->event_lock);
	return pop_ready(device, tick, &release) && !release_block(cache, &release);
}

int cm_pinned_flush(struct cm_cache *cache, uint64_t limit_ns, uint64_t *bytes)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	int err = 0, one;

	if (!cm_pinned_wait(cache, limit_ns))
		return -EBUSY;
	for (i = 0; i < n && err != -EBUSY; i++) {
		if (!cm_device_is_first(cache->device[i]))
			continue;
		one = flush_pinned_of(cache->device[i], limit_ns, bytes);
		err = one == -EBUSY || !err ? one : err;
	}
	return err;
}

/* Enters memory that the driver has just given. `gone`: of the heap, before the driver was asked.
 * -EAGAIN: caching has stopped meanwhile, or the context is gone. */
static int enter_block_locked(const struct request *request, const struct cm_pending_release *given,
			      uint32_t gone, uint32_t flags, uint64_t ns)
{
	struct cm_heap *heap = request->heap;

	if (!cm_heap_stands(heap, given->ctx, gone) || cm_heap_drains(heap))
		return -EAGAIN;
	return cm_pinned_enter_locked(heap, given->addr, given->size, request->kind, flags,
				      request->bytes, ns);
}

/* New memory of `size`, all of it for the request. What cannot be entered goes back. */
static int alloc_block(const struct request *request, uint64_t size, uint32_t flags)
{
	struct cm_heap *heap = request->heap;
	struct cm_cache *cache = heap->cache;
	struct cm_pinned *pinned = &cache->pinned;
	struct cm_pending_release given = {.heap = heap, .ctx = cm_heap_ctx(heap), .size = size};
	/* Read after ctx: of that context, or a later one. */
	const uint32_t gone = cm_heap_count_gone(heap);
	uint64_t start = cache->ops->now_ns(), ns;
	bool goes_back;
	int err;

	if (!given.ctx)
		return -EAGAIN;
	err = cache->ops->host_alloc(given.ctx, size, request->kind, &given.addr);
	ns = cache->ops->now_ns() - start;
	if (err)
		return err;
	cm_cache_await_place(cache, given.addr, size);
	cm_lock_acquire(&pinned->lock);
	err = enter_block_locked(request, &given, gone, flags, ns);
	goes_back = err && cm_pending_release_begin_new_locked(&pinned->releases, &given, gone);
	cm_lock_release(&pinned->lock);
	if (!err)
		*request->ret_addr = given.addr;
	if (goes_back) {
		(void)cache->ops->host_free(given.ctx, given.addr);
		cm_pending_release_end(&pinned->releases, &given);
	}
	return err;
}

/* With an old driver, waits only as long as cudaFreeHost would have waited. */
static bool open_is_clean(struct cm_cache *cache)
{
	return CM_WITH_LOCK(&cache->pinned.lock,
			    cache->pinned.batches.open.work == cm_cache_work(cache));
}

static bool make_batch_ready_event_locked(struct cm_cache *cache)
{
	if (!cm_fence_is_possible(cache))
		return open_is_clean(cache) && cm_pinned_synchronize_event_locked(cache);
	/* The device may be idle, or done by the next request. */
	return cm_pinned_close_event_locked(cache) && cm_pinned_poll_event_locked(cache);
}

/* Serves from memory that the program has freed, if the devices are done with it. */
static bool reuse_batches(const struct request *request)
{
	struct cm_cache *cache = request->heap->cache;

	if (cm_pinned_pending(cache) < request->bytes)
		return false;
	return CM_WITH_LOCK(&cache->event_lock,
			    (cm_pinned_poll_event_locked(cache) && take_cached(request)) ||
				    (make_batch_ready_event_locked(cache) && take_cached(request)));
}

static int serve_pinned(const struct request *request)
{
	if (reuse_batches(request))
		return 0;
	return alloc_block(request, cm_pinned_class_bytes(cm_pinned_class(request->bytes)), 0);
}

/* Waits for suspended contexts, whose memory may be returned in a moment. False: outside the
 * gate. */
static bool await_suspended(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);

	for (i = 0; i < n; i++)
		if (!cm_release_await_suspended(cache->device[i], CM_STUCK_NS))
			return false;
	return true;
}

/* Enters the gate, and returns all that is idle, or becomes ready within the limit. -EBUSY: outside
 * the gate. */
static int enter_and_flush(struct cm_cache *cache, uint64_t limit_ns)
{
	uint64_t bytes = 0;
	int err;

	if (!cache->ops->gate_enter() || !await_suspended(cache))
		return -EBUSY;
	err = cm_pinned_flush(cache, limit_ns, &bytes);
	if (err == -EBUSY)
		return err;
	/* What other threads were just returning has arrived, too. */
	return cm_pending_releases_await(&cache->pinned.releases, cache->ops, CM_STUCK_NS) ? 0
											   : -EBUSY;
}

/* Returns idle memory to the driver, and requests exactly the program's size, which the driver
 * might have granted without us. */
static int serve_flushed(const struct request *request)
{
	struct cm_cache *cache = request->heap->cache;
	int err = enter_and_flush(cache, CM_PATIENCE_NS);

	if (err)
		return err;
	err = alloc_block(request, cm_size_grains(request->bytes), 0);
	cache->ops->gate_leave();
	return err;
}

/* The driver is out of memory: of the host, or of the device, which it needs to map the pages. */
static int serve_after_trim(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	struct cm_cache *cache = heap->cache;
	const uint64_t returns = cm_cache_returns(cache);
	int err = serve_flushed(request);

	if (err == CM_DRIVER_OUT_OF_MEMORY &&
	    (cm_cache_make_room(cache, cm_heap_ctx(heap)) || cm_cache_returns(cache) != returns))
		err = serve_flushed(request);
	return err;
}

/* Without the cache. Retries if the driver has got back memory meanwhile that could not be returned
 * before: a capture was active, or its context was suspended. */
static int serve_direct(const struct request *request)
{
	struct cm_cache *cache = request->heap->cache;
	const uint64_t returns = cm_cache_returns(cache);
	int err;

	if (!cache->ops->gate_enter())
		return -EBUSY;
	err = alloc_block(request, request->bytes, CM_SEGMENT_DIRECT);
	cache->ops->gate_leave();
	if (err != CM_DRIVER_OUT_OF_MEMORY)
		return err;
	if (enter_and_flush(cache, CM_STUCK_NS))
		return -EBUSY;
	if (cm_cache_returns(cache) != returns)
		err = alloc_block(request, request->bytes, CM_SEGMENT_DIRECT);
	cache->ops->gate_leave();
	return err;
}

int cm_pinned_alloc(struct cm_heap *heap, uint32_t kind, uint64_t bytes, uint64_t *ret_addr)
{
	const struct request request = {heap->first, kind, bytes, ret_addr};
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err;

	if (!bytes || bytes > CM_PINNED_MAX || kind >= CM_HOST_KINDS)
		return -EINVAL;
	if (cm_heap_drains(heap))
		return -EAGAIN;
	if (heap->cache->policy.mode != CM_MODE_CACHE)
		return serve_direct(&request);
	if (take_cached(&request))
		return 0;
	if (!ops->gate_enter())
		return -EBUSY;
	err = serve_pinned(&request);
	ops->gate_leave();
	return err == CM_DRIVER_OUT_OF_MEMORY ? serve_after_trim(&request) : err;
}

/* A sync=free program waits here. */
static void wait_for_batches(struct cm_cache *cache)
{
	if (!cache->ops->gate_enter())
		return; /* captured work cannot be waited for; the block waits in its batch */
	cm_lock_acquire(&cache->event_lock);
	(void)cm_pinned_synchronize_event_locked(cache);
	cm_lock_release(&cache->event_lock);
	cache->ops->gate_leave();
}

/* What the lock found out about an address to be freed. */
struct verdict {
	int err;        /* -EAGAIN: it is on its way to the driver */
	bool passed_on; /* not cached */
	bool excess;
	bool worth_closing;
};

static struct verdict free_locked(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	struct cm_pinned *pinned = &cache->pinned;
	uint32_t index = cm_ptr_map_find(&pinned->map, addr);
	const struct cm_block *block = &cache->block[index];
	const struct cm_segment *segment = &cache->segment[block->segment];

	if (!index && cm_pending_release_has_locked(&pinned->releases, addr))
		return (struct verdict){.err = -EAGAIN};
	if (!index || segment->flags & CM_SEGMENT_REGISTERED)
		return (struct verdict){.err = -ENOENT};
	if (block->state != CM_BLOCK_LIVE) {
		*ret_forward = addr + 1;
		return (struct verdict){.err = -EFAULT};
	}
	cm_pinned_free_locked(cache, index);
	return (struct verdict){
		.passed_on = is_passed_on(cache, index),
		.excess = cm_pinned_idle_locked(pinned) > cm_pinned_limit_locked(pinned),
		.worth_closing = cm_pinned_is_worth_closing_locked(pinned),
	};
}

int cm_pinned_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	struct verdict verdict;

	do {
		cm_lock_acquire(&cache->pinned.lock);
		verdict = free_locked(cache, addr, ret_forward);
		cm_lock_release(&cache->pinned.lock);
	} while (verdict.err == -EAGAIN &&
		 cm_pending_release_await(&cache->pinned.releases, cache->ops, addr));
	if (verdict.err == -EAGAIN) {
		*ret_forward = addr + 1;
		return -EFAULT;
	}
	if (verdict.err)
		return verdict.err;
	if (verdict.passed_on)
		return shrink(cache, true);
	if (cache->policy.sync == CM_SYNC_FREE)
		wait_for_batches(cache);
	if (verdict.excess)
		return shrink(cache, false);
	if (verdict.worth_closing && !cm_cache_wants_close(cache))
		atomic_store_explicit(&cache->wants_close, true, memory_order_relaxed);
	return 0;
}

/* The block that the address lies in, 0: none. Slow: for rare questions. */
static uint32_t find_around_locked(struct cm_cache *cache, uint64_t addr)
{
	const struct cm_ptr_map *map = &cache->pinned.map;
	uint64_t i, at;

	for (i = 0; i < cm_ptr_map_places(map); i++) {
		const uint32_t index = cm_ptr_map_at(map, i, &at);
		const uint32_t s = cache->block[index].segment;

		if (index && !(cache->segment[s].flags & CM_SEGMENT_REGISTERED) && addr >= at &&
		    addr - at < cache->segment[s].size)
			return index;
	}
	return 0;
}

static int mark_exported_locked(struct cm_cache *cache, uint64_t addr)
{
	const uint32_t index = find_around_locked(cache, addr);
	const struct cm_block *block = &cache->block[index];
	struct cm_segment *segment = &cache->segment[block->segment];

	if (!index)
		return -ENOENT;
	if (block->state != CM_BLOCK_LIVE)
		return -EFAULT;
	/* A thread that walks the table reads the flags without our lock. */
	(void)__atomic_fetch_or(&segment->flags, CM_SEGMENT_DIRECT, __ATOMIC_RELAXED);
	return 0;
}

int cm_cache_host_mark_exported(struct cm_cache *cache, uint64_t addr)
{
	return CM_WITH_LOCK(&cache->pinned.lock, mark_exported_locked(cache, addr));
}

void cm_cache_host_add_registered(struct cm_cache *cache, struct cm_heap *heap, uint64_t addr,
				  uint64_t bytes, uint64_t ns)
{
	cm_lock_acquire(&cache->pinned.lock);
	(void)cm_pinned_enter_locked(heap->first, addr, bytes, 0, CM_SEGMENT_REGISTERED, bytes, ns);
	cm_lock_release(&cache->pinned.lock);
}

/* The row of a registration; NULL: not known. */
static const struct cm_segment *find_registered_locked(struct cm_cache *cache, uint64_t addr,
						       uint32_t *ret_index)
{
	const struct cm_segment *segment;

	*ret_index = cm_ptr_map_find(&cache->pinned.map, addr);
	segment = &cache->segment[cache->block[*ret_index].segment];
	return *ret_index && segment->flags & CM_SEGMENT_REGISTERED ? segment : NULL;
}

/* Its time: no two of one address have the same. */
uint64_t cm_cache_host_find_registered(struct cm_cache *cache, uint64_t addr)
{
	const struct cm_segment *segment;
	uint64_t which;
	uint32_t index;

	cm_lock_acquire(&cache->pinned.lock);
	segment = find_registered_locked(cache, addr, &index);
	which = segment ? segment->tick : 0;
	cm_lock_release(&cache->pinned.lock);
	return which;
}

void cm_cache_host_remove_registered(struct cm_cache *cache, uint64_t addr, uint64_t which,
				     uint64_t ns)
{
	const struct cm_segment *segment;
	uint32_t index;

	if (!which)
		return;
	cm_lock_acquire(&cache->pinned.lock);
	segment = find_registered_locked(cache, addr, &index);
	if (segment && segment->tick == which)
		(void)cm_pinned_remove_locked(cache, index);
	cm_pinned_count_release_locked(&cache->pinned, ns);
	cm_lock_release(&cache->pinned.lock);
}
