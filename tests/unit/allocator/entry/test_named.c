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

static void it_is_reused_by_event(void **state)
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

static void all_other_memory_keeps_its_barriers(void **state)
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
static void a_range_names_what_it_touches(void **state)
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

static void foreign_memory_is_ignored(void **state)
{
	struct fixture *f = *state;
	const uint64_t addr = case_get(f, BLOCK);

	name(f, 4096, 8192);
	name(f, addr + BLOCK, UINT64_MAX);
	(void)launch(f, addr, 10 * MS);
	case_put(f, addr);
	assert_int_equal(case_get(f, BLOCK), addr);
}

static void what_lies_behind_a_barrier_is_idle_before_it_is_named(void **state)
{
	struct fixture *f;
	uint64_t addr, work;
	int capturing;

	(void)state;
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
static void what_was_named_is_named_again_without_a_wait(void **state)
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
static void what_is_pending_stays_so(void **state)
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

static void a_trim_waits_for_it(void **state)
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

static void a_context_that_goes_takes_it_along(void **state)
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
static void runs_of_pages_are_named(void **state)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	(void)state;
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

static void where_all_is_reached_there_is_no_barrier(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_case(it_is_reused_by_event),
		fixture_case(all_other_memory_keeps_its_barriers),
		fixture_case(a_range_names_what_it_touches),
		fixture_case(foreign_memory_is_ignored),
		cmocka_unit_test(what_lies_behind_a_barrier_is_idle_before_it_is_named),
		fixture_case(what_was_named_is_named_again_without_a_wait),
		fixture_case(what_is_pending_stays_so),
		fixture_case(a_trim_waits_for_it),
		fixture_case(a_context_that_goes_takes_it_along),
		cmocka_unit_test(runs_of_pages_are_named),
		fixture_case(where_all_is_reached_there_is_no_barrier),
	};

	return cmocka_run_group_tests_name("named", tests, NULL, NULL);
}
