/* SPDX-License-Identifier: MIT */
/* A plain program in its threads: they count, and main compares. */
#include "allocator/lock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "tests/unit/cmocka_all.h"

#define THREADS 4
#define TURNS   50000

static struct cm_lock lock;
static uint64_t counter; /* guarded by the lock */
static uint64_t overlaps;

static void *count(void *arg)
{
	uint64_t *errnos = arg;
	uint64_t before;
	int i;

	for (i = 0; i < TURNS; i++) {
		errno = 4711;
		cm_lock_acquire(&lock);
		before = counter;
		if (i % 64 == 0)
			(void)sched_yield(); /* so that the others meet a lock that is held */
		if (counter != before)
			overlaps++;
		counter = before + 1;
		cm_lock_release(&lock);
		*errnos += errno != 4711 && i % 64 != 0;
	}
	return NULL;
}

static void one_thread_at_a_time_and_errno_stays(void **state)
{
	uint64_t errnos[THREADS] = {0};
	pthread_t thread[THREADS];
	size_t i;

	(void)state;
	cm_lock_init(&lock);
	counter = overlaps = 0;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, &errnos[i]), 0);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(errnos[i], 0);
	}
	assert_int_equal(counter, THREADS * TURNS);
	assert_int_equal(overlaps, 0);
	assert_false(cm_lock_is_held(&lock));
}

/* Takes what it holds on purpose, which the analysis would refuse. */
static void CM_UNCHECKED a_held_lock_is_not_had_by_trying(void **state)
{
	(void)state;
	cm_lock_init(&lock);
	assert_true(cm_lock_try(&lock));
	assert_true(cm_lock_is_held(&lock));
	assert_false(cm_lock_try(&lock));
	cm_lock_release(&lock);
	assert_true(cm_lock_try(&lock));
	cm_lock_release(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_at_a_time_and_errno_stays),
		cmocka_unit_test(a_held_lock_is_not_had_by_trying),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
