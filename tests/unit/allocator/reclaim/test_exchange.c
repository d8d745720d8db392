/* SPDX-License-Identifier: MIT */
/* Idle segments that go when a larger one comes, and those that stay. */
#include "allocator/base/gate.h"
#include "allocator/reclaim/exchange.h"

#include "tests/unit/fake_parts.h"
#include "tests/unit/fixture_case.h"

static int64_t most_reserved(struct fixture *f)
{
	return fixture_stat(f, CM_POOL_ALL, CM_STAT_RESERVED_BYTES).peak;
}

/* Takes blocks of these sizes, frees them all, and lets them get ready. */
static void use(struct fixture *f, const uint64_t *bytes, size_t n)
{
	uint64_t addr[8];
	size_t i;

	for (i = 0; i < n; i++)
		addr[i] = case_get(f, bytes[i]);
	for (i = 0; i < n; i++)
		case_put(f, addr[i]);
	case_settle(f);
}

#define USE(f, ...)                                                 \
	do {                                                        \
		static const uint64_t bytes_[] = {__VA_ARGS__};     \
		use(f, bytes_, sizeof(bytes_) / sizeof(bytes_[0])); \
	} while (0)

fixture_case(an_idle_segment_goes_when_a_larger_one_comes)
{
	struct fixture *f = *state;

	USE(f, 30 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 40 * MIB);
	/* It went first: there were never 70. */
	assert_int_equal(most_reserved(f), 40 * MIB);
	assert_int_equal(f->driver.used_bytes[0], 40 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 30 * MIB);
}

fixture_case(that_of_another_context_of_the_device_goes_too)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr;

	(void)fixture_add_context(f, 0, &heap);
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	case_put(f, addr);
	case_settle(f);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 40 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 30 * MIB);
}

fixture_case(that_of_another_device_stays)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr;

	(void)fixture_add_context(f, 1, &heap);
	assert_int_equal(fixture_alloc(f, heap, 30 * MIB, &addr), 0);
	case_put(f, addr);
	case_settle(f);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(f->driver.used_bytes[1], 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 0);
}

/* The event by which the freed block got ready shows the device to be idle. */
fixture_case(the_event_of_a_poll_is_not_followed_by_a_probe)
{
	struct fixture *f = *state;

	case_put(f, case_get(f, 30 * MIB));
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 40 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 1);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
}

/* Behind a barrier work may be under way, which the driver would wait for. The host waits for the
 * event of that barrier, as it would have in its last free. */
fixture_case(behind_a_barrier_the_host_waits_for_its_event)
{
	struct fixture *f = *state;
	const uint64_t addr = case_get(f, 30 * MIB);

	(void)case_launch(f, addr, 1000 * MS); /* longer than any probe is waited for */
	case_put(f, addr);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 40 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], 1);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 1);
}

/* Only a probe can tell, and it is not over in time. */
fixture_case(a_wait_that_the_driver_refuses_proves_nothing)
{
	struct fixture *f = *state;
	const uint64_t addr = case_get(f, 30 * MIB);

	(void)case_launch(f, addr, 1000 * MS);
	case_put(f, addr);
	case_fail_call(f, 5, FAKE_INVALID_VALUE); /* behind a record, a query and a barrier */
	(void)case_get(f, 40 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 1);
	assert_true(f->driver.failed);
	assert_int_equal(case_reserved(f), 70 * MIB);
}

/* Two idle segments, one of them used again behind a barrier. */
static uint64_t use_one_of_two_again(struct fixture *f)
{
	const uint64_t one = case_get(f, 30 * MIB), two = case_get(f, 32 * MIB);

	(void)case_launch(f, one, MS);
	case_put(f, one);
	case_put(f, two);
	return case_get(f, 30 * MIB);
}

/* Its event says nothing of the work of another context: a probe is sent. */
fixture_case(beside_another_context_a_probe_is_sent)
{
	struct fixture *f = *state;
	struct cm_heap *heap;
	uint64_t addr;

	(void)fixture_add_context(f, 0, &heap);
	addr = case_get(f, 30 * MIB);
	USE(f, 32 * MIB);
	(void)case_launch(f, addr, MS);
	case_put(f, addr);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 32 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
}

fixture_case(a_kernel_without_end_behind_the_barrier_is_not_waited_for)
{
	struct fixture *f = *state;
	const uint64_t addr = use_one_of_two_again(f);
	const uint64_t work = case_launch(f, addr, FAKE_FOREVER);

	(void)case_get(f, 40 * MIB);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
	assert_int_equal(case_reserved(f), 102 * MIB);
	fake_finish(work);
}

