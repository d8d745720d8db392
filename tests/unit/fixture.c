/* SPDX-License-Identifier: MIT */
#include "tests/unit/fixture.h"

#include <string.h>

#include "stats/counters.h"
#include "stats/region.h"
#include "tests/unit/ring_check.h"

static uint64_t used_bytes(struct fixture *fixture, uint32_t device)
{
	uint64_t bytes;

	(void)pthread_mutex_lock(&fixture->driver.lock);
	bytes = fixture->driver.used_bytes[device];
	(void)pthread_mutex_unlock(&fixture->driver.lock);
	return bytes;
}

static struct cm_context_info info_of(struct fixture *fixture, uint64_t ctx, uint32_t device)
{
	return (struct cm_context_info){
		.ctx = ctx,
		.ordinal = (int32_t)device,
		.can = CM_CAN_PAGES | (fixture->old_driver ? 0 : CM_CAN_CTX_EVENTS),
		.total_bytes = fixture->driver.limit_bytes,
		.free_bytes = fixture->driver.limit_bytes - used_bytes(fixture, device),
		.name = "fake",
	};
}

static uint32_t device_of(struct fixture *fixture, uint64_t ctx)
{
	uint32_t device;

	(void)pthread_mutex_lock(&fixture->driver.lock);
	device = fixture->driver.context[ctx - 1].device;
	(void)pthread_mutex_unlock(&fixture->driver.lock);
	return device;
}

bool fixture_open(struct fixture *fixture, const struct fixture_params *params)
{
	const struct cm_region_params region_params = {.backing = CM_BACKING_PRIVATE,
						       .events = params->events};
	struct cm_cache_params cache_params = {.ops = fake_driver_ops()};
	struct cm_policy policy;

	memset(fixture, 0, sizeof(*fixture));
	fake_driver_init(&fixture->driver, params->limit_bytes ? params->limit_bytes : 64 * GIB);
	fixture->old_driver = params->old_driver;
	cm_policy_init(&policy);
	cache_params.policy = params->policy ? params->policy : &policy;
	if (cm_region_create(&region_params, &fixture->region))
		return false;
	cache_params.region = fixture->region;
	if (cm_cache_create(&cache_params, &fixture->cache))
		return false;
	fixture->ctx = fixture_add_context(fixture, 0, &fixture->heap);
	return fixture->ctx != 0;
}

void fixture_close(struct fixture *fixture)
{
	cm_cache_destroy(fixture->cache);
	cm_region_abandon(fixture->region);
	fake_driver_fini(&fixture->driver);
}

uint64_t fixture_add_context(struct fixture *fixture, uint32_t device, struct cm_heap **ret_heap)
{
	uint64_t ctx = fake_context_begin(device), other;
	struct cm_context_info info = info_of(fixture, ctx, device);

	if (!ctx)
		return 0;
	if (cm_cache_add_heap(fixture->cache, &info, ret_heap)) {
		fake_context_destroy(ctx);
		return 0;
	}
	fake_context_is_made(ctx);
	/* Work of one context of a device can touch memory of any other. */
	for (other = 1; other <= FAKE_CONTEXTS_MAX; other++)
		if (other != ctx && device_of(fixture, other) == device)
			fake_judge_reach(other);
	return ctx;
}

void fixture_remove_context(struct fixture *fixture, uint64_t ctx)
{
	struct cm_heap *heap;

	cm_cache_lock_contexts(fixture->cache);
	heap = cm_cache_forget_heap(fixture->cache, ctx);
	cm_cache_context_is_ending(fixture->cache);
	cm_cache_unlock_contexts(fixture->cache);
	cm_heap_await_calls(heap);
	fake_context_destroy(ctx);
	cm_cache_lock_contexts(fixture->cache);
	cm_cache_context_has_ended(fixture->cache);
	cm_cache_unlock_contexts(fixture->cache);
	cm_cache_forgotten(fixture->cache);
}

