/* SPDX-License-Identifier: MIT */
/* The fixture as cmocka's cases use it: fixture_setup and fixture_teardown around a case with the
 * defaults, case_open and case_close where a case wants other settings. */
#ifndef CM_TESTS_UNIT_FIXTURE_CASE_H
#define CM_TESTS_UNIT_FIXTURE_CASE_H

#include <stdlib.h>

#include "allocator/base/policy.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/fixture.h"

#define MS UINT64_C(1000000)

#define assert_sound(fixture)                                        \
	do {                                                         \
		const char *complaint_ = fixture_complaint(fixture); \
		if (complaint_)                                      \
			fail_msg("%s", complaint_);                  \
	} while (0)

#define assert_current(fixture, pool, stat, value) \
	assert_int_equal(fixture_stat(fixture, pool, stat).current, value)

static inline struct fixture *case_open(const struct fixture_params *params)
{
	struct fixture *fixture = malloc(sizeof(*fixture));

	assert_non_null(fixture);
	assert_true(fixture_open(fixture, params));
	return fixture;
}

static inline void case_close(struct fixture *fixture)
{
	assert_sound(fixture);
	fixture_close(fixture);
	free(fixture);
}

/* The nth of the settings under which no segment goes for another, nor is spared: it is not wanted,
 * a block may not be cut out of any that is large enough, or the driver can't be asked. */
#define CASE_UNEXCHANGED 4

static inline struct fixture *case_open_unexchanged(size_t n, uint64_t limit_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.exchange = n != 0;
	if (n == 1)
		policy.placement = CM_PLACEMENT_EXACT;
	if (n == 2)
		policy.max_split_size = 100 * MIB;
	return case_open(&(struct fixture_params){
		.policy = &policy, .limit_bytes = limit_bytes, .old_driver = n == 3});
}

/* Cached memory stays until it has to go; `policy` or the defaults otherwise. */
static inline struct fixture *case_open_limit(const struct cm_policy *policy, uint64_t limit_bytes)
{
	struct cm_policy keeping;

	cm_policy_init(&keeping);
	if (policy)
		keeping = *policy;
	keeping.exchange = false;
	return case_open(&(struct fixture_params){
		.policy = &keeping, .limit_bytes = limit_bytes, .events = 64});
}

static inline int fixture_setup(void **state)
{
	*state = case_open(&(struct fixture_params){.events = 64});
	return 0;
}

static inline int fixture_teardown(void **state)
{
	case_close(*state);
	return 0;
}

/* The cache has no memory, in use or not. */
static inline void assert_no_memory(struct fixture *fixture)
{
	assert_current(fixture, CM_POOL_ALL, CM_STAT_ALLOCATION, 0);
	assert_current(fixture, CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 0);
	assert_current(fixture, CM_POOL_ALL, CM_STAT_REQUESTED_BYTES, 0);
	assert_current(fixture, CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 0);
	assert_current(fixture, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
	assert_current(fixture, CM_POOL_ALL, CM_STAT_INACTIVE_SPLIT_BYTES, 0);
}

#define fixture_case(test) CM_TEST_WITH(test, fixture_setup, fixture_teardown)

/* A case with this way of reuse, on a card of `bytes`; 0: the default. */
static inline struct fixture *case_open_reuse(enum cm_reuse reuse, uint64_t bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.reuse = reuse;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = bytes});
}

/* A kernel on the first 512 bytes of the block, in stream 1 of the fixture's context. */
static inline uint64_t case_launch(struct fixture *f, uint64_t addr, uint64_t duration_ns)
{
	return fixture_launch(f, f->ctx, 1, addr, 512, duration_ns);
}

/* All work ends, and what was freed becomes ready. */
static inline void case_settle(struct fixture *fixture)
{
	fake_finish_all();
	cm_cache_poll(fixture->cache);
}

/* A block that must be had, and freed at once or later. */
static inline uint64_t case_get(struct fixture *fixture, uint64_t bytes)
{
	uint64_t addr = fixture_get(fixture, bytes);

	assert_true(addr != 0);
	assert_sound(fixture);
	return addr;
}

/* A request that may fail: its result. */
static inline int case_try(struct fixture *fixture, uint64_t bytes)
{
	uint64_t addr = 0;

	return fixture_alloc(fixture, fixture->heap, bytes, &addr);
}

/* The nth call of the driver from now on fails. */
static inline void case_fail_call(struct fixture *fixture, uint64_t nth, int code)
{
	fixture->driver.fail_call = fixture->driver.calls + nth;
	fixture->driver.fail_code = code;
}

/* What requests that ran out of memory have counted. */
static inline void assert_failures(struct fixture *fixture, int64_t syncs, int64_t retries,
				   int64_t ooms)
{
	assert_int_equal(fixture_scalar(fixture, CM_SCALAR_num_sync_all_streams), syncs);
	assert_int_equal(fixture_scalar(fixture, CM_SCALAR_num_alloc_retries), retries);
	assert_int_equal(fixture_scalar(fixture, CM_SCALAR_num_ooms), ooms);
}

static inline uint64_t case_reserved(struct fixture *fixture)
{
	return (uint64_t)fixture_stat(fixture, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).current;
}

static inline void case_put(struct fixture *fixture, uint64_t addr)
{
	assert_int_equal(fixture_put(fixture, addr), 0);
	assert_sound(fixture);
}

#endif
