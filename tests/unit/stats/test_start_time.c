/* SPDX-License-Identifier: MIT */
#include "stats/start_time.h"

#include <errno.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

CM_TEST(a_process_has_one_start_time)
{
	uint64_t mine, again, init;

	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &mine), 0);
	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &again), 0);
	assert_int_equal(mine, again);
	/* A mount of /proc may hide what is not the user's (hidepid). */
	if (!access("/proc/1/stat", R_OK)) {
		assert_int_equal(cm_process_start_time(1, &init), 0);
		assert_true(init <= mine);
	}
	assert_int_equal(cm_process_start_time(0x7fffffff, &init), -ESRCH);
}

CM_TEST(a_process_finds_its_own_start_time)
{
	struct cm_process_stat own;
	uint64_t mine;

	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &mine), 0);
	assert_int_equal(cm_process_read_own_stat(&own), 0);
	assert_int_equal(own.start, mine);
	assert_int_equal(own.threads, 1);
	assert_int_equal(own.state, 'R');
	assert_false(own.is_dead);
}
