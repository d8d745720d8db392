/* SPDX-License-Identifier: MIT */
#include "tests/unit/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/base/thread.h"
#include "tests/unit/fixture.h"

#define BLOCKS_MAX 512
#define STEPS_MAX  4096
#define SHARDS     3
#define MS         UINT64_C(1000000)

struct held {
	uint64_t addr;
	uint64_t bytes;
	uint64_t ctx;
	bool host; /* pinned */
};

struct ops {
	const uint8_t *data;
	size_t left;

	struct fixture fixture;
	struct cm_heap *heap[FAKE_CONTEXTS_MAX]; /* of the context with the handle index + 1 */
	struct held held[BLOCKS_MAX];
	size_t count;
	struct held gone; /* the last block given back */
	bool failing;     /* a failure is planned, or a context is broken */
	uint8_t without;  /* operations that are left out, and work that lasts forever */
	bool shards;      /* each request comes from one of three threads that contend */
	char *why;
};

static uint8_t next(struct ops *ops)
{
	if (!ops->left)
		return 0;
	ops->left--;
	return *ops->data++;
}

static uint64_t next_wide(struct ops *ops)
{
	uint64_t low = next(ops);

	return low | (uint64_t)next(ops) << 8;
}

static int say(struct ops *ops, const char *what, uint64_t a, int64_t b)
{
	(void)snprintf(ops->why, OPS_WHY_BYTES, "%s (%#llx, %lld)", what, (unsigned long long)a,
		       (long long)b);
	return -1;
}

/* A context that stands, from a byte; 0: none does. */
static uint64_t pick_context(struct ops *ops)
{
	uint32_t at = next(ops) % FAKE_CONTEXTS_MAX, i;

	for (i = 0; i < FAKE_CONTEXTS_MAX; i++)
		if (ops->heap[(at + i) % FAKE_CONTEXTS_MAX])
			return (at + i) % FAKE_CONTEXTS_MAX + 1;
	return 0;
}

static struct held *pick_block(struct ops *ops)
{
	return ops->count ? &ops->held[next_wide(ops) % ops->count] : NULL;
}

static uint64_t pick_size(struct ops *ops)
{
	uint8_t kind = next(ops);
	uint64_t n = next_wide(ops);

	switch (kind % 8) {
	case 0:
		return n + 1;
	case 1:
		return (n % 4096 + 1) * 512;
	case 2:
		return (n % 64 + 1) * (MIB / 4);
	case 3:
		return UINT64_C(1) << n % 36;
	case 4:
		return (UINT64_C(1) << n % 30) + n;
	case 5:
		return 20 * MIB + n * 512;
	case 6:
		return (n % 16 + 1) * 256 * KIB;
	default:
		return UINT64_C(1) << n % 64;
	}
}

static int check_new(struct ops *ops, uint64_t addr, uint64_t bytes)
{
	size_t i;

	if (!addr || addr % 512)
		return say(ops, "an address out of line", addr, 0);
	for (i = 0; i < ops->count; i++)
		if (addr < ops->held[i].addr + ops->held[i].bytes &&
		    ops->held[i].addr < addr + bytes)
			return say(ops, "a block that is in use", addr, (int64_t)bytes);
	return 0;
}

/* The heap for a request in the context, of a thread that has a shard of its own. */
static struct cm_heap *pick_heap(struct ops *ops, uint64_t ctx, uint8_t thread)
{
	if (!ops->shards)
		return ops->heap[ctx - 1];
	cm_thread.shard = thread % SHARDS + 1;
	cm_thread.pauses = UINT32_MAX;
	cm_thread.heap = cm_cache_heap_of_thread(ops->fixture.cache, ctx);
	return cm_thread.heap;
}

