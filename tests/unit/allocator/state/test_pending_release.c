/* SPDX-License-Identifier: MIT */
/*
 * A program's second free of a block, while what held it is on its way to the driver by another
 * thread: it is refused, and the driver gets the memory once. So of a question what is there.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

typedef int (*release_t)(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);

/* The thread that frees a second time. */
static struct second {
	struct cm_cache *cache;
	release_t release;
	uint64_t addr;
	pthread_t thread;
	int err;
	uint64_t forward;
	_Atomic bool sleeps;
	_Atomic bool done;
} second;

static struct cm_driver_ops ops;
static bool is_second; /* the next memory that goes back is freed meanwhile */

static void *free_again(void *arg)
{
	(void)arg;
	second.err = second.release(second.cache, second.addr, &second.forward);
	second.done = true;
	return NULL;
}

static void backoff(uint64_t ns)
{
	second.sleeps = true;
	fake_driver_ops()->sleep_ns(ns);
}

/* Until it waits for this very call, or is through. */
static void let_free_again(uint64_t addr)
{
	if (!is_second || addr != second.addr)
		return;
	is_second = false;
	assert_int_equal(pthread_create(&second.thread, NULL, free_again, NULL), 0);
	while (!second.sleeps && !second.done)
		(void)sched_yield();
}

static int mem_free(uint64_t ctx, uint64_t addr)
{
	let_free_again(addr);
	return fake_driver_ops()->mem_free(ctx, addr);
}

static int host_free(uint64_t ctx, uint64_t addr)
{
	let_free_again(addr);
	return fake_driver_ops()->host_free(ctx, addr);
}

static void trim_beside_a_second_free(struct fixture *f, uint64_t addr, release_t release)
{
	uint64_t bytes = 0;

	second = (struct second){
		.cache = f->cache, .release = release, .addr = addr, .forward = addr};
	is_second = true;
	ops = *fake_driver_ops();
	ops.mem_free = mem_free;
	ops.host_free = host_free;
	ops.sleep_ns = backoff;
	f->cache->ops = &ops;
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, &bytes), 0);
	assert_int_equal(pthread_join(second.thread, NULL), 0);
	f->cache->ops = fake_driver_ops();
	assert_int_equal(bytes, 64 * MIB);
	/* Forwarded once the driver had its memory, which refuses it then, or with an address that
	 * it refuses in any case. */
	assert_true(second.sleeps);
	assert_true(second.err == -ENOENT || (second.err == -EFAULT && second.forward == addr + 1));
	assert_sound(f);
}

fixture_case(device_memory_on_its_way_is_not_freed_twice)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	case_put(f, addr);
	trim_beside_a_second_free(f, addr, cm_cache_free);
	assert_int_equal(f->driver.used_bytes[0], 0);
}

/* As who frees it in a stream does. */
static int look_up(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, addr, &info);
	if (info.place == CM_PLACE_FOREIGN)
		return -ENOENT;
	*ret_forward = info.segment_addr + 1;
	return info.place == CM_PLACE_IDLE ? -EFAULT : 0;
}

fixture_case(memory_on_its_way_is_not_taken_for_the_drivers)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	case_put(f, addr);
	trim_beside_a_second_free(f, addr, look_up);
}

fixture_case(pinned_memory_on_its_way_is_not_freed_twice)
{
	struct fixture *f = *state;
	uint64_t addr = 0, forward;

	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 64 * MIB, &addr), 0);
	assert_int_equal(cm_cache_host_free(f->cache, addr, &forward), 0);
	trim_beside_a_second_free(f, addr, cm_cache_host_free);
	assert_int_equal(f->driver.used_bytes[FAKE_HOST], 0);
}

/* A signal handler in the very call that gives memory back would wait for itself. */
static void free_within(uint64_t addr)
{
	if (!is_second || addr != second.addr)
		return;
	is_second = false;
	second.err = second.release(second.cache, addr, &second.forward);
}

static int mem_free_within(uint64_t ctx, uint64_t addr)
{
	free_within(addr);
	return fake_driver_ops()->mem_free(ctx, addr);
}

static int host_free_within(uint64_t ctx, uint64_t addr)
{
	free_within(addr);
	return fake_driver_ops()->host_free(ctx, addr);
}

/* The time passes, and nothing else: the referee would take it for a host that hangs. */
static void wait_for_oneself(struct fixture *f, uint64_t addr, release_t release)
{
	second = (struct second){
		.cache = f->cache, .release = release, .addr = addr, .forward = addr};
	is_second = true;
	f->driver.modelled = true;
	f->driver.forgiving = true;
	ops = *fake_driver_ops();
	ops.mem_free = mem_free_within;
	ops.host_free = host_free_within;
	f->cache->ops = &ops;
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	f->cache->ops = fake_driver_ops();
	assert_int_equal(second.err, -EFAULT);
	assert_int_equal(second.forward, addr + 1);
	assert_sound(f);
}

fixture_case(who_would_wait_for_himself_is_refused)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB), pinned, forward;

	case_put(f, addr);
	wait_for_oneself(f, addr, cm_cache_free);
	addr = case_get(f, 64 * MIB);
	case_put(f, addr);
	wait_for_oneself(f, addr, look_up);
	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 64 * MIB, &pinned), 0);
	assert_int_equal(cm_cache_host_free(f->cache, pinned, &forward), 0);
	wait_for_oneself(f, pinned, cm_cache_host_free);
}

