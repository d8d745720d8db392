/* SPDX-License-Identifier: MIT */
/*
 * How all shards of a device are stopped. One thread at a time has the turn. It tries each lock
 * until it has it; it never waits for one, as it may hold the lock of its own shard. A thread that
 * needs the turn while it holds a shard's lock parks that shard: whoever has the turn may read and
 * write the shard's counters as if it had the lock, adjusts the parts of the peaks, and so serves
 * the parked shard, too. So threads that want the turn at the same moment never wait for each
 * other.
 */
#include "allocator/state/shards.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "allocator/cache.h"

/* Of a shard whose lock is held by the thread that writes RUNNING and PARKED. */
enum cm_parked {
	CM_RUNNING,
	CM_PARKED, /* waits for the turn: its counters stand still until it has it, or is served */
	CM_SERVED, /* another thread has adjusted its parts: it goes on */
};

/* A thread inside a lock leaves it within a microsecond, or was preempted. */
#define SPINS  200u
#define NAP_NS 20000

static void rest(uint32_t *looks)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	const int saved = errno;

	if (++*looks < SPINS) {
		cm_relax();
		return;
	}
	/* Not by the function of that name, in which the thread could be cancelled. */
	(void)syscall(SYS_nanosleep, &nap, NULL);
	errno = saved;
}

static bool try_turn(struct cm_device *first)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(&first->turns.taken, &nobody, 1);
}

static void give_turn(struct cm_device *first)
{
	atomic_store(&first->turns.taken, 0);
}

static int64_t now_of(const struct cm_device_row *row, uint32_t pool, uint32_t stat)
{
	return pool == CM_POOL_ALL ? cm_stat_current(row, (enum cm_stat)stat)
				   : row->stat[pool].current[stat];
}

static bool passes_its_part(const struct cm_device *device)
{
	const struct cm_device_row *row = device->row;
	uint32_t pool, stat;

	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++)
			if (now_of(row, pool, stat) > row->stat[pool].peak[stat])
				return true;
	return false;
}

/* Each shard's part is what it has now, and an equal part of what is left below the peak. */
static void adjust(struct cm_device *first, uint32_t shards, uint32_t pool, uint32_t stat)
{
	struct cm_device *each;
	int64_t left = 0, more;

	for (each = first; each; each = cm_device_next_shard(each))
		left += each->row->stat[pool].peak[stat] - now_of(each->row, pool, stat);
	if (left < 0)
		left = 0; /* all have more than ever before */
	for (each = first; each; each = cm_device_next_shard(each)) {
		more = shards > 1 ? left / shards : left;
		shards--;
		left -= more;
		each->row->stat[pool].peak[stat] = now_of(each->row, pool, stat) + more;
	}
}

/* A shard that is parked is in the middle of a change. */
static void begin_change(struct cm_device_row *row, bool is_parked)
{
	if (!is_parked)
		cm_counters_begin(row);
}

static void end_change(struct cm_device_row *row, bool is_parked)
{
	if (!is_parked)
		cm_counters_end(row);
}

/* All shards stand still. */
static void adjust_all(struct cm_device *first)
{
	uint32_t pool, stat, shards = 0;
	struct cm_device *each;

	cm_shards_begin_move_locked(first);
	for (each = first; each; each = cm_device_next_shard(each)) {
		begin_change(each->row, !each->turns.stopped);
		shards++;
	}
	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++)
			adjust(first, shards, pool, stat);
	for (each = first; each; each = cm_device_next_shard(each))
		end_change(each->row, !each->turns.stopped);
	cm_shards_end_move_locked(first);
}

/* Tries to stop the shards that are not stopped. Returns how many are parked instead. */
static uint32_t stop_or_find_parked(struct cm_device *first,
				    const struct cm_device *self) CM_UNCHECKED
{
	struct cm_device *each;
	uint32_t parked = 0, looks = 0;

	for (each = first; each; each = cm_device_next_shard(each)) {
		if (each == self || each->turns.stopped)
			continue;
		while (!each->turns.stopped && atomic_load(&each->turns.parked) != CM_PARKED) {
			each->turns.stopped = cm_lock_try(&each->lock);
			if (!each->turns.stopped)
				rest(&looks);
		}
		parked += !each->turns.stopped;
	}
	return parked;
}

static void serve_parked(struct cm_device *first)
{
	struct cm_device *each;

	for (each = first; each; each = cm_device_next_shard(each))
		if (!each->turns.stopped && atomic_load(&each->turns.parked) == CM_PARKED)
			atomic_store(&each->turns.parked, CM_SERVED);
}

static void let_go(struct cm_device *first) CM_UNCHECKED
{
	struct cm_device *each;

	for (each = first; each; each = cm_device_next_shard(each)) {
		if (!each->turns.stopped)
			continue;
		each->turns.stopped = false;
		cm_lock_release_lent(&each->lock);
	}
}

void cm_shards_stop(struct cm_device *first)
{
	uint32_t looks = 0;

	assert(cm_device_is_first(first));
	while (!try_turn(first))
		rest(&looks);
	while (stop_or_find_parked(first, NULL)) {
		adjust_all(first);
		serve_parked(first);
	}
}

void cm_shards_resume(struct cm_device *first)
{
	let_go(first);
	give_turn(first);
}

void cm_shards_trade_locked(struct cm_device *device)
{
	struct cm_device *first = device->first;
	uint32_t looks = 0;
	bool has_turn;

	assert(cm_lock_is_held(&device->lock));
	/* What this thread has changed is seen by the one that finds the shard parked. */
	atomic_store(&device->turns.parked, CM_PARKED);
	while (!(has_turn = try_turn(first)) && atomic_load(&device->turns.parked) != CM_SERVED)
		rest(&looks);
	if (has_turn && passes_its_part(device)) {
		(void)stop_or_find_parked(first, device);
		adjust_all(first);
		serve_parked(first);
		let_go(first);
	}
	atomic_store(&device->turns.parked, CM_RUNNING);
	if (has_turn)
		give_turn(first);
}

const struct cm_device_row *cm_shards_sum_locked(struct cm_device *first)
{
	const struct cm_device *each;

	first->turns.sum = *first->row;
	for (each = cm_device_next_shard(first); each; each = cm_device_next_shard(each))
		cm_device_row_add(&first->turns.sum, each->row);
	return &first->turns.sum;
}

void cm_shards_read(struct cm_device *first, struct cm_device_row *ret_row)
{
	cm_shards_stop(first);
	*ret_row = *cm_shards_sum_locked(first);
	cm_shards_resume(first);
}

uint32_t cm_shards_number_of(const struct cm_device *device)
{
	const struct cm_device *each = device->first;
	uint32_t number = 0;

	for (; each != device; each = cm_device_next_shard(each))
		number++;
	return number;
}

struct cm_heap *cm_shards_find_heap(struct cm_heap *first, uint32_t number)
{
	struct cm_heap *each;
	uint32_t at = 0;

	while ((each = cm_heap_next_shard(first, &at)))
		if (cm_shards_number_of(each->device) == number)
			return each;
	return NULL;
}

struct cm_heap *cm_cache_heap_of_thread(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *first = cm_cache_find_heap(cache, ctx), *heap = NULL;

	if (CM_UNLIKELY(first && cm_thread.shard))
		heap = cm_shards_find_heap(first, cm_thread.shard - 1);
	return heap ? heap : first;
}
