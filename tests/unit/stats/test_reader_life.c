/* SPDX-License-Identifier: MIT */
/* Whether the process of a region runs, is stopped, has ended or has crashed. */
#include "stats/reader.h"

#include "tests/unit/stats/reader_stage.h"

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(a_process_is_running_then_stopped_then_crashed)
{
	struct fixture *f = *state;
	char path[sizeof(f->region->path)];
	siginfo_t info;
	pid_t child;

	child = start_owner(f, CM_BACKING_FILE, path);
	assert_int_equal(cm_reader_open(path, &f->reader, f->why), 0);
	assert_int_equal(f->reader->pid, child);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	(void)kill(child, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WSTOPPED), 0);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_STOPPED);
	(void)kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	/* A zombie has lost its memory already. */
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_CRASHED);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_CRASHED);
	(void)unlink(path);
}

TEST(a_pid_used_again_is_not_the_process)
{
	struct fixture *f = *state;

	open_region(f);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	f->reader->header.start_time--;
	(void)unlink(f->region->path);
	cm_region_abandon(f->region); /* and its lock, as by the end of the process */
	f->region = NULL;
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_CRASHED);
}

TEST(a_region_said_good_bye_to_is_exited)
{
	struct fixture *f = *state;

	open_region(f);
	cm_region_remove(f->region);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_EXITED);
}

/* The owner's lock tells where its pid can't. */
TEST(the_lock_tells_of_a_process_in_another_namespace)
{
	struct fixture *f = *state;
	char path[sizeof(f->region->path)];
	pid_t child;

	child = start_owner(f, CM_BACKING_FILE, path);
	assert_int_equal(cm_reader_open(path, &f->reader, f->why), 0);
	f->reader->pid = 0;
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_CRASHED);
	(void)unlink(path);
}
