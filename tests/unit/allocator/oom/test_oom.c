/* SPDX-License-Identifier: MIT */
/* What a request leaves behind that fails for lack of memory, and whom it asks before. */
#include "allocator/oom/oom.h"

#include "allocator/state/limit.h"
#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

CM_TEST(the_program_hears_of_it_when_nothing_is_left_to_give_back)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const struct cm_device *device;
	const struct cm_event *event;

	(void)case_get(f, 64 * MIB);
	assert_int_equal(case_try(f, 64 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_sound(f);
	assert_failures(f, 1, 1, 1);
	device = f->heap->device;
	event = &device->ring.row[device->row->event_next - 1];
	assert_int_equal(event->action, CM_ACTION_OOM);
	assert_int_equal(event->addr, 36 * MIB); /* free at the driver */
	assert_int_equal(event->size, 64 * MIB);
	assert_int_equal(device->row->free_bytes, 36 * MIB);
	(void)case_get(f, 36 * MIB);
	case_close(f);
}

/* Or what has gone back since the failure would be told as somebody else's. */
CM_TEST(what_is_left_follows_what_is_taken_and_given_back)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const struct cm_device_row *row = f->heap->device->row;
	uint64_t first, second;

	first = case_get(f, 64 * MIB);
	assert_int_equal(case_try(f, 64 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(row->free_bytes, 36 * MIB);
	second = case_get(f, 36 * MIB);
	assert_int_equal(row->free_bytes, 0);
	case_put(f, first);
	case_put(f, second);
	case_settle(f);
	assert_int_equal(row->free_bytes, 0);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_int_equal(row->free_bytes, 100 * MIB);
	cm_limit_note(f->heap->device, 12 * MIB);
	cm_cache_count_uncached(f->cache, 0, CM_UNCACHED_VMM, GIB, 4 * MIB);
	cm_cache_count_uncached(f->cache, 0, CM_UNCACHED_ASYNC, GIB, 4 * MIB);
	cm_cache_count_uncached(f->cache, 0, CM_UNCACHED_MANAGED, GIB, 4 * MIB);
	assert_int_equal(row->free_bytes, 96 * MIB);
	cm_cache_count_uncached(f->cache, 0, CM_UNCACHED_VMM, GIB, -(int64_t)(4 * MIB));
	assert_int_equal(row->free_bytes, 100 * MIB);
	case_close(f);
}

/* To say what is free is the last call that a request makes which fails. */
CM_TEST(what_the_driver_does_not_say_is_not_entered_as_full)
{
	const struct cm_event *event;
	struct cm_policy policy;
	struct fixture *f;
	uint64_t calls;

	cm_policy_init(&policy);
	policy.peer_processes = false;
	f = case_open_limit(&policy, 100 * MIB);
	assert_int_equal(case_try(f, 101 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	calls = f->driver.calls;
	case_close(f);
	f = case_open_limit(&policy, 100 * MIB);
	f->driver.fail_call = calls;
	f->driver.fail_code = 999;
	assert_int_equal(case_try(f, 101 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.called[FAKE_MEM_INFO], 1);
	assert_int_equal(f->driver.last_oom.info_error, 999);
	assert_int_equal(f->heap->device->row->free_seen_ns, 0);
	event = &f->heap->device->ring.row[f->heap->device->row->event_next - 1];
	assert_int_equal(event->action, CM_ACTION_OOM);
	assert_true(event->addr == CM_FREE_UNKNOWN);
	case_close(f);
}

CM_TEST(what_failed_is_told_with_all_that_holds_the_device)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const struct cm_oom *oom = &f->driver.last_oom;
	uint64_t small, large;

	small = case_get(f, 15 * MIB);
	(void)case_get(f, 3 * MIB); /* of 6 */
	(void)case_get(f, 18 * MIB);
	large = case_get(f, 30 * MIB);
	case_put(f, large);
	case_put(f, small);
	case_settle(f);
	assert_int_equal(case_try(f, 77 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.ooms_shown, 1);
	assert_int_equal(f->driver.ooms_told, 1);
	assert_int_equal(oom->nth, 1);
	assert_int_equal(oom->bytes, 77 * MIB);
	assert_int_equal(oom->given_back, 46 * MIB);
	assert_int_equal(oom->blocks, 2);
	assert_int_equal(oom->largest, 3 * MIB);
	assert_int_equal(oom->figures.live, 21 * MIB);
	assert_int_equal(oom->figures.fragmented, 3 * MIB);
	assert_int_equal(oom->figures.free, 76 * MIB);
	assert_true(oom->has_holders);
	assert_int_equal(oom->holders.top[0].key, 18 * MIB);
	assert_int_equal(oom->holders.top[1].key, 3 * MIB);
	/* The next time no more walks than one. */
	assert_int_equal(case_try(f, 78 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(oom->nth, 2);
	assert_false(oom->has_holders);
	case_close(f);
}

CM_TEST(a_peer_is_asked_for_what_is_missing)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const struct cm_oom *oom = &f->driver.last_oom;

	(void)case_get(f, 60 * MIB);
	f->driver.peer_bytes = 50 * MIB;
	f->driver.peer_gives = 20 * MIB;
	(void)case_get(f, 60 * MIB);
	assert_int_equal(f->driver.peer_wanted, 22 * MIB);
	assert_failures(f, 1, 1, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_peer_asks), 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_peer_bytes_got), 20 * MIB);
	/* What it gives is not always enough, and the report knows what it has left. */
	f->driver.peer_gives = 10 * MIB;
	assert_int_equal(case_try(f, 30 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(oom->peers.given_bytes, 10 * MIB);
	assert_int_equal(oom->figures.peers, 20 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_peer_asks), 2);
	case_close(f);
}

CM_TEST(nobody_is_asked_where_nobody_can_help)
{
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	policy.memory_limit = 50 * MIB;
	f = case_open_limit(&policy, 100 * MIB);
	f->driver.peer_bytes = f->driver.peer_gives = 50 * MIB;
	f->driver.peer_wanted = 77;
	/* More than the limit, and more than the device has. */
	assert_int_equal(case_try(f, 60 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.peer_wanted, 0);
	assert_int_equal(f->driver.last_oom.figures.peers, 50 * MIB);
	case_close(f);
	policy.memory_limit = UINT64_MAX;
	f = case_open_limit(&policy, 100 * MIB);
	f->driver.peer_bytes = f->driver.peer_gives = 50 * MIB;
	assert_int_equal(case_try(f, 120 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.peer_wanted, 0);
	case_close(f);
	policy.peer_processes = false;
	f = case_open_limit(&policy, 100 * MIB);
	f->driver.peer_bytes = f->driver.peer_gives = 50 * MIB;
	(void)case_get(f, 60 * MIB);
	f->driver.peer_wanted = 77;
	assert_int_equal(case_try(f, 60 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.peer_wanted, 77);
	case_close(f);
}

CM_TEST(good_news_is_told_once_and_of_the_same_size)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	uint64_t keep;

	keep = case_get(f, 64 * MIB);
	assert_int_equal(case_try(f, 64 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	(void)case_get(f, 30 * MIB);
	assert_int_equal(f->driver.ooms_told, 1);
	case_put(f, keep);
	keep = case_get(f, 64 * MIB);
	assert_int_equal(f->driver.ooms_told, 2);
	assert_true(f->driver.last_oom.served);
	assert_int_equal(f->driver.ooms_shown, 1); /* it is no failure */
	case_put(f, keep);
	(void)case_get(f, 64 * MIB);
	assert_int_equal(f->driver.ooms_told, 2);
	case_close(f);
}

CM_TEST(nothing_is_told_where_the_policy_says_so)
{
	struct cm_policy policy;
	struct fixture *f;

	cm_policy_init(&policy);
	policy.oom_report = CM_OOM_REPORT_OFF;
	f = case_open_limit(&policy, 100 * MIB);
	assert_int_equal(case_try(f, 200 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 1);
	assert_int_equal(f->driver.ooms_told, 0);
	assert_int_equal(f->driver.ooms_shown, 1); /* who watches is no reader of reports */
	case_close(f);
}

/* Or its stack would go to an event from before. */
CM_TEST(a_failure_that_is_not_recorded_has_no_event)
{
	struct fixture *f = case_open_limit(NULL, 100 * MIB);
	const struct cm_oom *oom = &f->driver.last_oom;
	uint64_t recorded;

	assert_int_equal(case_try(f, 101 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(oom->event, f->heap->device->row->event_next);
	assert_int_equal(cm_cache_record_events(f->cache, CM_ALL_DEVICES, false, &recorded), 0);
	assert_int_equal(case_try(f, 101 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(oom->event, 0);
	case_close(f);
}