static void *use_in_a_thread(void *fixture)
{
	(void)use_one_of_two_again(fixture);
	return NULL;
}

/* A kernel may wait for what this thread does next: its own last free did not wait for that. */
fixture_case(behind_another_threads_barrier_a_probe_is_sent)
{
	struct fixture *f = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, use_in_a_thread, f), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 70 * MIB);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
}

/* Two idle segments of another context, one of which goes for a segment of this one. */
static uint64_t exchange_one_of_two(struct fixture *f)
{
	struct cm_heap *heap;
	uint64_t addr[2];
	size_t i;

	(void)fixture_add_context(f, 0, &heap);
	for (i = 0; i < 2; i++)
		assert_int_equal(fixture_alloc(f, heap, 40 * MIB, &addr[i]), 0);
	for (i = 0; i < 2; i++)
		case_put(f, addr[i]);
	case_settle(f);
	addr[0] = case_get(f, 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 40 * MIB);
	return addr[0];
}

fixture_case(an_idle_device_that_got_no_work_is_not_asked_again)
{
	struct fixture *f = *state;
	uint64_t records;

	(void)exchange_one_of_two(f);
	records = f->driver.called[FAKE_EVENT_RECORD];
	(void)case_get(f, 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 80 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_RECORD], records);
}

/* The driver would wait for it. */
fixture_case(one_that_got_work_is_asked)
{
	struct fixture *f = *state;
	const uint64_t work = case_launch(f, exchange_one_of_two(f), FAKE_FOREVER);

	(void)case_get(f, 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 40 * MIB);
	fake_finish(work);
}

/* It was counted before the event that shows the device to be idle, and submitted behind it. */
fixture_case(one_that_was_getting_work_is_asked)
{
	struct fixture *f = *state;
	uint64_t addr, work;

	fake_work_number++;
	addr = exchange_one_of_two(f);
	work = fake_copy(f->ctx, 1, addr, 512, FAKE_FOREVER);
	fake_work_ended++;
	(void)case_get(f, 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 40 * MIB);
	fake_finish(work);
}

/* Copies are not counted, and may still touch what a barrier has made ready. */
fixture_case(behind_a_barrier_it_is_asked)
{
	struct fixture *f = *state;
	uint64_t addr;

	case_put(f, case_get(f, 30 * MIB));
	addr = case_get(f, 40 * MIB);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 0);
	(void)fake_copy(f->ctx, 1, addr, 40 * MIB, 10 * MS);
	case_put(f, addr);
	(void)case_get(f, 50 * MIB);
	assert_int_equal(case_reserved(f), 50 * MIB);
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
	assert_int_equal(f->driver.called[FAKE_EVENT_WAIT_UNGATED], 1);
}

/* It may have got work that no hook saw. */
fixture_case(after_a_while_it_is_asked)
{
	struct fixture *f = *state;
	const uint64_t work = fake_copy(f->ctx, 1, exchange_one_of_two(f), 512, FAKE_FOREVER);

	fake_advance(CM_PATIENCE_NS);
	(void)case_get(f, 30 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 40 * MIB);
	fake_finish(work);
}

fixture_case(nothing_goes_where_the_reserve_was_higher_before)
{
	struct fixture *f = *state;

	USE(f, 20 * MIB, 64 * MIB);
	assert_int_equal(cm_cache_trim(f->cache, 0, NULL), 0);
	USE(f, 20 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 60 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 0);
}

fixture_case(the_smallest_that_is_enough_goes)
{
	struct fixture *f = *state;

	USE(f, 12 * MIB, 30 * MIB, 64 * MIB);
	/* Of the 70 MiB that are too many 64 are made up for by one, and the rest by the
	 * smallest. */
	USE(f, 70 * MIB);
	assert_int_equal(case_reserved(f), 30 * MIB + 70 * MIB);
	/* 106 MiB were reserved: of 72 more 66 are too many, and the one of 70 is enough. */
	(void)case_get(f, 72 * MIB);
	assert_int_equal(case_reserved(f), 30 * MIB + 72 * MIB);
}

fixture_case(a_request_that_fails_raises_nothing)
{
	struct fixture *f = *state;
	uint64_t addr;

	assert_int_equal(fixture_alloc(f, f->heap, 65 * GIB, &addr), CM_DRIVER_OUT_OF_MEMORY);
	USE(f, 30 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 40 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_exchange_bytes), 30 * MIB);
}

fixture_case(what_is_in_use_stays_with_all_of_its_segment)
{
	struct fixture *f = *state;
	uint64_t rest = case_get(f, 30 * MIB), keep;

	case_put(f, rest);
	case_settle(f);
	keep = case_get(f, 2 * MIB);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 70 * MIB);
	case_put(f, keep);
}

