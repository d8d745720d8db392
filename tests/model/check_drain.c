/* SPDX-License-Identifier: MIT */
/*
 * How caching stops in a context (cm_heap_drain) beside a thread that adds a shard to it
 * (cm_create_shard_heap): the new heap must not go on. The locks are words here; check_lock.c is
 * about the real ones.
 */
#include <assert.h>

#include "allocator/base/gate.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/rows.h"
#include "allocator/state/suspended.h"
#include "tests/model/model.h"

#define SHARDS 2
#define CTX    UINT64_C(0x1000)

/* What is broken on purpose. */
static enum fault {
	NOTHING,
	NO_FENCE_TO_STOP,
	NO_FENCE_TO_ADD,
} fault;

static struct cm_cache own;
static struct cm_device shard[SHARDS];
static struct cm_heap heaps[SHARDS];
static bool is_added;

static void take(struct cm_lock *lock)
{
	uint32_t nobody = 0;

	MODEL_SPIN_UNTIL((nobody = 0, atomic_compare_exchange_strong_explicit(
					      &lock->word, &nobody, 1, memory_order_acquire,
					      memory_order_relaxed)));
}

static void give(struct cm_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

static void fence_unless(enum fault planted)
{
	if (fault != planted)
		atomic_thread_fence(memory_order_seq_cst);
}

/* ---- suspended.c and life_cycle.c; bins are not looked at ---- */

#undef assert
#undef atomic_thread_fence
#define assert(condition)           ((void)0)
#define cm_lock_acquire(lock)       take(lock)
#define cm_lock_release(lock)       give(lock)
#define cm_bins_init(bins, block)   ((void)(bins))
#define atomic_thread_fence(unused) fence_unless(NO_FENCE_TO_STOP)
/* clang-format off: after the name is another */
#include "allocator/state/life_cycle.c" /* NOLINT(bugprone-suspicious-include) */
#include "allocator/state/suspended.c"  /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */

/* ---- scenarios ---- */

static void begin_with(enum fault planted)
{
	static struct cm_heap_row row[SHARDS];
	uint32_t i;

	fault = planted;
	is_added = false;
	for (i = 0; i < SHARDS; i++) {
		row[i].flags = 0;
		atomic_init(&shard[i].lock.word, 0);
		atomic_init(&shard[i].unreclaimed, false);
		shard[i].cache = &own;
		shard[i].first = shard;
		heaps[i].cache = &own;
		heaps[i].device = &shard[i];
		heaps[i].first = heaps;
		heaps[i].row = &row[i];
		heaps[i].ctx = 0;
		atomic_init(&heaps[i].state, CM_STATE_UNUSED);
		atomic_init(&own.heap[i], NULL);
	}
	atomic_init(&heaps[0].state, CM_STATE_SERVING);
	heaps[0].ctx = CTX;
	atomic_init(&own.heap[0], &heaps[0]);
	atomic_init(&own.heaps, 1);
}

static void begin(void)
{
	begin_with(NOTHING);
}

static void without_fence_to_stop(void)
{
	begin_with(NO_FENCE_TO_STOP);
}

static void without_fence_to_add(void)
{
	begin_with(NO_FENCE_TO_ADD);
}

/* As create.c does it. */
static void add(void)
{
	struct cm_heap *first = &heaps[0], *heap = &heaps[1];

	if (cm_heap_state(first) != CM_STATE_SERVING)
		return;
	is_added = true;
	atomic_store_explicit(&own.heap[1], heap, memory_order_relaxed);
	atomic_store_explicit(&own.heaps, 2, memory_order_release);
	take(&heap->device->lock);
	cm_heap_begin_locked(heap);
	__atomic_store_n(&heap->ctx, CTX, __ATOMIC_RELEASE);
	give(&heap->device->lock);
	fence_unless(NO_FENCE_TO_ADD);
	if (cm_heap_drains(first))
		cm_heap_drain(first);
}

static void stop(void)
{
	cm_heap_drain(&heaps[0]);
}

static void nothing_goes_on(void)
{
	MODEL_MUST(cm_heap_drains(&heaps[0]));
	MODEL_MUST(!is_added || cm_heap_drains(&heaps[1]));
}

static const struct model_scenario scenarios[] = {
	{"one that stops beside one that adds", begin, {stop, add}, nothing_goes_on, 2, NULL},
	{"two that stop beside one that adds", begin, {stop, stop, add}, nothing_goes_on, 2, NULL},
	{"one that stops without a fence",
	 without_fence_to_stop,
	 {stop, add},
	 nothing_goes_on,
	 2,
	 "!is_added || cm_heap_drains(&heaps[1])"},
	{"one that adds without a fence",
	 without_fence_to_add,
	 {stop, add},
	 nothing_goes_on,
	 2,
	 "!is_added || cm_heap_drains(&heaps[1])"},
};

int main(void)
{
	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
