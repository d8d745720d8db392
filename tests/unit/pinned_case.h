/* SPDX-License-Identifier: MIT */
/*
 * One fixture a program, and what a program does with pinned memory: for the tests of it alone.
 */
#ifndef CM_TESTS_UNIT_PINNED_CASE_H
#define CM_TESTS_UNIT_PINNED_CASE_H

#include "allocator/pinned/pinned.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/fixture.h"

#define MS UINT64_C(1000000)

static struct fixture fixture;

static inline void open_with(const struct fixture_params *params)
{
	assert_true(fixture_open(&fixture, params));
}

static inline void open_plain(void)
{
	open_with(&(struct fixture_params){.events = 64});
}

static inline void close_well(void)
{
	const char *complaint = fixture_complaint(&fixture);

	if (complaint)
		fail_msg("%s", complaint);
	fixture_close(&fixture);
}

/* A block, past the referee; 0 where there is none. */
static inline uint64_t get_of(struct cm_heap *heap, uint64_t ctx, uint32_t kind, uint64_t bytes)
{
	uint64_t addr = 0;

	if (cm_cache_host_alloc(fixture.cache, heap, kind, bytes, &addr))
		return 0;
	fake_allocated(ctx, addr, bytes);
	return addr;
}

static inline uint64_t get_kind(uint32_t kind, uint64_t bytes)
{
	return get_of(fixture.heap, fixture.ctx, kind, bytes);
}

static inline uint64_t get(uint64_t bytes)
{
	return get_kind(0, bytes);
}

static inline int put(uint64_t addr)
{
	uint64_t forward = 0;

	return cm_cache_host_free(fixture.cache, addr, &forward);
}

static inline struct cm_host_row host(void)
{
	struct cm_host_row row;

	cm_cache_read_host(fixture.cache, &row);
	return row;
}

static inline uint64_t called(enum fake_call call)
{
	return fixture.driver.called[call];
}

#endif