fixture_case(a_small_request_asks_for_nothing)
{
	struct fixture *f = *state;

	/* Freed, the small pool's segment is no larger than what comes. */
	USE(f, 512);
	(void)case_get(f, 30 * MIB);
	assert_int_equal(case_reserved(f), 32 * MIB);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
}

fixture_case(nothing_goes_behind_a_kernel_without_end)
{
	struct fixture *f = *state;
	uint64_t keep = case_get(f, 512), work, before;

	USE(f, 30 * MIB);
	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	before = f->driver.now_ns;
	(void)case_get(f, 40 * MIB);
	assert_int_equal(case_reserved(f), 72 * MIB);
	assert_true(f->driver.now_ns - before <= 2 * CM_PATIENCE_NS);
	/* And it is not waited for again. */
	before = f->driver.now_ns;
	(void)case_get(f, 50 * MIB);
	assert_true(f->driver.now_ns - before < CM_PATIENCE_NS / 10);
	fake_finish(work);
}

fixture_case(a_program_that_repeats_itself_soon_does_without)
{
	struct fixture *f = *state;
	uint64_t allocs = 0, frees = 0;
	int i;

	for (i = 0; i < 8; i++) {
		allocs = f->driver.called[FAKE_MEM_ALLOC];
		frees = f->driver.called[FAKE_MEM_FREE];
		USE(f, 30 * MIB, 30 * MIB, 30 * MIB);
		USE(f, 44 * MIB, 44 * MIB);
		USE(f, 64 * MIB, 20 * MIB, 3 * MIB);
		USE(f, 12 * MIB, 12 * MIB, 12 * MIB, 40 * MIB);
	}
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], allocs);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], frees);
	assert_true(fixture_scalar(f, CM_SCALAR_exchange_bytes) > 0);
}

CM_TEST(it_is_done_as_the_policy_wants_it)
{
	struct fixture *f;
	size_t i;

	for (i = 0; i < CASE_UNEXCHANGED; i++) {
		f = case_open_unexchanged(i, 0);
		USE(f, 30 * MIB);
		(void)case_get(f, 40 * MIB);
		assert_int_equal(case_reserved(f), 70 * MIB);
		case_close(f);
	}
}

static struct fixture *open_exact(uint64_t limit_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.placement = CM_PLACEMENT_EXACT;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = limit_bytes});
}

/* 1/8 of what 1 GiB has above the 300 MiB in use is 90. */
CM_TEST(segments_that_are_not_split_go_once_they_are_a_share_of_the_room)
{
	struct fixture *f = open_exact(GIB);

	USE(f, 100 * MIB);
	USE(f, 200 * MIB);
	assert_int_equal(case_reserved(f), 300 * MIB);
	(void)case_get(f, 300 * MIB);
	assert_int_equal(case_reserved(f), 300 * MIB);
	assert_int_equal(most_reserved(f), 300 * MIB);
	case_close(f);
}

CM_TEST(those_below_that_share_stay)
{
	struct fixture *f = open_exact(GIB);
	int i;

	for (i = 0; i < 8; i++) {
		USE(f, 40 * MIB);
		USE(f, 50 * MIB);
		USE(f, 60 * MIB);
	}
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 3);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	case_close(f);
}

/* What the program had in use before may be reserved as well. */
CM_TEST(the_peak_of_what_was_in_use_counts)
{
	struct fixture *f = open_exact(GIB);

	USE(f, 100 * MIB, 200 * MIB, 300 * MIB);
	USE(f, 400 * MIB);
	/* 600 MiB were in use, and 53 are 1/8 of the rest: of 1000 those of 300 and 100 went. */
	assert_int_equal(case_reserved(f), 600 * MIB);
	case_close(f);
}

/* Nothing returns what a live block leaves unused of its segment. On a card that was nearly full a
 * request gets a segment of its own size. 1/8 of what 1 GiB has above the 900 MiB is 15. */
CM_TEST(a_full_card_has_nothing_to_waste_in_a_segment_that_is_not_split)
{
	struct fixture *f = open_exact(GIB);
	uint64_t addr;

	(void)case_get(f, 700 * MIB);
	USE(f, 200 * MIB);
	addr = case_get(f, 180 * MIB);
	assert_int_equal(case_reserved(f), 880 * MIB);
	case_put(f, addr);
	case_settle(f);
	assert_int_equal(case_get(f, 166 * MIB), addr);
	assert_int_equal(case_reserved(f), 880 * MIB);
	case_close(f);
}
