/* SPDX-License-Identifier: MIT */
/*
 * How threads stop all shards of a device, and trade parts of its peaks: allocator/state/shards.c,
 * and the counters of stats/. What a shard's lock guards is plain memory, so two threads inside are
 * a race. The lock is a word here; check_lock.c is about the real one.
 *
 * The sum over all shards follows an order of the changes: one that stays within its part counts at
 * once, another one when the parts are adjusted. At each change the parts add up to the most that
 * the sum has been in that order.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "allocator/cache.h"
#include "allocator/state/shards.h"
#include "tests/model/model.h"

#define SHARDS       3u
#define NOT_MODELLED __attribute__((no_sanitize("thread")))

/* What is broken on purpose. */
static enum fault {
	NOTHING,
	NO_LOOK_AT_PARKED, /* the thread that stops all waits for the lock of a parked shard */
	NOT_SERVED,        /* a parked shard that was adjusted waits for the turn */
	NO_TURN,           /* everyone has the turn */
	NO_LOCK,           /* shards are adjusted while they run */
	PARKED_UNORDERED,  /* what was changed before is not seen by the thread that looks */
	SERVED_UNORDERED,  /* the adjusted parts are not seen by the shard that goes on */
} fault;

static struct cm_device shard[SHARDS];
static uint32_t used;
/* Shards are added in the run, so that the list of them is no plain memory. */
static bool is_growing;

/* ---- the order of the changes ---- */

/* Of each shard what counts as yet, and of what it has changed beyond its part. */
static int64_t counted[SHARDS][CM_POOL_COUNT][CM_STAT_COUNT];
static bool is_beyond[SHARDS][CM_POOL_COUNT][CM_STAT_COUNT];
static int64_t most[CM_POOL_COUNT][CM_STAT_COUNT];
static unsigned readings;

static NOT_MODELLED int64_t now(const struct cm_device *of, uint32_t pool, uint32_t stat)
{
	const struct cm_stat_pool *pools = of->row->stat;

	return pool == CM_POOL_ALL
		       ? pools[CM_POOL_SMALL].current[stat] + pools[CM_POOL_LARGE].current[stat]
		       : pools[pool].current[stat];
}

static NOT_MODELLED bool is_within(uint32_t i, uint32_t pool, uint32_t stat)
{
	return now(&shard[i], pool, stat) <= shard[i].row->stat[pool].peak[stat] &&
	       now(&shard[i], CM_POOL_ALL, stat) <= shard[i].row->stat[CM_POOL_ALL].peak[stat];
}

static NOT_MODELLED void note_most(uint32_t stat)
{
	int64_t sum[CM_POOL_COUNT] = {0};
	uint32_t i, pool;

	for (i = 0; i < SHARDS; i++)
		for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
			sum[pool] += counted[i][pool][stat];
	sum[CM_POOL_ALL] = sum[CM_POOL_SMALL] + sum[CM_POOL_LARGE];
	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		if (most[pool][stat] < sum[pool])
			most[pool][stat] = sum[pool];
}

/* Changes whose parts were adjusted count from now on, all of them at once. Nothing was changed
 * since they were: called before a thread that stood still goes on. */
static NOT_MODELLED void count_adjusted(void)
{
	uint32_t i, pool, stat;

	for (stat = 0; stat < CM_STAT_COUNT; stat++) {
		for (i = 0; i < used; i++) {
			for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
				if (!is_beyond[i][pool][stat] || !is_within(i, pool, stat))
					continue;
				is_beyond[i][pool][stat] = false;
				counted[i][pool][stat] = now(&shard[i], pool, stat);
			}
		}
		note_most(stat);
	}
}

static NOT_MODELLED void check_peaks(void)
{
	uint32_t i, pool, stat;
	int64_t parts;

	for (pool = 0; pool < CM_POOL_COUNT; pool++) {
		for (stat = 0; stat < CM_STAT_COUNT; stat++) {
			for (parts = 0, i = 0; i < SHARDS; i++)
				parts += shard[i].row->stat[pool].peak[stat];
			if (parts != most[pool][stat])
				model_fail("the parts are not the peak");
		}
	}
}

