/* SPDX-License-Identifier: MIT */
/*
 * Writes a device's counters and its ring of events: the writer's side of struct cm_device_row, and
 * of struct cm_host_row for pinned memory. Never blocks, never fails.
 *
 * The allocator calls these under the device's lock, between cm_counters_begin and cm_counters_end,
 * so there is one writer at a time and plain stores do; a reader in another process takes a copy
 * between two equal, even values of `seq` (stats/reader.h). The definitions of the families, and of
 * the moments at which they move, are PyTorch's (reference: torch.cuda.memory_stats).
 */
#ifndef CM_STATS_COUNTERS_H
#define CM_STATS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"

/* Keeps the stores before it before those after it. */
static inline void cm_counters_order(void)
{
#if defined(__x86_64__)
	/* x86 keeps stores in order: only the compiler has to be held. */
	__asm__ __volatile__("" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Adds 1, behind all stores before it. */
static inline void cm_seq_step(uint32_t *seq)
{
#if defined(__x86_64__)
	/* One instruction, where the compiler makes three of an atomic store. */
	__asm__ __volatile__("incl %0" : "+m"(*seq) : : "memory", "cc");
#else
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
#endif
}

/* A reader that sees a changed value also sees seq odd, or moved on. */
static inline void cm_seq_begin(uint32_t *seq)
{
	cm_seq_step(seq);
	cm_counters_order();
}

static inline void cm_seq_end(uint32_t *seq)
{
	cm_seq_step(seq);
}

static inline void cm_counters_begin(struct cm_device_row *row)
{
	cm_seq_begin(&row->seq);
}

static inline void cm_counters_end(struct cm_device_row *row)
{
	cm_seq_end(&row->seq);
}

/* Sums that wrap, as a reader's values are foreign. */
static inline int64_t cm_wrap_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t cm_wrap_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* The families that only fall when blocks become ready. A request does not lift their peaks, but
 * cm_counters_ready before it lowers them: until then they are what the families are now. */
static inline bool cm_stat_peaks_late(uint32_t stat)
{
	return stat >= CM_STAT_ACTIVE && stat <= CM_STAT_REQUESTED_BYTES;
}

/* A family of a row, for readers and writers alike. */
static inline struct cm_stat4 cm_stat_read(const struct cm_device_row *row, enum cm_pool pool,
					   uint32_t stat)
{
	const struct cm_stat_pool *from = &row->stat[pool];
	const struct cm_stat_pool *small = &row->stat[CM_POOL_SMALL];
	const struct cm_stat_pool *large = &row->stat[CM_POOL_LARGE];
	struct cm_stat4 value = {.peak = from->peak[stat]};
	int64_t base;

	if (pool == CM_POOL_ALL) {
		value.current = cm_wrap_add(small->current[stat], large->current[stat]);
		value.freed = cm_wrap_add(small->freed[stat], large->freed[stat]);
		base = cm_wrap_add(small->base[stat], large->base[stat]);
	} else {
		value.current = from->current[stat];
		value.freed = from->freed[stat];
		base = from->base[stat];
	}
	value.allocated = cm_wrap_sub(cm_wrap_add(value.current, value.freed), base);
	if (cm_stat_peaks_late(stat) && value.peak < value.current)
		value.peak = value.current;
	return value;
}

static inline int64_t cm_stat_current(const struct cm_device_row *row, enum cm_stat stat)
{
	return cm_wrap_add(row->stat[CM_POOL_SMALL].current[stat],
			   row->stat[CM_POOL_LARGE].current[stat]);
}

/* Lifts peaks that are passed, unless the row is one of several of a device. Returns whether it is:
 * then its part of a peak is passed, and the caller has to get a larger one. */
bool cm_counters_lift_peak(struct cm_device_row *row, enum cm_pool pool, uint32_t stat);

/* Returns whether the row's part of a peak is passed: see cm_counters_lift_peak. */
static inline bool cm_counters_raise(struct cm_device_row *row, enum cm_pool pool, uint32_t stat,
				     int64_t n)
{
	struct cm_stat_pool *to = &row->stat[pool], *all = &row->stat[CM_POOL_ALL];
	const int64_t current = to->current[stat] + n;

	to->current[stat] = current;
	if (current <= to->peak[stat] &&
	    cm_stat_current(row, (enum cm_stat)stat) <= all->peak[stat])
		return false;
	return cm_counters_lift_peak(row, pool, stat);
}

static inline void cm_counters_lower(struct cm_device_row *row, enum cm_pool pool, uint32_t stat,
				     int64_t n)
{
	row->stat[pool].current[stat] -= n;
	row->stat[pool].freed[stat] += n;
}

/* A net change counts as one increase or one decrease, so a peak never sees a value in between.
 * Returns what cm_counters_raise does. */
static inline bool cm_counters_change(struct cm_device_row *row, enum cm_pool pool, uint32_t stat,
				      int64_t n)
{
	if (n > 0)
		return cm_counters_raise(row, pool, stat, n);
	if (n < 0)
		cm_counters_lower(row, pool, stat, -n);
	return false;
}

/* The driver has just been asked how much of the device is free. `first`: the row of its first
 * shard. */
static inline void cm_counters_note_free(struct cm_device_row *first, uint64_t bytes,
					 uint64_t now_ns)
{
	__atomic_store_n(&first->free_bytes, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&first->free_seen_ns, now_ns, __ATOMIC_RELAXED);
}

/*
 * Keeps free_bytes current without a call of the driver: the process has just taken `bytes` from
 * the driver, or returned them (less than 0). `first`: the row of the device's first shard. Its
 * lock need not be held: another shard may have taken them, and the word stands for itself.
 */
static inline void cm_counters_note_driver_use(struct cm_device_row *first, int64_t bytes)
{
	uint64_t free_bytes = __atomic_load_n(&first->free_bytes, __ATOMIC_RELAXED), left;

	if (!__atomic_load_n(&first->free_seen_ns, __ATOMIC_RELAXED))
		return;
	do {
		left = (int64_t)free_bytes > bytes ? free_bytes - (uint64_t)bytes : 0;
		if (left > first->total_bytes)
			left = first->total_bytes;
	} while (!__atomic_compare_exchange_n(&first->free_bytes, &free_bytes, left, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static inline void cm_stat4_raise(struct cm_stat4 *stat, int64_t n)
{
	stat->current += n;
	stat->allocated += n;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
}

static inline void cm_stat4_lower(struct cm_stat4 *stat, int64_t n)
{
	stat->current -= n;
	stat->freed += n;
}

/* cm_counters_lift_peak for the five families of a request. */
bool cm_counters_lift_peaks(struct cm_device_row *row, enum cm_pool pool);

/* Two families at once; `may_alias` since they are stored as plain numbers. */
typedef int64_t cm_counters_pair __attribute__((vector_size(16), may_alias));

static inline bool cm_counters_any_negative(cm_counters_pair pair)
{
#if defined(__SSE2__)
	typedef double doubles __attribute__((vector_size(16)));

	return __builtin_ia32_movmskpd((doubles)pair) != 0;
#else
	return (pair[0] | pair[1]) < 0;
#endif
}

/* What is left below the peaks of two families, of the pool or of all: negative where one is
 * passed. `families`: 0 for the number and bytes of allocations, 1 for those of active memory, 2
 * for the bytes requested, and a family that does not move. */
static inline cm_counters_pair cm_counters_left(const struct cm_device_row *row, enum cm_pool pool,
						uint32_t families)
{
	const enum cm_pool other = pool == CM_POOL_SMALL ? CM_POOL_LARGE : CM_POOL_SMALL;
	const cm_counters_pair *current = (const void *)row->stat[pool].current;
	const cm_counters_pair *rest = (const void *)row->stat[other].current;
	const cm_counters_pair *peak = (const void *)row->stat[pool].peak;
	const cm_counters_pair *peak_all = (const void *)row->stat[CM_POOL_ALL].peak;

	_Static_assert(CM_STAT_ALLOCATION == 0 && CM_STAT_ALLOCATED_BYTES == 1 &&
			       CM_STAT_ACTIVE == 2 && CM_STAT_ACTIVE_BYTES == 3 &&
			       CM_STAT_REQUESTED_BYTES == 4,
		       "the families of a request stand first, in this order");
	_Static_assert(offsetof(struct cm_device_row, stat) % sizeof(cm_counters_pair) == 0,
		       "pairs are aligned");
	return (peak[families] - current[families]) |
	       (peak_all[families] - (current[families] + rest[families]));
}

/* A block of `size` bytes is allocated for a request of `requested` bytes. Returns what
 * cm_counters_raise does. */
static inline bool cm_counters_alloc(struct cm_device_row *row, enum cm_pool pool, int64_t size,
				     int64_t requested)
{
	const cm_counters_pair n = {1, size};
	cm_counters_pair *current = (void *)row->stat[pool].current, left;

	current[0] += n;
	current[1] += n;
	row->stat[pool].current[CM_STAT_REQUESTED_BYTES] += requested;
	left = cm_counters_left(row, pool, 0);
	if (__builtin_expect(row->flags & CM_DEVICE_PART, 0))
		left |= cm_counters_left(row, pool, 1) | cm_counters_left(row, pool, 2);
	return __builtin_expect(cm_counters_any_negative(left), 0) &&
	       cm_counters_lift_peaks(row, pool);
}

/* The program frees a block. */
static inline void cm_counters_free(struct cm_device_row *row, enum cm_pool pool, int64_t size)
{
	const cm_counters_pair n = {1, size};
	struct cm_stat_pool *to = &row->stat[pool];

	*(cm_counters_pair *)(void *)to->current -= n;
	*(cm_counters_pair *)(void *)to->freed += n;
}

/* `blocks` freed blocks, of `size` bytes together, may be used again. */
static inline void cm_counters_ready(struct cm_device_row *row, enum cm_pool pool, int64_t blocks,
				     int64_t size, int64_t requested)
{
	if (cm_counters_any_negative(cm_counters_left(row, pool, 1) |
				     cm_counters_left(row, pool, 2)))
		(void)cm_counters_lift_peaks(row, pool);
	cm_counters_lower(row, pool, CM_STAT_ACTIVE, blocks);
	cm_counters_lower(row, pool, CM_STAT_ACTIVE_BYTES, size);
	cm_counters_lower(row, pool, CM_STAT_REQUESTED_BYTES, requested);
}

/* A wholly free segment moves to another shard of the device: nothing is allocated or freed, and
 * the sums stay. No other thread reads or writes these counters. */
void cm_counters_move_segment(struct cm_device_row *from, struct cm_device_row *to,
			      enum cm_pool pool, int64_t bytes);

static inline void cm_counters_count(struct cm_device_row *row, enum cm_scalar scalar, int64_t n)
{
	row->scalar[scalar] += n;
}

static inline void cm_duration_add(struct cm_duration *time, uint64_t ns)
{
	if (!time->min_ns || ns < time->min_ns)
		time->min_ns = ns;
	if (ns > time->max_ns)
		time->max_ns = ns;
	time->total_ns += ns;
	time->count++;
}

/* Rows ahead of the next one that are fetched into the cache: those of some four pairs. */
#define CM_RING_AHEAD 8

struct cm_ring {
	struct cm_event *row; /* NULL: not recorded */
	uint32_t mask;        /* rows - 1 */
};

/* Who does it, and from where: all 0 but the thread where it is not recorded. */
struct cm_event_origin {
	uint32_t thread;
	uint32_t stack;
	uint32_t annotation;
};

/*
 * An event is counted before its row is written, and the row gets its number last. So a reader can
 * tell rows that were overwritten while it copied them by the count, and a row in the making by its
 * number. Only the stores to both are ordered: what the writer has in registers stays there.
 */
static inline void cm_event_begin(struct cm_event *row, uint64_t *next)
{
#if defined(__x86_64__)
	__asm__ __volatile__("" : "+m"(*next), "+m"(*row));
#else
	(void)row;
	(void)next;
	cm_counters_order();
#endif
}

static inline void cm_event_end(struct cm_event *row, uint64_t number)
{
#if defined(__x86_64__)
	__asm__ __volatile__("" : "+m"(*row));
	row->number = number;
#else
	__atomic_store_n(&row->number, number, __ATOMIC_RELEASE);
#endif
}

/* Adds the next event, whose number it takes from *next; see struct cm_event. Returns *next. */
static inline uint64_t cm_ring_add(const struct cm_ring *ring, uint64_t *next,
				   enum cm_action action, enum cm_pool pool, uint32_t heap,
				   struct cm_event_origin origin, uint64_t tick, uint64_t addr,
				   uint64_t size)
{
	uint64_t number = *next;
	struct cm_event *row;

	if (!ring->row)
		return number;
	row = &ring->row[number & ring->mask];
	/* The ring is larger than the nearest caches; a row behind its end does no harm. */
	__builtin_prefetch(row + CM_RING_AHEAD, 1);
	*next = ++number;
	cm_event_begin(row, next);
	row->tick = tick;
	row->addr = addr;
	row->size = size;
	row->thread = origin.thread;
	row->stack = origin.stack;
	row->annotation = origin.annotation;
	row->action = (uint8_t)action;
	row->pool = (uint8_t)pool;
	row->heap = (uint16_t)heap;
	cm_event_end(row, number);
	return number;
}

/*
 * Adds the counters of a further shard to those of the device's first one; the rest of *sum stays.
 * Both are copies, or guarded by their locks. Sums wrap, as a reader's values are foreign.
 */
void cm_device_row_add(struct cm_device_row *sum, const struct cm_device_row *row);

/* torch.cuda.reset_peak_memory_stats: every peak becomes the current value. */
void cm_counters_reset_peak(struct cm_device_row *row);
/* torch.cuda.reset_accumulated_memory_stats: allocated and freed, and all counters, become 0. */
void cm_counters_reset_accumulated(struct cm_device_row *row);
/* The same for pinned host memory. A peak reset forgets the longest and shortest time too. */
void cm_host_reset_peak(struct cm_host_row *row);
void cm_host_reset_accumulated(struct cm_host_row *row);

#endif