/* ---- memory is out, but for what is on its way ---- */

static struct cm_heap *asking;

static int ask(struct cm_cache *cache, uint64_t addr, uint64_t *ret_addr)
{
	(void)addr;
	return cm_cache_alloc(cache, asking, 64 * MIB, ret_addr);
}

static int ask_on_host(struct cm_cache *cache, uint64_t addr, uint64_t *ret_addr)
{
	(void)addr;
	return cm_cache_host_alloc(cache, asking, 0, 64 * MIB, ret_addr);
}

/* Time stands still for who waits: he is through once the other is. */
static void sleep_without_time(uint64_t ns)
{
	(void)ns;
	second.sleeps = true;
	(void)sched_yield();
}

/* There is room for this block alone, and the other thread asks while it is on its way. */
static void ask_while_it_leaves(struct fixture *f, uint64_t addr, release_t wanted)
{
	asking = f->heap;
	second = (struct second){.cache = f->cache, .release = wanted, .addr = addr};
	is_second = true;
	f->driver.limit_bytes = 64 * MIB;
	ops = *fake_driver_ops();
	ops.mem_free = mem_free;
	ops.host_free = host_free;
	ops.sleep_ns = sleep_without_time;
	f->cache->ops = &ops;
}

static void assert_got(struct fixture *f)
{
	assert_int_equal(pthread_join(second.thread, NULL), 0);
	f->cache->ops = fake_driver_ops();
	assert_int_equal(second.err, 0);
	assert_true(second.forward != 0);
	assert_sound(f);
}

/* What has been shown to others goes back at once, and not by who gives back what is idle. */
fixture_case(nobody_fails_for_memory_on_its_way)
{
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 64 * MIB);

	assert_int_equal(cm_cache_mark_exported(f->cache, addr), 0);
	ask_while_it_leaves(f, addr, ask);
	assert_int_equal(fixture_put(f, addr), 0);
	assert_got(f);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 0);
}

CM_TEST(nobody_fails_for_memory_on_its_way_without_a_cache)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	f = case_open(&(struct fixture_params){.policy = &policy});
	addr = case_get(f, 64 * MIB);
	ask_while_it_leaves(f, addr, ask);
	assert_int_equal(fixture_put(f, addr), 0);
	assert_got(f);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_ooms), 0);
	case_close(f);
}

fixture_case(nobody_fails_for_pinned_memory_on_its_way)
{
	struct fixture *f = *state;
	uint64_t addr = 0, forward;

	assert_int_equal(cm_cache_host_alloc(f->cache, f->heap, 0, 64 * MIB, &addr), 0);
	assert_int_equal(cm_cache_host_free(f->cache, addr, &forward), 0);
	ask_while_it_leaves(f, addr, ask_on_host);
	assert_int_equal(cm_cache_trim(f->cache, UINT32_MAX, NULL), 0);
	assert_got(f);
}

/* ---- a trim comes first ---- */

static struct {
	struct cm_cache *cache;
	pthread_t thread;
	_Atomic bool begun;
	_Atomic bool at_driver;
	_Atomic bool awaited; /* the program's free waits, or is through */
} trim;

static void *trim_all(void *arg)
{
	(void)arg;
	(void)cm_cache_trim(trim.cache, UINT32_MAX, NULL);
	return NULL;
}

static int mem_free_late(uint64_t ctx, uint64_t addr)
{
	trim.at_driver = true;
	while (!trim.awaited)
		(void)sched_yield();
	return fake_driver_ops()->mem_free(ctx, addr);
}

static void sleep_behind_trim(uint64_t ns)
{
	(void)ns;
	trim.awaited = true;
	(void)sched_yield();
}

/* The free is about to give its block back: the trim does it before. */
static bool gate_enter_late(void)
{
	if (!atomic_exchange(&trim.begun, true)) {
		assert_int_equal(pthread_create(&trim.thread, NULL, trim_all, NULL), 0);
		while (!trim.at_driver)
			(void)sched_yield();
	}
	return fake_driver_ops()->gate_enter();
}

CM_TEST(what_was_freed_is_the_drivers_also_behind_a_trim)
{
	struct cm_policy policy;
	struct fixture *f;
	uint64_t addr;

	cm_policy_init(&policy);
	policy.mode = CM_MODE_STATS;
	f = case_open(&(struct fixture_params){.policy = &policy});
	addr = case_get(f, 64 * MIB);
	trim.cache = f->cache;
	ops = *fake_driver_ops();
	ops.mem_free = mem_free_late;
	ops.sleep_ns = sleep_behind_trim;
	ops.gate_enter = gate_enter_late;
	f->cache->ops = &ops;
	assert_int_equal(fixture_put(f, addr), 0);
	assert_true(trim.at_driver);
	assert_int_equal(f->driver.used_bytes[0], 0);
	trim.awaited = true;
	assert_int_equal(pthread_join(trim.thread, NULL), 0);
	f->cache->ops = fake_driver_ops();
	case_close(f);
}
