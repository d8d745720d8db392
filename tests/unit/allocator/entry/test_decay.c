/* SPDX-License-Identifier: MIT */
/* What is idle for long goes back, gradually, and never while the device works. */
#include "allocator/entry/decay.h"

#include <errno.h>

#include "allocator/state/pages.h"
#include "tests/unit/fixture_case.h"

#define DECAY_NS (60000 * MS)
#define PIECES   20
#define PIECE    (30 * MIB)

CM_TEST(the_curve_falls_from_all_to_nothing)
{
	uint64_t age, kept, before = GIB;

	assert_int_equal(cm_decay_keep(GIB, 0, DECAY_NS), GIB);
	assert_int_equal(cm_decay_keep(GIB, DECAY_NS / 2, DECAY_NS), GIB / 2);
	assert_int_equal(cm_decay_keep(GIB, DECAY_NS, DECAY_NS), 0);
	assert_int_equal(cm_decay_keep(GIB, UINT64_MAX, DECAY_NS), 0);
	assert_int_equal(cm_decay_keep(UINT64_MAX, 0, 1), UINT64_MAX);
	for (age = 0; age <= DECAY_NS; age += DECAY_NS / 1000) {
		kept = cm_decay_keep(GIB, age, DECAY_NS);
		assert_true(kept <= before);
		/* Nowhere steeper than twice the straight line. */
		assert_true(before - kept <= 2 * GIB / 1000);
		before = kept;
	}
	/* Slow at both ends. */
	assert_true(cm_decay_keep(GIB, DECAY_NS / 10, DECAY_NS) > GIB / 100 * 98);
	assert_true(cm_decay_keep(GIB, DECAY_NS / 10 * 9, DECAY_NS) < GIB / 100 * 2);
}

static struct fixture *open_decaying(uint64_t decay_ns)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.decay_ns = decay_ns;
	policy.exchange = false;
	return case_open(&(struct fixture_params){.policy = &policy});
}

/* On a small card, so that few pages share a driver allocation. */
static struct fixture *open_paged(uint64_t decay_ns)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.decay_ns = decay_ns;
	policy.expandable_segments = true;
	return case_open(&(struct fixture_params){.policy = &policy, .limit_bytes = GIB});
}

static void fill_and_free(struct fixture *f)
{
	uint64_t addr[PIECES];
	unsigned i;

	for (i = 0; i < PIECES; i++)
		addr[i] = case_get(f, PIECE);
	for (i = 0; i < PIECES; i++)
		case_put(f, addr[i]);
	case_settle(f);
}

/* Lets the time pass as the thread that decays does; where it stands still nothing is due. */
static void pass(struct fixture *f, uint64_t ns)
{
	const uint64_t end = f->driver.now_ns + ns;
	uint64_t wait;

	while (f->driver.now_ns < end) {
		wait = cm_cache_decay(f->cache);
		assert_sound(f);
		assert_true(wait > 0 && wait <= DECAY_NS / 10);
		fake_advance(f->driver.now_ns + wait < end ? wait : end - f->driver.now_ns);
	}
}

/* Idle memory goes by the curve, in pieces of that size and a step late at most, until none is
 * left. */
static void assert_declines(struct fixture *f, uint64_t piece)
{
	uint64_t left;
	unsigned i;

	fill_and_free(f);
	assert_int_equal(case_reserved(f), PIECES * PIECE);
	for (i = 1; i < 10; i++) {
		pass(f, DECAY_NS / 10);
		left = case_reserved(f);
		assert_int_equal(left, f->driver.used_bytes[0]);
		assert_true(left + piece / 2 >=
			    cm_decay_keep(PIECES * PIECE, i * DECAY_NS / 10, DECAY_NS));
		assert_true(left <= cm_decay_keep(PIECES * PIECE, i * DECAY_NS / 10 - DECAY_NS / 25,
						  DECAY_NS) +
					    piece);
	}
	pass(f, DECAY_NS / 10 + DECAY_NS / 25);
	assert_int_equal(case_reserved(f), 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_decay_bytes), PIECES * PIECE);
}

CM_TEST(idle_memory_goes_back_along_the_curve)
{
	struct fixture *f = open_decaying(DECAY_NS);

	assert_declines(f, PIECE);
	case_close(f);
}

