/* SPDX-License-Identifier: MIT */
/* When freed memory is asked for although a ready block would serve. */
#include "allocator/blocks/poll_policy.h"

#include "tests/unit/fixture_case.h"

#define BLOCKS 10
#define BLOCK  (100 * MIB)

/* A gigabyte in use, of which a batch is 40 MiB, and what serves small requests. */
static void fill(struct fixture *f, uint64_t *addr)
{
	uint32_t i;

	for (i = 0; i < BLOCKS; i++)
		addr[i] = case_get(f, BLOCK);
	(void)case_get(f, 512);
}

/* As much is freed and taken as it takes until no more is reserved for the shape's sake. */
static void settle_shape(struct fixture *f, uint64_t *addr)
{
	uint32_t i;

	for (i = 0; i < 25 * BLOCKS; i++) {
		case_put(f, addr[i % BLOCKS]);
		addr[i % BLOCKS] = case_get(f, BLOCK);
	}
}

/* A free block of `large`, which is ready, and one of 12 MiB that waits. */
static uint64_t keep_large_and_free_better(struct fixture *f, uint64_t large)
{
	uint64_t kept = case_get(f, large), better = case_get(f, 12 * MIB);

	case_put(f, kept);
	case_settle(f);
	case_put(f, better);
	return better;
}

static void a_batch_that_waits_is_asked_for_whatever_the_request(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], calls;

	fill(f, addr);
	case_put(f, addr[0]);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	/* An event to begin with, its record and the barrier. */
	assert_int_equal(f->driver.calls - calls, 3);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], BLOCKS + 1);
}

static void less_than_a_batch_waits_until_it_is_wanted(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], less, calls;

	less = case_get(f, 36 * MIB);
	fill(f, addr);
	case_put(f, less);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->driver.calls, calls);
	assert_int_equal(f->heap->row->pending_bytes, 36 * MIB);
	assert_int_equal(case_get(f, 36 * MIB), less);
}

static void a_small_cache_gathers_more_than_its_share(void **state)
{
	struct fixture *f = *state;
	uint64_t addr, calls;

	addr = case_get(f, 20 * MIB);
	(void)case_get(f, 512);
	case_put(f, addr);
	calls = f->driver.calls;
	(void)case_get(f, 512);
	assert_int_equal(f->driver.calls, calls);
}

static void a_device_that_lags_is_asked_once_a_batch(void **state)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr[BLOCKS], queries;
	uint32_t i;

	(void)state;
	cm_policy_init(&policy);
	policy.reuse = CM_REUSE_GROW;
	f = case_open(&(struct fixture_params){.policy = &policy});
	fill(f, addr);
	(void)fixture_launch(f, f->ctx, 1, addr[0], 512, 1000 * MS);
	case_put(f, addr[0]);
	(void)case_get(f, 512);
	queries = f->driver.called[FAKE_EVENT_QUERY];
	assert_true(queries > 0);
	for (i = 0; i < 50; i++)
		(void)case_get(f, 512);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], queries);
	case_put(f, addr[1]);
	(void)case_get(f, 512);
	assert_true(f->driver.called[FAKE_EVENT_QUERY] > queries);
	assert_int_equal(f->heap->row->pending_bytes, 2 * BLOCK);
	/* Once some of it is ready nothing is held against the rest. */
	fake_finish_all();
	case_put(f, addr[2]);
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, BLOCK);
	(void)case_get(f, 512);
	assert_int_equal(f->heap->row->pending_bytes, 0);
	case_close(f);
}

/* It can only be waited for. */
static void of_an_old_driver_no_batch_is_asked_for(void **state)
{
	struct fixture *f = case_open(&(struct fixture_params){.old_driver = true});
	uint64_t addr[BLOCKS];

	(void)state;
	fill(f, addr);
	case_put(f, addr[0]);
	(void)case_get(f, 512);
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 0);
	assert_int_equal(f->heap->row->pending_bytes, BLOCK);
	case_close(f);
}

/* Of the same class of sizes, and too small. */
static void nobody_is_asked_for_what_would_not_do(void **state)
{
	struct fixture *f = *state;
	uint64_t calls;

	(void)keep_large_and_free_better(f, 40 * MIB);
	calls = f->driver.calls;
	(void)case_get(f, 13 * MIB);
	assert_int_equal(f->driver.calls, calls);
	assert_int_equal(f->heap->row->pending_bytes, 12 * MIB);
}

static void in_a_settled_shape_large_cuts_alone_are_asked_for(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], large, less, better;

	fill(f, addr);
	large = case_get(f, 60 * MIB);
	less = case_get(f, 40 * MIB);
	better = case_get(f, 12 * MIB);
	settle_shape(f, addr);
	case_put(f, less);
	case_settle(f);
	case_put(f, better);
	assert_int_equal(case_get(f, 12 * MIB), less);
	assert_int_equal(f->heap->row->pending_bytes, 12 * MIB);
	case_settle(f);
	assert_int_equal(case_get(f, 12 * MIB), better);
	case_put(f, large);
	case_settle(f);
	(void)case_get(f, 28 * MIB); /* what was left of the other one */
	case_put(f, better);
	assert_int_equal(case_get(f, 12 * MIB), better);
}

static void with_more_memory_the_shape_is_judged_anew(void **state)
{
	struct fixture *f = *state;
	uint64_t addr[BLOCKS], better;

	fill(f, addr);
	settle_shape(f, addr);
	(void)case_get(f, BLOCK);
	better = keep_large_and_free_better(f, 40 * MIB);
	assert_int_equal(case_get(f, 12 * MIB), better);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_case(a_batch_that_waits_is_asked_for_whatever_the_request),
		fixture_case(less_than_a_batch_waits_until_it_is_wanted),
		fixture_case(a_small_cache_gathers_more_than_its_share),
		cmocka_unit_test(a_device_that_lags_is_asked_once_a_batch),
		cmocka_unit_test(of_an_old_driver_no_batch_is_asked_for),
		fixture_case(nobody_is_asked_for_what_would_not_do),
		fixture_case(in_a_settled_shape_large_cuts_alone_are_asked_for),
		fixture_case(with_more_memory_the_shape_is_judged_anew),
	};

	return cmocka_run_group_tests_name("asking", tests, NULL, NULL);
}