/* The shard's counter has been changed; `beyond`: its part has to be adjusted. */
static NOT_MODELLED void note_change(const struct cm_device *of, uint32_t pool, uint32_t stat,
				     bool beyond)
{
	const uint32_t i = (uint32_t)(of - shard);

	count_adjusted();
	is_beyond[i][pool][stat] = beyond;
	if (!beyond)
		counted[i][pool][stat] = now(of, pool, stat);
	note_most(stat);
	check_peaks();
}

static NOT_MODELLED void note_traded(void)
{
	count_adjusted();
	check_peaks();
}

/* ---- shards.c, with what it stands on ---- */

static void take(struct cm_lock *lock)
{
	uint32_t nobody = 0;

	MODEL_SPIN_UNTIL((nobody = 0, atomic_compare_exchange_strong_explicit(
					      &lock->word, &nobody, 1, memory_order_acquire,
					      memory_order_relaxed)));
}

static bool try(struct cm_lock *lock)
{
	uint32_t nobody = 0;

	return fault == NO_LOCK ||
	       atomic_compare_exchange_strong_explicit(&lock->word, &nobody, 1,
						       memory_order_acquire, memory_order_relaxed);
}

static void give(struct cm_lock *lock)
{
	note_traded();
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

static void give_stopped(struct cm_lock *lock)
{
	if (fault != NO_LOCK)
		give(lock);
}

static bool is_held(const struct cm_lock *lock)
{
	return atomic_load_explicit(&lock->word, memory_order_relaxed);
}

static struct cm_device *next_shard(const struct cm_device *of)
{
	const uint32_t next = (uint32_t)(of - shard) + 1;

	if (is_growing)
		return cm_device_next_shard(of);
	return next < used ? &shard[next] : NULL;
}

static bool exchange(_Atomic uint32_t *at, uint32_t *expected, uint32_t value)
{
	return fault == NO_TURN || atomic_compare_exchange_strong(at, expected, value);
}

static uint32_t look(const _Atomic uint32_t *at);
static void set(_Atomic uint32_t *at, uint32_t value);

#undef atomic_compare_exchange_strong
#undef atomic_load
#undef atomic_store
#define atomic_compare_exchange_strong(at, expected, value) exchange(at, expected, value)
#define atomic_load(at)                                     look(at)
#define atomic_store(at, value)                             set(at, value)
#define cm_lock_try(lock)                                   try(lock)
#define cm_lock_release_lent(lock)                          give_stopped(lock)
#define cm_lock_is_held(lock)                               is_held(lock)
#define cm_device_next_shard(of)                            next_shard(of)
#define cm_relax()                                          model_yield()
/* clang-format off: after the name is another */
#include "allocator/state/shards.c" /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */

static uint32_t look(const _Atomic uint32_t *at)
{
	const uint32_t value = atomic_load_explicit(at, memory_order_seq_cst);

	return fault == NO_LOOK_AT_PARKED && value == CM_PARKED ? CM_RUNNING : value;
}

static bool is_unordered(uint32_t value)
{
	return (fault == PARKED_UNORDERED && value == CM_PARKED) ||
	       (fault == SERVED_UNORDERED && value == CM_SERVED);
}

static void set(_Atomic uint32_t *at, uint32_t value)
{
	const bool is_turn = at == &shard[0].turns.taken;

	if (fault == NOT_SERVED && !is_turn && value == CM_SERVED)
		return;
	if (!is_turn && is_unordered(value))
		atomic_store_explicit(at, value, memory_order_relaxed);
	else
		atomic_store_explicit(at, value, memory_order_seq_cst);
}

/* ---- scenarios ---- */

static void begin_with(uint32_t n, enum fault planted)
{
	static struct cm_device_row row[SHARDS];
	uint32_t i;

	memset(row, 0, sizeof(row));
	memset(counted, 0, sizeof(counted));
	memset(is_beyond, 0, sizeof(is_beyond));
	memset(most, 0, sizeof(most));
	for (i = 0; i < SHARDS; i++) {
		memset(&shard[i].turns, 0, sizeof(shard[i].turns));
		atomic_init(&shard[i].lock.word, 0);
		atomic_init(&shard[i].next_shard, NULL);
		shard[i].first = shard;
		shard[i].row = &row[i];
		row[i].flags = n > 1 ? CM_DEVICE_PART : 0;
	}
	used = n;
	readings = 0;
	is_growing = false;
	fault = planted;
}

/* The shard has so much, and a part of the peak. */
static void give_part(uint32_t i, int64_t has, int64_t part)
{
	const enum cm_stat stat = CM_STAT_ALLOCATED_BYTES;
	struct cm_stat_pool *pools = shard[i].row->stat;

	pools[CM_POOL_SMALL].current[stat] = counted[i][CM_POOL_SMALL][stat] = has;
	pools[CM_POOL_SMALL].peak[stat] = pools[CM_POOL_ALL].peak[stat] = part;
	most[CM_POOL_SMALL][stat] += part;
	most[CM_POOL_ALL][stat] += part;
}

static void with_two_shards(enum fault planted)
{
	begin_with(2, planted);
	give_part(0, 1, 1);
	give_part(1, 1, 3);
}

static void two_shards(void)
{
	with_two_shards(NOTHING);
}

static void three_shards(void)
{
	begin_with(3, NOTHING);
	give_part(0, 1, 1);
	give_part(1, 1, 2);
	give_part(2, 0, 1);
}

static void one_shard(void)
{
	begin_with(1, NOTHING);
	give_part(0, 1, 1);
	is_growing = true;
}

#define PLANT(name, fault)              \
	static void name(void)          \
	{                               \
		with_two_shards(fault); \
	}
PLANT(without_look_at_parked, NO_LOOK_AT_PARKED)
PLANT(without_served, NOT_SERVED)
PLANT(without_turn, NO_TURN)
PLANT(without_lock, NO_LOCK)
PLANT(with_parked_unordered, PARKED_UNORDERED)
PLANT(with_served_unordered, SERVED_UNORDERED)

/* A shard that lifts its part by itself, as the only shard of a device does. */
static void with_lifted_part(void)
{
	two_shards();
	shard[0].row->flags = 0;
}

static void alter(struct cm_device *of, enum cm_pool pool, enum cm_stat stat, int64_t n)
{
	const bool beyond = cm_counters_change(of->row, pool, stat, n);

	note_change(of, pool, stat, beyond);
	if (!beyond)
		return;
	cm_shards_trade_locked(of);
	note_traded();
	MODEL_MUST(!is_beyond[of - shard][pool][stat]);
}

static void change(struct cm_device *of, int64_t n)
{
	take(&of->lock);
	cm_counters_begin(of->row);
	alter(of, CM_POOL_SMALL, CM_STAT_ALLOCATED_BYTES, n);
	cm_counters_end(of->row);
	give(&of->lock);
}

static void rise_and_fall(struct cm_device *of)
{
	change(of, 2);
	change(of, -2);
}

static void first_rises(void)
{
	change(&shard[0], 2);
}

static void second_rises(void)
{
	change(&shard[1], 3);
}

static void third_rises(void)
{
	change(&shard[2], 2);
}

static void first_rises_and_falls(void)
{
	rise_and_fall(&shard[0]);
}

static void second_falls_and_rises(void)
{
	change(&shard[1], -1);
	change(&shard[1], 4);
}

static void first_of_large(void)
{
	take(&shard[0].lock);
	cm_counters_begin(shard[0].row);
	alter(&shard[0], CM_POOL_LARGE, CM_STAT_ALLOCATED_BYTES, 1);
	alter(&shard[0], CM_POOL_SMALL, CM_STAT_ALLOCATED_BYTES, -1);
	cm_counters_end(shard[0].row);
	give(&shard[0].lock);
}

/* A block is split and allocated: both pass the parts. */
static void split_and_allocate(struct cm_device *of)
{
	take(&of->lock);
	cm_counters_begin(of->row);
	alter(of, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 1);
	alter(of, CM_POOL_SMALL, CM_STAT_ALLOCATED_BYTES, 3);
	cm_counters_end(of->row);
	give(&of->lock);
}

static void first_splits(void)
{
	split_and_allocate(&shard[0]);
}

static void second_splits(void)
{
	split_and_allocate(&shard[1]);
}

/* What a reader is told is a moment of the order, with no change half done. */
static NOT_MODELLED void check_sum(const struct cm_device_row *sum)
{
	const enum cm_stat stat = CM_STAT_ALLOCATED_BYTES;
	int64_t all = 0;
	uint32_t i;

	count_adjusted();
	for (i = 0; i < used; i++) {
		MODEL_MUST(shard[i].row->seq % 2 == 0);
		all += counted[i][CM_POOL_SMALL][stat] + counted[i][CM_POOL_LARGE][stat];
	}
	MODEL_MUST(sum->stat[CM_POOL_SMALL].current[stat] +
			   sum->stat[CM_POOL_LARGE].current[stat] ==
		   all);
	MODEL_MUST(sum->stat[CM_POOL_ALL].peak[stat] == most[CM_POOL_ALL][stat]);
	readings++;
}

static void read_sum(void)
{
	cm_shards_stop(&shard[0]);
	check_sum(cm_shards_sum_locked(&shard[0]));
	cm_shards_resume(&shard[0]);
}

/* As create.c does it. */
static void add_and_rise(void)
{
	struct cm_device *first = &shard[0];

	cm_shards_stop(first);
	cm_counters_begin(first->row);
	first->row->flags |= CM_DEVICE_PART;
	cm_counters_end(first->row);
	shard[1].row->flags |= CM_DEVICE_PART;
	used = 2;
	atomic_store_explicit(&first->next_shard, &shard[1], memory_order_release);
	cm_shards_resume(first);
	change(&shard[1], 2);
}

static void all_stands_still(void)
{
	uint32_t i;

	for (i = 0; i < used; i++) {
		MODEL_MUST(!is_held(&shard[i].lock) && !shard[i].turns.stopped);
		MODEL_MUST(shard[i].row->seq % 2 == 0);
		MODEL_MUST(shard[i].turns.parked == CM_RUNNING && !shard[i].turns.taken);
	}
	note_traded();
}

static void all_was_read(void)
{
	all_stands_still();
	MODEL_MUST(readings);
}

static const struct model_scenario scenarios[] = {
	{"two shards that trade",
	 two_shards,
	 {first_rises_and_falls, second_falls_and_rises},
	 all_stands_still,
	 3,
	 NULL},
	{"three shards that trade",
	 three_shards,
	 {first_rises, second_rises, third_rises},
	 all_stands_still,
	 2,
	 NULL},
	{"two threads of a shard and another",
	 two_shards,
	 {first_rises, first_rises, second_rises},
	 all_stands_still,
	 2,
	 NULL},
	{"a small and a large pool that together pass the peak",
	 two_shards,
	 {first_of_large, second_falls_and_rises},
	 all_stands_still,
	 3,
	 NULL},
	{"two that are parked twice in one change",
	 two_shards,
	 {first_splits, second_splits},
	 all_stands_still,
	 3,
	 NULL},
	{"one that stops all beside two that trade",
	 two_shards,
	 {first_rises_and_falls, second_rises, read_sum},
	 all_was_read,
	 2,
	 NULL},
	{"one that stops all beside one that is parked twice",
	 two_shards,
	 {first_splits, read_sum},
	 all_was_read,
	 3,
	 NULL},
	{"two that stop all", two_shards, {first_rises, read_sum, read_sum}, all_was_read, 2, NULL},
	{"a shard that is added beside one that rises",
	 one_shard,
	 {first_rises_and_falls, add_and_rise},
	 all_stands_still,
	 2,
	 NULL},
	{"a shard that lifts its part by itself",
	 with_lifted_part,
	 {first_rises, second_falls_and_rises},
	 NULL,
	 2,
	 "the parts are not the peak"},
	{"a parked shard that is never looked at",
	 without_look_at_parked,
	 {first_rises, second_rises},
	 NULL,
	 2,
	 "spins for ever"},
	{"a parked shard that is never served",
	 without_served,
	 {first_rises, read_sum},
	 NULL,
	 2,
	 "spins for ever"},
	{"shards that are stopped without the turn",
	 without_turn,
	 {first_rises, second_rises},
	 NULL,
	 2,
	 "race"},
	{"parts that are adjusted without a stop",
	 without_lock,
	 {first_rises, second_falls_and_rises},
	 NULL,
	 2,
	 "race"},
	{"a shard that is parked without order",
	 with_parked_unordered,
	 {first_rises, second_rises},
	 NULL,
	 2,
	 "race"},
	{"a shard that is served without order",
	 with_served_unordered,
	 {first_splits, second_splits},
	 NULL,
	 2,
	 "race"},
};

int main(void)
{
	model_thread_local(&cm_thread, sizeof(cm_thread));
	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