CM_TEST(work_of_another_device_keeps_nothing)
{
	struct fixture *f = open_decaying(DECAY_NS);
	struct cm_heap *heap;
	uint64_t ctx, work;

	ctx = fixture_add_context(f, 1, &heap);
	fill_and_free(f);
	work = fixture_launch(f, ctx, 1, 512, 0, FAKE_FOREVER);
	pass(f, DECAY_NS + DECAY_NS / 25);
	assert_int_equal(case_reserved(f), 0);
	fake_finish(work);
	case_close(f);
}

CM_TEST(memory_in_use_and_what_shares_its_segment_stays)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint64_t small, keep;

	keep = case_get(f, 3 * MIB);
	small = case_get(f, 3 * MIB);
	case_put(f, small);
	fill_and_free(f);
	pass(f, 2 * DECAY_NS);
	assert_int_equal(case_reserved(f), 20 * MIB);
	case_put(f, keep);
	case_settle(f);
	pass(f, 2 * DECAY_NS);
	assert_int_equal(case_reserved(f), 0);
	case_close(f);
}

CM_TEST(a_cache_that_is_used_again_and_again_stays)
{
	struct fixture *f = open_decaying(DECAY_NS);
	unsigned i;

	for (i = 0; i < 20; i++) {
		fill_and_free(f);
		pass(f, DECAY_NS / 20);
	}
	assert_int_equal(case_reserved(f), PIECES * PIECE);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], PIECES);
	case_close(f);
}

/* As by another thread, after the clock was read and before they were looked at. */
CM_TEST(pieces_that_become_idle_meanwhile_are_the_youngest)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint32_t s;

	fill_and_free(f);
	pass(f, DECAY_NS / 20);
	for (s = 1; s < f->cache->segments; s++)
		f->cache->block[f->cache->segment[s].first].tick = cm_cache_tick(f->cache) +
								   DECAY_NS;
	(void)cm_cache_decay(f->cache);
	assert_int_equal(case_reserved(f), PIECES * PIECE);
	case_close(f);
}

/* Freed and forgotten: nobody asks whether the device is done with it. */
CM_TEST(what_waits_for_an_idle_device_decays_too)
{
	struct fixture *f = open_decaying(DECAY_NS);

	case_put(f, case_get(f, PIECE));
	pass(f, 2 * DECAY_NS);
	assert_int_equal(case_reserved(f), 0);
	case_close(f);
}

CM_TEST(nothing_goes_back_while_the_device_works)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint64_t keep = case_get(f, 512), work;

	fill_and_free(f);
	pass(f, DECAY_NS / 100);
	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	pass(f, 2 * DECAY_NS);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	fake_finish(work);
	pass(f, DECAY_NS);
	assert_int_equal(case_reserved(f), 2 * MIB);
	case_close(f);
}

CM_TEST(nothing_goes_back_in_a_capture)
{
	struct fixture *f = open_decaying(DECAY_NS);

	fill_and_free(f);
	pass(f, DECAY_NS / 100);
	fake_capture(true);
	pass(f, 2 * DECAY_NS);
	assert_int_equal(case_reserved(f), PIECES * PIECE);
	fake_capture(false);
	pass(f, DECAY_NS);
	assert_int_equal(case_reserved(f), 0);
	case_close(f);
}

CM_TEST(decay_can_be_off)
{
	struct fixture *f = open_decaying(0);

	fill_and_free(f);
	assert_true(cm_cache_decay(f->cache) == UINT64_MAX);
	assert_int_equal(case_reserved(f), PIECES * PIECE);
	case_close(f);
}

/* There the host can only wait, and nobody shall wait for this. */
CM_TEST(an_old_driver_is_left_alone)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t given, keep, work;

	cm_policy_init(&policy);
	policy.decay_ns = DECAY_NS;
	f = case_open(&(struct fixture_params){.policy = &policy, .old_driver = true});
	case_put(f, case_get(f, PIECE));
	pass(f, 2 * DECAY_NS);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 50 * MS, &given), 0);
	assert_int_equal(given, 0);
	assert_int_equal(f->driver.called[FAKE_CTX_SYNCHRONIZE], 0);
	/* For a larger one the program waits itself; then the first is idle, and the device
	 * busy. */
	keep = case_get(f, 2 * PIECE);
	work = fixture_launch(f, f->ctx, 1, keep, PIECE, FAKE_FOREVER);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 50 * MS, &given), 0);
	assert_int_equal(given, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	fake_finish(work);
	case_close(f);
}

