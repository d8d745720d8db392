/* SPDX-License-Identifier: MIT */
#include "allocator/entry/decay.h"

#include <errno.h>
#include <string.h>

#include "allocator/check/after.h"
#include "allocator/paged/paged.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/limit.h"
#include "allocator/state/report.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"

/* Steps in the decay time, while there is something idle and while there is not. */
#define STEPS      50
#define STEPS_IDLE 10

/* The time between steps while more is taken than a limit allows. */
#define LIMIT_NS UINT64_C(100000000)

/* An idle device answers at once; a request of the program may have to wait this long. */
#define LOOK_NS UINT64_C(200000)

/* A step returns pages until it has taken this long, and this many of them at once. */
#define PAGES_NS    UINT64_C(500000)
#define PAGES_BYTES (8 * CM_PAGED_PAGE)

#define ONE_BITS 32 /* of fixed-point numbers below 1 */

/* 6x^5 - 15x^4 + 10x^3, upside down. */
uint64_t cm_decay_keep(uint64_t bytes, uint64_t age_ns, uint64_t decay_ns)
{
	const unsigned __int128 one = (unsigned __int128)1 << ONE_BITS;
	unsigned __int128 x, cube, step;

	if (age_ns >= decay_ns)
		return 0;
	x = age_ns * one / decay_ns;
	cube = (x * x >> ONE_BITS) * x >> ONE_BITS;
	step = cube * (10 * one - 15 * x + 6 * (x * x >> ONE_BITS)) >> ONE_BITS;
	return step < one ? (uint64_t)(bytes * (one - step) >> ONE_BITS) : 0;
}

/* Nanoseconds between two ticks. The pace of the clock follows from its value at an earlier
 * step. */
static uint64_t ticks_to_ns(const struct cm_device *device, uint64_t ticks, uint64_t now_tick,
			    uint64_t now_ns)
{
	const uint64_t paced = now_tick - device->decay_tick;

	if (!paced)
		return 0;
	return (uint64_t)((unsigned __int128)ticks * (now_ns - device->decay_ns) / paced);
}

/* The tick of a moment that was so long ago; 0 before the pace is known. */
static uint64_t tick_before(const struct cm_device *device, uint64_t ns)
{
	const uint64_t now_tick = cm_cache_tick(device->cache);
	const uint64_t paced_ns = device->cache->ops->now_ns() - device->decay_ns;
	const uint64_t paced = now_tick - device->decay_tick;
	unsigned __int128 ticks;

	if (!paced || !paced_ns)
		return 0;
	ticks = (unsigned __int128)ns * paced / paced_ns;
	return ticks < now_tick ? now_tick - (uint64_t)ticks : 0;
}

/* Which span of time a moment belongs to. */
static uint64_t span_of(const struct cm_cache *cache, uint64_t ns)
{
	return ns / (cache->policy.decay_ns / CM_DECAY_SPANS + 1);
}

/*
 * Returned memory still counts, as if it were idle: else the rest would be judged by the same curve
 * again, and all of it would be returned in no time.
 */
static uint64_t count_given(const struct cm_device *device, uint64_t now_ns)
{
	struct cm_cache *cache = device->cache;
	const uint64_t decay_ns = cache->policy.decay_ns, span_ns = decay_ns / CM_DECAY_SPANS + 1;
	uint64_t kept = 0, since;
	uint32_t i;

	for (i = 0; i < CM_DECAY_SPANS; i++) {
		since = device->given[i].span * span_ns + span_ns / 2;
		if (device->given[i].bytes)
			kept += cm_decay_keep(device->given[i].bytes,
					      now_ns > since ? now_ns - since : 0, decay_ns);
	}
	return kept;
}

static void note_given(struct cm_device *device, uint64_t idle_since_ns, uint64_t bytes)
{
	const uint64_t span = span_of(device->cache, idle_since_ns);
	struct cm_given *given = &device->given[span % CM_DECAY_SPANS];

	if (given->span != span)
		*given = (struct cm_given){.span = span};
	given->bytes += bytes;
}

/* Another decay time has other spans, so the returns of the old ones are forgotten. */
static void fit_given(struct cm_device *device)
{
	const uint64_t decay_ns = device->cache->policy.decay_ns;

	if (device->given_decay_ns == decay_ns)
		return;
	memset(device->given, 0, sizeof(device->given));
	device->given_decay_ns = decay_ns;
}

/* What is idle on a device. */
struct idle {
	const struct cm_device *device;
	uint64_t now_tick;
	uint64_t now_ns;
	uint64_t bytes;
	uint64_t kept;     /* how much of it may stay, by the curve */
	uint64_t since_ns; /* when its oldest part became idle */
	bool pages;        /* that part is pages */
};

static void count_part(struct idle *idle, uint64_t bytes, uint64_t tick, bool pages)
{
	/* It may have become idle since the clock was read. */
	const uint64_t ticks = tick < idle->now_tick ? idle->now_tick - tick : 0;
	const uint64_t age_ns = ticks_to_ns(idle->device, ticks, idle->now_tick, idle->now_ns);

	idle->bytes += bytes;
	idle->kept += cm_decay_keep(bytes, age_ns, idle->device->cache->policy.decay_ns);
	if (idle->now_ns > age_ns && idle->now_ns - age_ns < idle->since_ns) {
		idle->since_ns = idle->now_ns - age_ns;
		idle->pages = pages;
	}
}

static void count_pages(void *data, const struct cm_paged_idle *pages)
{
	count_part(data, pages->pages * CM_PAGED_PAGE, pages->tick, true);
}

static void count_all_pages_locked(struct cm_device *device, struct idle *idle)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	while (device->cache->policy.expandable_segments &&
	       (heap = cm_device_next_heap(device, &at)))
		cm_paged_each_idle_locked(heap, count_pages, idle);
}