/* A request that the driver has refused: one of what was freed before serves it, or none does. */
static int alloc_freed(struct ops *ops, struct cm_heap *heap, uint64_t ctx, uint64_t bytes)
{
	uint64_t addr = 0;
	int err = cm_cache_alloc_freed(ops->fixture.cache, heap, bytes, &addr);

	if (err)
		return err == -ENOENT ? 0 : say(ops, "an error of freed memory", bytes, err);
	fake_allocated(ctx, addr, bytes);
	if (check_new(ops, addr, bytes))
		return -1;
	ops->held[ops->count++] = (struct held){addr, bytes, ctx, false};
	return 0;
}

static int do_alloc(struct ops *ops)
{
	const uint8_t thread = ops->left ? *ops->data / FAKE_CONTEXTS_MAX : 0;
	uint64_t ctx = pick_context(ops), bytes = pick_size(ops), addr = 0;
	struct cm_heap *heap;
	int err;

	/* While a capture is active the hooks forward. */
	if (ops->fixture.driver.capturing && bytes & 1)
		fake_capture(false);
	if (!ctx || ops->count == BLOCKS_MAX)
		return 0;
	heap = pick_heap(ops, ctx, thread);
	if (ops->fixture.driver.capturing)
		return alloc_freed(ops, heap, ctx, bytes);
	err = fixture_alloc(&ops->fixture, heap, bytes, &addr);
	if (err > 0 && err != CM_DRIVER_OUT_OF_MEMORY && !ops->failing)
		return say(ops, "an error that the driver did not give", bytes, err);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		return alloc_freed(ops, heap, ctx, bytes);
	if (err)
		return 0;
	if (check_new(ops, addr, bytes))
		return -1;
	ops->held[ops->count++] = (struct held){addr, bytes, ctx, false};
	return 0;
}

static int do_host_alloc(struct ops *ops)
{
	uint64_t ctx = pick_context(ops), bytes = pick_size(ops), addr = 0;
	uint32_t kind = next(ops) % CM_HOST_KINDS;
	int err;

	if (!ctx || ops->fixture.driver.capturing || ops->count == BLOCKS_MAX)
		return 0;
	err = cm_cache_host_alloc(ops->fixture.cache, ops->heap[ctx - 1], kind, bytes, &addr);
	if (err > 0 && err != CM_DRIVER_OUT_OF_MEMORY && !ops->failing)
		return say(ops, "an error that the driver did not give", bytes, err);
	if (err)
		return 0;
	fake_allocated(ctx, addr, bytes);
	if (fake_memory_of(addr).kind != kind)
		return say(ops, "pinned memory of another kind", addr, (int64_t)kind);
	if (check_new(ops, addr, bytes))
		return -1;
	ops->held[ops->count++] = (struct held){addr, bytes, ctx, true};
	return 0;
}

static int do_free(struct ops *ops)
{
	struct held *held = pick_block(ops);
	uint64_t forward;
	int err;

	if (!held)
		return 0;
	err = held->host ? cm_cache_host_free(ops->fixture.cache, held->addr, &forward)
			 : fixture_put(&ops->fixture, held->addr);
	if (err < 0 || (err && !ops->failing))
		return say(ops, "a block that could not be freed", held->addr, err);
	ops->gone = *held;
	*held = ops->held[--ops->count];
	return 0;
}

/* Addresses that are no block's start: the answer is a refusal, and nothing moves. */
static int do_bad_free(struct ops *ops)
{
	const struct held *held = pick_block(ops);
	uint8_t kind = next(ops);
	uint64_t addr = ops->gone.addr, forward = 1;
	size_t i;
	int err;

	if (kind % 3 == 1 && held)
		addr = held->addr + 1 + next_wide(ops) % (held->bytes + 4096);
	else if (kind % 3 == 2)
		addr = next_wide(ops) << (kind >> 2) % 64;
	for (i = 0; i < ops->count; i++)
		if (ops->held[i].addr == addr)
			return 0;
	err = kind & 0x40 ? cm_cache_host_free(ops->fixture.cache, addr, &forward)
			  : cm_cache_free(ops->fixture.cache, addr, &forward);
	if (err != -ENOENT && err != -EFAULT)
		return say(ops, "a bad free was not refused", addr, err);
	if (err == -EFAULT)
		for (i = 0; i < ops->count; i++)
			if (forward == ops->held[i].addr)
				return say(ops, "a block in use would be forwarded", forward, err);
	return 0;
}

