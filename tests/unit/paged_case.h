/* SPDX-License-Identifier: MIT */
/* A fixture with expandable_segments, and what its cases ask about pages. */
#ifndef CM_TESTS_UNIT_PAGED_CASE_H
#define CM_TESTS_UNIT_PAGED_CASE_H

#include "allocator/paged/paged.h"
#include "tests/unit/fixture_case.h"

#define PAGE CM_PAGED_PAGE

/* On a card of `card_bytes`; 0: the default. */
static inline struct fixture *open_paged(uint64_t card_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	return case_open(&(struct fixture_params){
		.policy = &policy, .limit_bytes = card_bytes, .events = 64});
}

static inline int setup_paged(void **state)
{
	*state = open_paged(0);
	return 0;
}

/* All that is reserved is pages, and the driver has given no others. */
static inline void assert_pages(struct fixture *f, uint64_t pages)
{
	assert_current(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, (int64_t)(pages * PAGE));
	assert_int_equal(f->driver.used_bytes[0], pages * PAGE);
}

/* What another thread can do of it while this one moves pages. */
static inline void end_context(void *arg)
{
	struct fixture *f = arg;

	cm_cache_lock_contexts(f->cache);
	cm_cache_forget_heap(f->cache, f->ctx);
	cm_cache_unlock_contexts(f->cache);
	fake_context_destroy(f->ctx);
}

#define paged_case(test) CM_TEST_WITH(test, setup_paged, fixture_teardown)

#endif
