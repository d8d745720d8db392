/* SPDX-License-Identifier: MIT */
#include "allocator/state/limit.h"

/* All counts are relaxed: they say how much, and publish nothing. */

static bool fits(uint64_t taken, uint64_t bytes, uint64_t limit)
{
	return !limit || (taken <= limit && bytes <= limit - taken);
}

bool cm_limit_take(struct cm_device *device, uint64_t bytes)
{
	uint64_t taken = atomic_load_explicit(&device->first->taken_bytes, memory_order_relaxed);

	do {
		if (!fits(taken, bytes, cm_limit_bytes(device)))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&device->first->taken_bytes, &taken,
							taken + bytes, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

void cm_limit_note(struct cm_device *device, uint64_t bytes)
{
	atomic_fetch_add_explicit(&device->first->taken_bytes, bytes, memory_order_relaxed);
}

void cm_limit_give(struct cm_device *device, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&device->first->taken_bytes, bytes, memory_order_relaxed);
}

bool cm_limit_refuses(const struct cm_device *device, uint64_t bytes)
{
	return !fits(atomic_load_explicit(&device->first->taken_bytes, memory_order_relaxed), bytes,
		     cm_limit_bytes(device));
}

uint64_t cm_limit_exceeded(const struct cm_device *device)
{
	const uint64_t taken = atomic_load_explicit(&device->first->taken_bytes,
						    memory_order_relaxed);
	const uint64_t limit = cm_limit_bytes(device);

	return limit && taken > limit ? taken - limit : 0;
}

bool cm_cache_take_limit(struct cm_cache *cache, uint32_t row, uint64_t bytes)
{
	struct cm_device *device = cm_cache_device(cache, row);

	return !device || cm_limit_take(device, bytes);
}

void cm_cache_give_limit(struct cm_cache *cache, uint32_t row, uint64_t bytes)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (device)
		cm_limit_give(device, bytes);
}

static uint64_t read_bytes(const struct cm_policy *policy)
{
	return __atomic_load_n(&policy->memory_limit, __ATOMIC_RELAXED);
}

static double read_fraction(const struct cm_policy *policy)
{
	double fraction;

	__atomic_load(&policy->memory_fraction, &fraction, __ATOMIC_RELAXED);
	return fraction;
}

bool cm_cache_has_limit(const struct cm_cache *cache)
{
	return read_bytes(&cache->policy) != UINT64_MAX || read_fraction(&cache->policy) < 1;
}

void cm_cache_read_limit(struct cm_cache *cache, uint32_t row, uint64_t *ret_limit,
			 uint64_t *ret_taken)
{
	const struct cm_device *device = cm_cache_device(cache, row);
	const uint64_t limit = device ? cm_limit_bytes(device) : 0;

	*ret_limit = limit ? limit : UINT64_MAX;
	*ret_taken = device ? atomic_load_explicit(&device->first->taken_bytes,
						   memory_order_relaxed)
			    : 0;
}

/* The lower of the two; 0: none. A limit of 0 bytes is stored as one byte. */
static uint64_t lower_limit(uint64_t bytes, double fraction, uint64_t total)
{
	if (fraction < 1 && (double)total * fraction < (double)bytes)
		bytes = (uint64_t)((double)total * fraction);
	if (bytes == UINT64_MAX)
		return 0;
	return bytes ? bytes : 1;
}

static uint64_t read_limit(const struct cm_policy *policy, uint64_t total)
{
	return lower_limit(read_bytes(policy), read_fraction(policy), total);
}

void cm_limit_apply_event_locked(struct cm_device *device)
{
	const struct cm_policy *policy = &device->cache->policy;

	/* The lock: a thread that holds it may copy the row. */
	cm_lock_acquire(&device->lock);
	__atomic_store_n(&device->row->allowed_bytes,
			 read_limit(policy, device->first->row->total_bytes), __ATOMIC_RELAXED);
	cm_lock_release(&device->lock);
}

static void apply_to_all_event_locked(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_relaxed);

	for (i = 0; i < n; i++)
		cm_limit_apply_event_locked(cache->device[i]);
}

void cm_cache_set_memory_limit(struct cm_cache *cache, uint64_t bytes)
{
	cm_lock_acquire(&cache->event_lock);
	__atomic_store_n(&cache->policy.memory_limit, bytes, __ATOMIC_RELAXED);
	apply_to_all_event_locked(cache);
	cm_lock_release(&cache->event_lock);
}

void cm_cache_set_memory_fraction(struct cm_cache *cache, double fraction)
{
	cm_lock_acquire(&cache->event_lock);
	__atomic_store(&cache->policy.memory_fraction, &fraction, __ATOMIC_RELAXED);
	apply_to_all_event_locked(cache);
	cm_lock_release(&cache->event_lock);
}