static int do_work(struct ops *ops)
{
	const struct held *held = pick_block(ops);
	uint8_t how = next(ops);
	uint64_t duration = next(ops) * (MS / 4), ctx;

	if (!held)
		return 0;
	ctx = how & 1 ? held->ctx : pick_context(ops);
	if (how % 16 == 15 && !ops->fixture.old_driver && !(ops->without & 16))
		duration = FAKE_FOREVER;
	if (how & 2)
		(void)fixture_copy(&ops->fixture, ctx, how >> 6, held->addr, held->bytes, duration);
	else
		(void)fixture_launch(&ops->fixture, ctx, how >> 6, held->addr, held->bytes,
				     duration);
	return 0;
}

static int do_time(struct ops *ops)
{
	uint8_t how = next(ops);

	if (how == 255)
		fake_finish_all();
	else
		fake_advance(how * MS);
	return 0;
}

static int do_give_back(struct ops *ops)
{
	uint8_t how = next(ops);
	uint64_t ctx = pick_context(ops), bytes = 0;

	switch (how % 6) {
	case 0:
		(void)cm_cache_trim(ops->fixture.cache, UINT32_MAX, &bytes);
		break;
	case 1:
		(void)cm_cache_trim(ops->fixture.cache, how >> 2, &bytes);
		break;
	case 2:
		if (how & 64)
			(void)cm_cache_make_host_room(ops->fixture.cache, ctx);
		else
			(void)cm_cache_make_room(ops->fixture.cache, ctx);
		break;
	case 3:
		(void)cm_cache_give_back(ops->fixture.cache, how >> 6, (how >> 2) * MIB, 40 * MS,
					 &bytes);
		break;
	case 4:
		(void)cm_cache_decay(ops->fixture.cache);
		break;
	default:
		(void)cm_cache_returnable(ops->fixture.cache, ctx);
		cm_cache_poll(ops->fixture.cache);
	}
	return 0;
}

static int do_context(struct ops *ops)
{
	uint8_t how = next(ops);
	uint64_t ctx;
	struct cm_heap *heap;
	size_t i, n = 0;

	if (how & 1) {
		if (ops->fixture.driver.capturing)
			return 0;
		ctx = fixture_add_context(&ops->fixture, (how >> 1) % FAKE_DEVICES_MAX, &heap);
		if (ctx)
			ops->heap[ctx - 1] = heap;
		return 0;
	}
	ctx = pick_context(ops);
	if (!ctx)
		return 0;
	fixture_remove_context(&ops->fixture, ctx);
	ops->heap[ctx - 1] = NULL;
	for (i = 0; i < ops->count; i++)
		if (ops->held[i].ctx != ctx)
			ops->held[n++] = ops->held[i];
	ops->count = n;
	return 0;
}

static int do_failure(struct ops *ops)
{
	static const int codes[] = {CM_DRIVER_OUT_OF_MEMORY, FAKE_STICKY_ERROR, FAKE_DEINITIALIZED,
				    FAKE_INVALID_VALUE};
	uint8_t how = next(ops);

	ops->failing = true;
	if (how % 8 == 7) {
		fake_context_break(pick_context(ops), FAKE_STICKY_ERROR);
		return 0;
	}
	ops->fixture.driver.fail_call = ops->fixture.driver.calls + 1 + (how >> 4);
	ops->fixture.driver.fail_code = codes[how % 4];
	return 0;
}

