/* SPDX-License-Identifier: MIT */
/*
 * A device with three shards, from one thread that takes the part of three. The figures are those
 * of the device, so a case that does not name a shard reads the same as with one.
 */
#ifndef CM_TESTS_UNIT_SHARD_CASE_H
#define CM_TESTS_UNIT_SHARD_CASE_H

#include "allocator/base/thread.h"
#include "allocator/entry/create.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"
#include "tests/unit/fixture_case.h"

#define SHARDS 3
#define BLOCK  (64 * MIB)

/* A thread that has done nothing yet. */
static inline void be_new(struct fixture *f)
{
	cm_thread.shard = cm_thread.pauses = 0;
	cm_thread.remote_frees = cm_thread.remote_times = 0;
	cm_thread.heap = f->heap = cm_cache_find_heap(f->cache, f->ctx);
}

/* A thread that has that shard. */
static inline void be_of(struct fixture *f, uint32_t number)
{
	be_new(f);
	cm_thread.shard = number + 1;
	cm_thread.heap = f->heap = cm_create_shard_heap(f->heap, number);
	assert_non_null(f->heap);
	assert_int_equal(cm_shards_number_of(f->heap->device), number);
}

static inline struct fixture *open_with(struct cm_policy *policy, uint64_t limit_bytes)
{
	struct fixture *f;

	policy->shards = CM_SHARDS_ALWAYS;
	policy->shards_most = SHARDS;
	f = case_open(&(struct fixture_params){
		.policy = policy, .limit_bytes = limit_bytes, .events = 64});
	be_new(f);
	return f;
}

static inline struct fixture *open_limit(uint64_t limit_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	return open_with(&policy, limit_bytes);
}

static inline int setup_shards(void **state)
{
	*state = open_limit(0);
	return 0;
}

static inline int teardown_shards(void **state)
{
	struct fixture *f = *state;

	be_new(f);
	cm_thread.heap = NULL;
	case_close(f);
	return 0;
}

static inline void close_shards(struct fixture *f)
{
	(void)teardown_shards((void **)&f);
}

static inline uint64_t get_of(struct fixture *f, uint32_t number, uint64_t bytes)
{
	be_of(f, number);
	return case_get(f, bytes);
}

/* Idle memory of the shard, a segment of its own. */
static inline uint64_t leave_idle(struct fixture *f, uint32_t number, uint64_t bytes)
{
	const uint64_t addr = get_of(f, number, bytes);

	case_put(f, addr);
	case_settle(f);
	return addr;
}

/* What the shard itself has. */
static inline int64_t segments_of(struct fixture *f, uint32_t number)
{
	be_of(f, number);
	return cm_stat_current(f->heap->device->row, CM_STAT_SEGMENT);
}

static inline uint64_t calls_for_memory(const struct fixture *f)
{
	return f->driver.called[FAKE_MEM_ALLOC];
}

#define shard_case(test) CM_TEST_WITH(test, setup_shards, teardown_shards)

#endif