static uint64_t get_pinned(struct fixture *f, uint64_t bytes)
{
	uint64_t addr;

	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, bytes, &addr), 0);
	fake_allocated(f->ctx, addr, bytes);
	return addr;
}

static void put_pinned(struct fixture *f, uint64_t addr)
{
	uint64_t forward;

	assert_int_equal(cm_cache_host_free(f->cache, addr, &forward), 0);
}

static uint64_t pinned_reserved(struct fixture *f)
{
	struct cm_host_row row;

	cm_cache_read_host(f->cache, &row);
	assert_int_equal(row.reserved_bytes.current, f->driver.used_bytes[FAKE_HOST]);
	return (uint64_t)row.reserved_bytes.current;
}

#define PINNED (64 * MIB)

/* Also if it was freed and forgotten, in a program that has no device memory. */
CM_TEST(idle_pinned_memory_goes_back_at_the_end)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint64_t addr[3], live;
	unsigned i;

	live = get_pinned(f, PINNED);
	for (i = 0; i < 3; i++)
		addr[i] = get_pinned(f, PINNED);
	for (i = 0; i < 3; i++)
		put_pinned(f, addr[i]);
	pass(f, DECAY_NS - DECAY_NS / 100);
	assert_int_equal(pinned_reserved(f), 4 * PINNED);
	pass(f, DECAY_NS / 5);
	assert_int_equal(pinned_reserved(f), PINNED);
	put_pinned(f, live);
	case_close(f);
}

/* A buffer that is used from time to time stays; the others of its size go. */
CM_TEST(pinned_memory_that_is_used_again_stays)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint64_t first = get_pinned(f, PINNED), second = get_pinned(f, PINNED);
	unsigned i;

	put_pinned(f, first);
	put_pinned(f, second);
	for (i = 0; i < 10; i++) {
		pass(f, DECAY_NS / 4);
		put_pinned(f, get_pinned(f, PINNED));
	}
	assert_int_equal(pinned_reserved(f), PINNED);
	assert_int_equal(f->driver.called[FAKE_HOST_ALLOC], 2);
	case_close(f);
}

CM_TEST(no_pinned_memory_goes_back_while_the_device_works)
{
	struct fixture *f = open_decaying(DECAY_NS);
	uint64_t keep = case_get(f, 512), work;

	put_pinned(f, get_pinned(f, PINNED));
	pass(f, DECAY_NS / 100);
	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	pass(f, 2 * DECAY_NS);
	assert_int_equal(f->driver.called[FAKE_HOST_FREE], 0);
	fake_finish(work);
	pass(f, DECAY_NS / 5);
	assert_int_equal(pinned_reserved(f), 0);
	case_put(f, keep);
	case_close(f);
}

/* 40 MiB that were freed, and 60 MiB that were freed later; the block between them that stays. */
static uint64_t leave_two_ages(struct fixture *f, uint64_t keep_bytes)
{
	uint64_t old = case_get(f, 40 * MIB), keep = case_get(f, keep_bytes);

	case_put(f, old);
	case_settle(f);
	fake_advance(MS);
	case_put(f, case_get(f, 60 * MIB));
	case_settle(f);
	return keep;
}

/* What another process asks for: the idlest first, and no more than it wants. */
CM_TEST(a_peer_gets_what_is_idle_and_no_more)
{
	struct fixture *f = open_decaying(0);
	uint64_t keep = leave_two_ages(f, 50 * MIB), given;

	assert_int_equal(cm_cache_give_back(f->cache, 0, 30 * MIB, 50 * MS, &given), 0);
	assert_int_equal(given, 40 * MIB);
	assert_int_equal(case_reserved(f), 110 * MIB);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 50 * MS, &given), 0);
	assert_int_equal(given, 60 * MIB);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 50 * MS, &given), 0);
	assert_int_equal(given, 0);
	assert_int_equal(cm_cache_give_back(f->cache, 1, GIB, 50 * MS, &given), -ENODEV);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_peer_gives), 2);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_peer_bytes_given), 100 * MIB);
	case_put(f, keep);
	case_close(f);
}