static void switch_recording(struct ops *ops, bool on)
{
	uint64_t recorded;

	ops->fixture.record_has_gaps = true;
	(void)cm_cache_record_events(ops->fixture.cache, CM_ALL_DEVICES, on, &recorded);
}

static int do_mark(struct ops *ops)
{
	const struct held *held = pick_block(ops);
	uint8_t how = next(ops);
	uint64_t ctx = pick_context(ops);

	/* While a capture is active nobody can tell whether old work is done. */
	if (ops->fixture.driver.capturing)
		return 0;
	switch (how % 4) {
	case 0:
		if (held && held->host)
			(void)cm_cache_host_mark_exported(ops->fixture.cache, held->addr);
		if (!held || held->host)
			break;
		(void)cm_cache_mark_exported(ops->fixture.cache, held->addr);
		fake_judge_reach(held->ctx);
		break;
	case 1:
		if (how & 4)
			(void)cm_cache_open_to(ops->fixture.cache, ctx,
					       1u << (how >> 3) % FAKE_DEVICES_MAX);
		else
			cm_cache_mark_shared(ops->fixture.cache, ctx);
		fake_reach(ctx);
		break;
	case 2:
		cm_cache_drain_heap(ops->fixture.cache, ctx);
		break;
	default:
		if (how & 8 && !(ops->without & 32)) {
			switch_recording(ops, how & 4);
		} else if (how & 4) {
			cm_cache_reset_peak(ops->fixture.cache, 0);
			cm_cache_host_reset_peak(ops->fixture.cache);
		} else {
			cm_cache_reset_accumulated(ops->fixture.cache, 0);
			cm_cache_host_reset_accumulated(ops->fixture.cache);
		}
	}
	return 0;
}

static int do_name(struct ops *ops)
{
	const struct held *held = pick_block(ops);

	if (!held || held->host)
		return 0;
	cm_cache_mark_named(ops->fixture.cache, held->addr, held->bytes);
	/* While a capture is active nobody can tell whether old work is done. */
	if (!ops->fixture.driver.capturing)
		fake_name(held->addr, held->bytes);
	return 0;
}

static int do_lookup(struct ops *ops)
{
	const struct held *held = pick_block(ops);
	struct cm_place_info place;
	uint64_t into;

	if (!held || held->host)
		return 0;
	into = next_wide(ops) % held->bytes;
	cm_cache_lookup(ops->fixture.cache, held->addr + into, &place);
	if (place.place != (into ? CM_PLACE_INTERIOR : CM_PLACE_LIVE) ||
	    place.block_addr != held->addr || place.requested != held->bytes ||
	    place.ctx != held->ctx)
		return say(ops, "a block is not found again", held->addr, (int64_t)into);
	return 0;
}

static int do_capture(struct ops *ops)
{
	if (!ops->fixture.driver.capturing)
		cm_cache_before_capture(ops->fixture.cache);
	fake_capture(!ops->fixture.driver.capturing);
	return 0;
}

/* An operation stands as often as it is to be done; what upsets everything can be left out. */
static const struct operation {
	int (*run)(struct ops *ops);
	uint8_t times; /* of 64 */
	uint8_t upset; /* bit of ops->without, 0: always done */
} operations[] = {
	{do_alloc, 15, 0},    {do_host_alloc, 4, 0}, {do_free, 15, 0},   {do_work, 10, 0},
	{do_time, 4, 0},      {do_bad_free, 2, 0},   {do_lookup, 2, 0},  {do_name, 2, 0},
	{do_give_back, 2, 0}, {do_capture, 2, 1},    {do_context, 2, 2}, {do_failure, 2, 4},
	{do_mark, 2, 8},
};

static int run_one(struct ops *ops)
{
	uint8_t at = next(ops) % 64;
	size_t i;

	for (i = 0; at >= operations[i].times; i++)
		at = (uint8_t)(at - operations[i].times);
	return operations[i].upset & ops->without ? 0 : operations[i].run(ops);
}

