/* SPDX-License-Identifier: MIT */
/*
 * The allocator's lock, which is biased to the thread that takes it most: allocator/base/lock.c.
 * What it guards is plain memory, so two that hold it at once are a race, here as for
 * ThreadSanitizer; but that one does not know membarrier(2), and is shown stronger orders.
 */
#undef __SANITIZE_THREAD__
#include <sched.h>

#include "allocator/base/thread.h"

#include "tests/model/model.h"

/* Threads of the model are one thread to the C library. */
#define cm_thread_id model_thread
/* However often it yields for it. */
static bool time_settles;

static int yield_until_stores_are_seen(void)
{
	if (time_settles)
		model_settle();
	return 0;
}
#define sched_yield yield_until_stores_are_seen

/* clang-format off: after the name is another */
#include "allocator/base/lock.h"
#undef CM_LOCK_STREAK
#define CM_LOCK_STREAK 1u
#define SETTLING_CALLS 1
#define HINT           __attribute__((no_sanitize("thread")))
#include "allocator/base/lock.c" /* NOLINT(bugprone-suspicious-include) */
/* clang-format on */

static struct cm_lock lock;
static unsigned guarded;
static _Atomic bool has_tried;

static void setup(void)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	guarded = 0;
	atomic_store(&has_tried, false);
	model_without_membarrier = model_refuses_membarrier = false;
	time_settles = true;
	atomic_store(&agreed, 1);
}

static void setup_without_barrier(void)
{
	setup();
	model_without_membarrier = true;
}

static void setup_without_time(void)
{
	setup();
	time_settles = false;
}

/* The first thread has been there so often that it enters by its flag. */
static void setup_with_bias_owner(void)
{
	const uint32_t bias_owner = 1;

	setup();
	lock.owner[bias_owner % CM_LOCK_FLAGS] = bias_owner;
	atomic_store(&lock.bias_owner, bias_owner);
}

static void take(void)
{
	cm_lock_acquire(&lock);
	guarded++;
	cm_lock_release(&lock);
}

/* The second time by its flag. */
static void take_twice(void)
{
	take();
	take();
}

static void take_or_not(void)
{
	if (!cm_lock_try(&lock))
		return;
	guarded++;
	cm_lock_release(&lock);
}

static void borrow(void)
{
	if (!cm_lock_try(&lock))
		return;
	guarded++;
	cm_lock_release_lent(&lock);
}

static void try_for_another(void)
{
	take_or_not();
	atomic_store(&has_tried, true);
}

/* What tries meanwhile does not wait until it is out. */
static void stay_until_another_has_tried(void)
{
	cm_lock_acquire(&lock);
	MODEL_SPIN_UNTIL(atomic_load(&has_tried));
	guarded++;
	cm_lock_release(&lock);
}

/* A filter is laid when there is a bias owner, and the lock is one as ever from then on. */
static void take_behind_filter(void)
{
	model_refuses_membarrier = true;
	take();
}

static void three_were_in_unbiased(void)
{
	MODEL_MUST(guarded == 3 && !cm_lock_is_held(&lock));
	MODEL_MUST(!atomic_load(&lock.bias_owner) || atomic_load(&agreed) == 1);
}

static void three_were_in(void)
{
	MODEL_MUST(guarded == 3 && !cm_lock_is_held(&lock));
}

static void four_were_in(void)
{
	MODEL_MUST(guarded == 4 && !cm_lock_is_held(&lock));
}

static void nobody_is_in(void)
{
	MODEL_MUST(guarded >= 1 && !cm_lock_is_held(&lock));
}

static const struct model_scenario scenarios[] = {
	{"a bias owner and another", setup, {take_twice, take}, three_were_in, 3, NULL},
	{"two that both may be the bias owner",
	 setup,
	 {take_twice, take_twice},
	 four_were_in,
	 2,
	 NULL},
	{"a bias owner and one that tries",
	 setup,
	 {take_twice, take_or_not},
	 nobody_is_in,
	 3,
	 NULL},
	{"a bias owner that stays inside and one that tries",
	 setup_with_bias_owner,
	 {stay_until_another_has_tried, try_for_another},
	 nobody_is_in,
	 3,
	 NULL},
	{"the same beside another",
	 setup_with_bias_owner,
	 {stay_until_another_has_tried, try_for_another, take},
	 nobody_is_in,
	 2,
	 NULL},
	{"a bias owner and two others", setup, {take_twice, take, take}, four_were_in, 2, NULL},
	{"a bias owner and one that gives the bias back",
	 setup_with_bias_owner,
	 {take_twice, borrow},
	 nobody_is_in,
	 3,
	 NULL},
	{"the same beside another",
	 setup_with_bias_owner,
	 {take_twice, borrow, take},
	 nobody_is_in,
	 2,
	 NULL},
	{"a barrier that is refused of late",
	 setup,
	 {take_twice, take_behind_filter},
	 three_were_in_unbiased,
	 3,
	 NULL},
	{"refused, and no time for stores to arrive",
	 setup_without_time,
	 {take_twice, take_behind_filter},
	 NULL,
	 3,
	 "deadlock"},
	{"without the barrier on every processor",
	 setup_without_barrier,
	 {take_twice, take},
	 NULL,
	 3,
	 "deadlock"},
};

int main(void)
{
	model_thread_local(&cm_thread, sizeof(cm_thread));
	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