int fixture_alloc(struct fixture *fixture, struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	int err = cm_cache_alloc(fixture->cache, heap, bytes, ret_addr);
	struct cm_place_info place;

	if (err)
		return err;
	cm_cache_lookup(fixture->cache, *ret_addr, &place);
	fake_allocated(place.ctx, *ret_addr, bytes);
	return 0;
}

uint64_t fixture_get(struct fixture *fixture, uint64_t bytes)
{
	uint64_t addr = 0;

	return fixture_alloc(fixture, fixture->heap, bytes, &addr) ? 0 : addr;
}

int fixture_put(struct fixture *fixture, uint64_t addr)
{
	uint64_t forward;

	return cm_cache_free(fixture->cache, addr, &forward);
}

/* Work of another device is about to reach what was allocated behind barriers. */
static void judge(struct fixture *fixture, struct cm_submission submission)
{
	uint64_t ctx, row;

	for (ctx = 1; ctx <= FAKE_CONTEXTS_MAX; ctx++) {
		row = cm_cache_device_row(fixture->cache, (int32_t)device_of(fixture, ctx));
		if (row != UINT32_MAX && submission.named >> row & 1)
			fake_judge_reach(ctx);
	}
}

/* What the hooks announce of work that names the address. */
static struct cm_submission announce(struct fixture *fixture, uint64_t ctx, uint64_t addr)
{
	struct cm_cache *cache = fixture->cache;
	struct cm_submission submission = {0};

	if (cm_cache_has_devices(cache)) {
		submission = cm_cache_begin_reach(cache, ctx, cm_cache_rows_of(cache, addr));
		judge(fixture, submission);
	}
	return submission;
}

uint64_t fixture_launch(struct fixture *fixture, uint64_t ctx, uint64_t stream, uint64_t addr,
			uint64_t bytes, uint64_t duration_ns)
{
	struct cm_cache *cache = fixture->cache;
	struct cm_submission submission;
	uint64_t number;

	if (cm_cache_wants_close(cache))
		cm_cache_before_work(cache);
	if (cm_cache_has_devices(cache))
		cm_cache_note_work(cache, ctx);
	submission = announce(fixture, ctx, addr);
	number = fake_submit(ctx, stream, addr, bytes, duration_ns);
	cm_cache_end_reach(cache, submission);
	return number;
}

uint64_t fixture_copy(struct fixture *fixture, uint64_t ctx, uint64_t stream, uint64_t addr,
		      uint64_t bytes, uint64_t duration_ns)
{
	const struct cm_submission submission = announce(fixture, ctx, addr);
	const uint64_t number = fake_copy(ctx, stream, addr, bytes, duration_ns);

	cm_cache_end_reach(fixture->cache, submission);
	return number;
}

const char *fixture_complaint(struct fixture *fixture)
{
	if (cm_cache_check(fixture->cache, fixture->why, sizeof(fixture->why)))
		return fixture->why;
	if (fixture->driver.complaint[0])
		return fixture->driver.complaint;
	return ring_check_complaint(fixture->region, fixture->record_has_gaps);
}

struct cm_stat4 fixture_stat(struct fixture *fixture, enum cm_pool pool, enum cm_stat stat)
{
	struct cm_device_row row;

	if (cm_cache_read_device(fixture->cache, 0, &row))
		return (struct cm_stat4){0};
	return cm_stat_read(&row, pool, stat);
}

struct cm_stat4 fixture_stat1(struct fixture *fixture, enum cm_stat1 stat)
{
	struct cm_device_row row;

	if (cm_cache_read_device(fixture->cache, 0, &row))
		return (struct cm_stat4){0};
	return row.stat1[stat];
}

int64_t fixture_scalar(struct fixture *fixture, enum cm_scalar scalar)
{
	struct cm_device_row row;

	if (cm_cache_read_device(fixture->cache, 0, &row))
		return 0;
	return row.scalar[scalar];
}