CM_TEST(a_peer_is_not_waited_for)
{
	struct fixture *f = open_decaying(0);
	uint64_t keep = case_get(f, 512), given, work, before;

	fill_and_free(f);
	work = fixture_launch(f, f->ctx, 1, keep, 512, FAKE_FOREVER);
	before = f->driver.now_ns;
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 40 * MS, &given), 0);
	assert_int_equal(given, 0);
	assert_true(f->driver.now_ns - before <= 40 * MS);
	fake_finish(work);
	fake_capture(true);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 40 * MS, &given), -EBUSY);
	fake_capture(false);
	/* A request that fails here at the same time waits for the one who asks. */
	cm_lock_acquire(&f->heap->device->reclaim_lock);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 40 * MS, &given), -EBUSY);
	cm_lock_release(&f->heap->device->reclaim_lock);
	assert_int_equal(case_reserved(f), PIECES * PIECE + 2 * MIB);
	case_close(f);
}

CM_TEST(idle_pages_go_back_along_the_curve)
{
	struct fixture *f = open_paged(DECAY_NS);

	assert_declines(f, CM_PAGED_PAGE);
	case_close(f);
}

/* All of it is one free block each time: what was not used of it does not look as if it had
 * been. */
CM_TEST(pages_in_use_now_and_then_stay_and_those_beside_them_go)
{
	struct fixture *f = open_paged(DECAY_NS);
	uint64_t created = 0;
	unsigned i;

	case_put(f, case_get(f, PIECES * PIECE));
	case_settle(f);
	for (i = 0; i < 30; i++) {
		case_put(f, case_get(f, PIECE));
		case_settle(f);
		created = i ? created : f->driver.called[FAKE_PAGE_CREATE];
		pass(f, DECAY_NS / 20);
	}
	assert_int_equal(case_reserved(f), PIECE);
	assert_int_equal(f->driver.called[FAKE_PAGE_CREATE], created);
	case_close(f);
}

CM_TEST(a_page_with_a_block_on_it_stays)
{
	struct fixture *f = open_paged(DECAY_NS);
	uint64_t before = case_get(f, 3 * MIB), keep = case_get(f, 3 * MIB), hole;

	hole = case_get(f, 8 * MIB);
	(void)case_get(f, 4 * MIB);
	case_put(f, before);
	case_put(f, hole);
	case_settle(f);
	pass(f, 2 * DECAY_NS);
	/* `keep` has a part of two pages, 3 to 6 MiB; the hole behind it, 6 to 14, had four. */
	assert_int_equal(case_reserved(f), 4 * MIB + 4 * MIB);
	case_put(f, keep);
	case_close(f);
}

CM_TEST(pages_go_back_a_few_at_a_time)
{
	struct fixture *f = open_paged(DECAY_NS);
	uint64_t start, before;

	fill_and_free(f);
	pass(f, DECAY_NS / 100);
	fake_advance(2 * DECAY_NS);
	/* A driver that takes its time: a step ends, and the next one goes on. */
	f->driver.call_ns = 20000;
	while (case_reserved(f)) {
		start = f->driver.now_ns;
		before = case_reserved(f);
		(void)cm_cache_decay(f->cache);
		assert_true(case_reserved(f) < before);
		assert_true(f->driver.now_ns - start < MS);
	}
	case_close(f);
}

CM_TEST(a_peer_gets_the_pages_it_wants_and_no_more)
{
	struct fixture *f = open_paged(0);
	uint64_t keep = leave_two_ages(f, 2 * MIB), given;

	assert_int_equal(case_reserved(f), 102 * MIB);
	assert_int_equal(cm_cache_give_back(f->cache, 0, 31 * MIB, 50 * MS, &given), 0);
	/* Handles of two pages. */
	assert_int_equal(given, 34 * MIB);
	assert_int_equal(case_reserved(f), 68 * MIB);
	assert_int_equal(cm_cache_give_back(f->cache, 0, GIB, 50 * MS, &given), 0);
	assert_int_equal(given, 66 * MIB);
	assert_int_equal(case_reserved(f), 2 * MIB);
	case_put(f, keep);
	case_close(f);
}
