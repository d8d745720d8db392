/* SPDX-License-Identifier: MIT */
/*
 * Memory that is named to other devices waits for events, and all other memory keeps its barriers.
 * The fake driver complains if named memory is allocated while work may touch it.
 */
#include "tests/unit/fixture_case.h"

#define BLOCK (16 * MIB)

static uint64_t launch(struct fixture *f, uint64_t addr, uint64_t ns)
{
	return fixture_launch(f, f->ctx, 1, addr, 512, ns);
}

static void name(struct fixture *f, uint64_t addr, uint64_t bytes)
{
	cm_cache_mark_named(f->cache, addr, bytes);
	fake_name(addr, bytes);
}

fixture_case(it_is_reused_by_event)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, BLOCK), other;

	name(f, addr, BLOCK);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	other = case_get(f, BLOCK);
	assert_int_not_equal(other, addr);
	assert_sound(f);
	fake_advance(20 * MS);
	assert_int_equal(case_get(f, BLOCK), addr);
}

fixture_case(all_other_memory_keeps_its_barriers)
{
	struct fixture *f = *state;
	const uint64_t named = case_get(f, BLOCK), addr = case_get(f, BLOCK);
	int i;

	/* Without room to let more wait. */
	f->driver.limit_bytes = 256 * MIB;
	name(f, named, BLOCK);
	for (i = 0; i < 30; i++) {
		(void)launch(f, addr, MS);
		case_put(f, addr);
		assert_int_equal(case_get(f, BLOCK), addr);
	}
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 30);
	/* At the first, second, fourth, eighth and sixteenth time. */
	assert_int_equal(f->driver.called[FAKE_EVENT_QUERY], 5);
}

/* The end of one segment and the start of the next. */
fixture_case(a_range_names_what_it_touches)
{
	struct fixture *f = *state;
	uint64_t addr[3];
	int i;

	for (i = 0; i < 3; i++)
		addr[i] = case_get(f, BLOCK);
	assert_true(addr[0] < addr[1] && addr[1] < addr[2]);
	name(f, addr[0] + BLOCK - 1, addr[1] + 2 - addr[0] - BLOCK);
	(void)launch(f, addr[0], 10 * MS);
	(void)launch(f, addr[1], 10 * MS);
	(void)launch(f, addr[2], 10 * MS);
	for (i = 0; i < 3; i++)
		case_put(f, addr[i]);
	assert_int_equal(case_get(f, BLOCK), addr[2]);
	(void)case_get(f, BLOCK);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 4);
}

fixture_case(foreign_memory_is_ignored)
{
	struct fixture *f = *state;
	const uint64_t addr = case_get(f, BLOCK);

	name(f, 4096, 8192);
	name(f, addr + BLOCK, UINT64_MAX);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
}

CM_TEST(what_lies_behind_a_barrier_is_idle_before_it_is_named)
{
	struct fixture *f;
	uint64_t addr, work;
	int capturing;

	for (capturing = 0; capturing < 2; capturing++) {
		f = case_open(&(struct fixture_params){0});
		addr = case_get(f, BLOCK);
		work = launch(f, addr, 300 * MS);
		case_put(f, addr);
		assert_int_equal(case_get(f, BLOCK), addr);
		assert_false(fake_is_done(work));
		fake_capture(capturing);
		name(f, addr, BLOCK);
		assert_true(fake_is_done(work));
		fake_capture(false);
		case_close(f);
	}
}

/* A thread reads files into its buffers while others compute. */
fixture_case(what_was_named_is_named_again_without_a_wait)
{
	struct fixture *f = *state;
	const uint64_t named = case_get(f, BLOCK), addr = case_get(f, BLOCK);
	uint64_t work;

	name(f, named, BLOCK);
	work = launch(f, addr, 300 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
	name(f, named + 512, 512);
	assert_false(fake_is_done(work));
	name(f, addr, 512);
	assert_true(fake_is_done(work));
}

/* It was freed before it was named, and waits beside others. */
fixture_case(what_is_pending_stays_so)
{
	struct fixture *f = *state;
	uint64_t addr[2] = {case_get(f, BLOCK), case_get(f, BLOCK)};

	(void)launch(f, addr[0], 10 * MS);
	(void)launch(f, addr[1], 10 * MS);
	case_put(f, addr[0]);
	case_put(f, addr[1]);
	name(f, addr[0], BLOCK);
	assert_int_equal(case_get(f, BLOCK), addr[1]);
	assert_int_not_equal(case_get(f, BLOCK), addr[0]);
	fake_finish_all();
	assert_int_equal(case_get(f, BLOCK), addr[0]);
}

fixture_case(a_trim_waits_for_it)
{
	struct fixture *f = *state;
	const uint64_t named = case_get(f, BLOCK), addr = case_get(f, BLOCK);
	uint64_t bytes;

	/* Longer than anything is waited for. */
	fake_advance(100000 * MS);
	name(f, named, BLOCK);
	(void)launch(f, named, 10 * MS);
	case_put(f, named);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
	assert_int_equal(cm_cache_trim(f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, BLOCK);
	assert_sound(f);
}

fixture_case(a_context_that_goes_takes_it_along)
{
	struct fixture *f = *state;
	const uint64_t named = case_get(f, BLOCK), addr = case_get(f, BLOCK);

	name(f, named, BLOCK);
	(void)launch(f, named, FAKE_FOREVER);
	case_put(f, named);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
	fixture_remove_context(f, f->ctx);
	assert_sound(f);
	f->ctx = fixture_add_context(f, 0, &f->heap);
	assert_non_null(f->heap);
	case_put(f, case_get(f, BLOCK));
}

/* Pages that are joined with named ones count as named. */
CM_TEST(runs_of_pages_are_named)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.expandable_segments = true;
	f = case_open(&(struct fixture_params){.policy = &policy});
	addr = case_get(f, BLOCK);
	name(f, addr, BLOCK);
	(void)case_get(f, BLOCK);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_not_equal(case_get(f, BLOCK), addr);
	fake_finish_all();
	assert_int_equal(case_get(f, BLOCK), addr);
	case_close(f);
}

fixture_case(where_all_is_reached_there_is_no_barrier)
{
	struct fixture *f = *state;
	uint64_t addr, work;
	int i;

	addr = case_get(f, BLOCK);
	work = launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
	cm_cache_mark_reached(f->cache);
	fake_reach(f->ctx);
	assert_true(fake_is_done(work));
	for (i = 0; i < 2; i++) {
		(void)launch(f, addr, 10 * MS);
		case_put(f, addr);
		assert_int_not_equal(case_get(f, BLOCK), addr);
		fake_finish_all();
		fixture_remove_context(f, f->ctx);
		f->ctx = fixture_add_context(f, 0, &f->heap);
		addr = case_get(f, BLOCK);
	}
	assert_int_equal(f->driver.called[FAKE_CTX_WAIT_EVENT], 1);
}