static int step(struct ops *ops)
{
	int err = run_one(ops);
	const char *complaint;

	if (err)
		return err;
	complaint = fixture_complaint(&ops->fixture);
	if (complaint)
		(void)snprintf(ops->why, OPS_WHY_BYTES, "%s", complaint);
	return complaint ? -1 : 0;
}

static void read_policy(struct ops *ops, struct cm_policy *policy)
{
	uint8_t how = next(ops), more = next(ops);
	uint32_t i;

	cm_policy_init(policy);
	policy->reuse = (enum cm_reuse)(how % 3);
	policy->sync = how & 4 ? CM_SYNC_FREE : CM_SYNC_NEVER;
	policy->placement = how & 8 ? CM_PLACEMENT_EXACT : CM_PLACEMENT_SPLIT;
	policy->mode = how % 64 == 63 ? CM_MODE_STATS : CM_MODE_CACHE;
	policy->expandable_segments = how & 64 && policy->placement == CM_PLACEMENT_SPLIT;
	if (more & 1)
		policy->max_split_size = 20 * MIB + (more >> 4) * 4 * MIB;
	if (more & 2)
		policy->memory_fraction = 0.5;
	if (more & 4)
		policy->garbage_collection_threshold = 0.5;
	policy->shards = CM_SHARDS_ALWAYS;
	policy->decay_ns = more & 16 ? 50 * MS : 0;
	policy->exchange = !(more & 32);
	for (i = 0; more & 8 && i < CM_DIVISION_SLOTS; i++)
		policy->roundup_power2_divisions[i] = 1u << more % 5;
}

static bool is_everything_back(const struct fake_driver *driver)
{
	size_t i;

	for (i = 0; i < sizeof(driver->used_bytes) / sizeof(driver->used_bytes[0]); i++)
		if (driver->used_bytes[i])
			return false;
	return true;
}

/* Contexts take along what they have, and what is of none, as pages are, goes back after them. */
static int close_all(struct ops *ops)
{
	const char *complaint;
	uint32_t i;

	fake_capture(false);
	for (i = 0; i < FAKE_CONTEXTS_MAX; i++)
		if (ops->heap[i])
			fixture_remove_context(&ops->fixture, i + 1);
	/* Of those that went while a capture was active. */
	cm_cache_forgotten(ops->fixture.cache);
	complaint = fixture_complaint(&ops->fixture);
	if (!complaint && !ops->failing && !is_everything_back(&ops->fixture.driver))
		complaint = "not all memory is given back";
	if (complaint)
		(void)snprintf(ops->why, OPS_WHY_BYTES, "%s", complaint);
	return complaint ? -1 : 0;
}

int ops_run(const uint8_t *data, size_t size, char why[OPS_WHY_BYTES])
{
	struct ops ops = {.data = data, .left = size, .why = why};
	struct cm_policy policy;
	struct fixture_params params = {.policy = &policy, .events = 64};
	uint8_t how = next(&ops);
	int steps, err = 0;

	read_policy(&ops, &policy);
	params.limit_bytes = (how % 16 + 1) * 64 * MIB;
	params.old_driver = how >> 4 == 0;
	ops.shards = how & 32;
	policy.shards_most = ops.shards ? SHARDS : 1;
	cm_thread.shard = cm_thread.pauses = 0;
	cm_thread.remote_frees = cm_thread.remote_times = 0;
	cm_thread.heap = NULL;
	if (!fixture_open(&ops.fixture, &params))
		return say(&ops, "no memory", 0, 0);
	ops.fixture.driver.forgiving = true;
	ops.without = next(&ops);
	ops.heap[ops.fixture.ctx - 1] = ops.fixture.heap;
	for (steps = 0; steps < STEPS_MAX && ops.left && !err; steps++)
		err = step(&ops);
	if (!err)
		err = close_all(&ops);
	fake_capture(false);
	fixture_close(&ops.fixture);
	return err;
}