static void count_segments_locked(struct cm_device *device, uint32_t from, uint32_t to,
				  struct idle *idle)
{
	const struct cm_cache *cache = device->cache;
	uint32_t s;

	for (s = from; s < to; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (cm_release_can(device, segment))
			count_part(idle, segment->size, cache->block[segment->first].tick, false);
	}
}

/* A sum over several short looks, as the program's threads take the lock in between. */
static struct idle count_idle(struct cm_device *device)
{
	struct cm_cache *cache = device->cache;
	const uint64_t now_ns = cache->ops->now_ns();
	const uint32_t end = cm_rows_segments(cache);
	struct idle idle = {
		.device = device,
		.now_tick = cm_cache_tick(cache),
		.now_ns = now_ns,
		.kept = count_given(device, now_ns),
		.since_ns = now_ns,
	};
	uint32_t s, next;

	for (s = 1; s < end; s = next) {
		next = cm_rows_slice(s, end);
		cm_lock_acquire(&device->lock);
		count_segments_locked(device, s, next, &idle);
		cm_lock_release(&device->lock);
	}
	cm_lock_acquire(&device->lock);
	count_all_pages_locked(device, &idle);
	cm_lock_release(&device->lock);
	return idle;
}

/* Pending blocks with which the device is done are idle, too. */
static void poll_device(struct cm_device *device)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	cm_lock_acquire(&device->cache->event_lock);
	while ((heap = cm_device_next_heap(device, &at))) {
		(void)cm_epoch_close_event_locked(heap);
		(void)cm_epoch_poll_event_locked(heap);
	}
	cm_lock_release(&device->cache->event_lock);
}

/* Returns a few pages at a time, so that a thread that wants to map some does not wait long. */
static uint64_t give_pages(struct cm_device *device, uint64_t most)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	const uint64_t start = ops->now_ns();
	uint64_t bytes = 0, pass = 1, want;

	while (pass && bytes < most && ops->now_ns() - start < PAGES_NS) {
		want = most - bytes < PAGES_BYTES ? most - bytes : PAGES_BYTES;
		bytes += pass = cm_paged_release_idlest(device, want);
	}
	return bytes;
}

/* The reclaim lock is held, and the device is idle. Returns the bytes that went back to the driver:
 * memory that is too old, or the oldest memory while more is taken than a new limit allows. */
static uint64_t give_excess(struct cm_device *device)
{
	const uint64_t over = cm_limit_exceeded(device);
	uint64_t bytes, aged = 0;
	struct idle idle;

	fit_given(device);
	poll_device(device);
	idle = count_idle(device);
	if (device->cache->policy.decay_ns && idle.bytes > idle.kept)
		aged = idle.bytes - idle.kept;
	if (!aged && !over)
		return 0;
	bytes = idle.pages ? give_pages(device, aged > over ? aged : over)
			   : cm_release_idlest(device, over ? UINT64_MAX : aged);
	note_given(device, idle.since_ns, bytes);
	cm_device_count(device, CM_SCALAR_decay_bytes, (int64_t)bytes);
	return bytes;
}

/* One block at a time: the driver may take long for a large one. */
static bool give_pinned(struct cm_device *device)
{
	const uint64_t decay_ns = device->cache->policy.decay_ns;

	return decay_ns && cm_pinned_has_idle(device->cache) &&
	       cm_pinned_release_aged(device->first, tick_before(device, decay_ns));
}

/* If the device cannot be queried, it is not known to be idle. -EBUSY: outside the gate. */
static int step(struct cm_device *device, bool *given)
{
	struct cm_cache *cache = device->cache;
	int err = -ENODATA;

	if (!device->decay_ns) {
		device->decay_tick = cm_cache_tick(cache);
		device->decay_ns = cache->ops->now_ns();
	}
	if (!cm_lock_try(&device->first->reclaim_lock))
		return 0;
	if (cm_epoch_can_ask(cache))
		err = cm_epoch_quiesces(device, LOOK_NS);
	if (!err) {
		*given |= give_excess(device) != 0;
		*given |= give_pinned(device);
	}
	cm_lock_release(&device->first->reclaim_lock);
	return err;
}

/* ns until the next step. */
static uint64_t next_step(const struct cm_cache *cache, bool cached, bool given)
{
	const uint64_t decay_ns = cache->policy.decay_ns;
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);

	for (i = 0; i < n; i++)
		if (cm_limit_exceeded(cache->device[i]))
			return LIMIT_NS;
	if (!decay_ns)
		return UINT64_MAX;
	/* There may be more of the same age. It goes after a moment in which waiting threads can
	 * call the driver. */
	return decay_ns / (given ? STEPS * STEPS : cached ? STEPS : STEPS_IDLE);
}

/* Whether the device may have something that is due, now or later. */
static bool has_idle(struct cm_device *device)
{
	if (!device->cache->policy.decay_ns && !cm_limit_exceeded(device))
		return false;
	return cm_device_has_cached(device) || cm_pinned_has_idle(device->cache);
}

uint64_t cm_cache_decay(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	bool cached = false, given = false;

	if (cache->policy.mode != CM_MODE_CACHE)
		return UINT64_MAX;
	for (i = 0; i < n; i++) {
		if (!has_idle(cache->device[i]) || !cache->ops->gate_enter())
			continue;
		cached = true;
		if (step(cache->device[i], &given) != -EBUSY)
			cache->ops->gate_leave();
	}
	cm_check_after(cache);
	return next_step(cache, cached, given);
}

void cm_cache_set_decay(struct cm_cache *cache, uint64_t decay_ns)
{
	cache->policy.decay_ns = decay_ns;
}
