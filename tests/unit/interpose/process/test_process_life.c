/* SPDX-License-Identifier: MIT */
/* What follows a start: forks, exec, the helper thread and its commands, and each way to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/process/process.h"
#include "stats/command_channel.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/process_stage.h"

/* ---- roles ---- */

static pid_t fork_by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* The child has a region of its own, and its exit leaves the parent's alone. */
static void play_fork_after(pid_t (*make_child)(void), bool calls_cuda)
{
	char path[sizeof(((struct cm_region *)0)->path)];
	pid_t pid, helper;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s", cm_process_region()->path);
	pid = make_child();
	if (!pid) {
		CM_MUST(!cm_process_cache_if_made());
		if (calls_cuda) {
			CM_MUST(cm_process_cache());
			CM_MUST(strcmp(cm_process_region()->path, path) != 0);
			CM_MUST(stage_count_regions() == 2);
			CM_MUST(stage_count_threads(&helper) == 2 && helper);
			CM_MUST(!cm_rerun_is_mapped(path));
		}
		exit(0);
	}
	stage_wait_for_child(pid);
	CM_MUST(stage_count_regions() == 1);
	CM_MUST(!access(path, F_OK));
	CM_MUST(cm_process_region()->header->state == CM_REGION_LIVE);
}

CM_ROLE(fork)
{
	play_fork_after(fork, true);
}

CM_ROLE(clone)
{
	play_fork_after(fork_by_clone, true);
}

CM_ROLE(idle_fork)
{
	play_fork_after(fork, false);
}

CM_ROLE(idle_clone)
{
	play_fork_after(fork_by_clone, false);
}

CM_ROLE(forgets)
{
	char path[sizeof(((struct cm_region *)0)->path)];
	pid_t pid;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s", cm_process_region()->path);
	pid = fork();
	if (!pid) {
		CM_MUST(!cm_rerun_is_mapped(path));
		CM_MUST(!stage_published);
		CM_MUST(stage_forgotten == 2);
		_exit(0);
	}
	stage_wait_for_child(pid);
}

CM_ROLE(next_program)
{
	pid_t helper;

	CM_MUST(cm_process_cache());
	CM_MUST(stage_count_regions() == 1);
	CM_MUST(stage_count_threads(&helper) == 2 && helper);
	CM_MUST(cm_process_region()->header->state == CM_REGION_LIVE);
}

/* The new program has the same pid and start time, so it meets the old file. */
CM_ROLE(exec)
{
	CM_MUST(cm_process_cache());
	cm_rerun_exec("next_program");
}

CM_ROLE(thread_end)
{
	CM_MUST(cm_process_cache());
	pthread_exit(NULL);
}

CM_ROLE(late_thread_end)
{
	CM_MUST(cm_process_cache());
	while (!atomic_load(&stage_sleeps))
		(void)sched_yield();
	pthread_exit(NULL);
}

CM_ROLE(blocked_signals)
{
	unsigned long long blocked = 0;
	char path[64], line[128];
	sigset_t mine;
	pid_t helper;
	FILE *file;

	CM_MUST(cm_process_cache());
	(void)stage_count_threads(&helper);
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/status", helper);
	file = fopen(path, "r");
	CM_MUST(file);
	while (fgets(line, sizeof(line), file))
		(void)sscanf(line, "SigBlk: %llx", &blocked);
	(void)fclose(file);
	/* All signals but KILL, STOP and the two that the C library reserves. */
	CM_MUST((blocked & 0x7fffffff) ==
		(0x7fffffff & ~(1u << (SIGKILL - 1)) & ~(1u << (SIGSTOP - 1))));
	CM_MUST(!pthread_sigmask(SIG_BLOCK, NULL, &mine));
	CM_MUST(!sigismember(&mine, SIGTERM) && !sigismember(&mine, SIGPIPE));
}

static int32_t send(uint32_t command, uint64_t arg)
{
	struct cm_channel *channel = &cm_process_region()->header->channel;
	uint32_t state;

	channel->command = command;
	channel->arg[0] = arg;
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)cm_channel_wake(channel);
	while ((state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE)) != CM_CHANNEL_DONE)
		(void)usleep(1000);
	__atomic_store_n(&channel->state, CM_CHANNEL_IDLE, __ATOMIC_RELEASE);
	return channel->status;
}

CM_ROLE(commands)
{
	CM_MUST(cm_process_cache());
	CM_MUST(send(CM_COMMAND_CHECKPOINT, 0) == 0);
	CM_MUST(cm_process_region()->header->tick_last);
	CM_MUST(cm_process_region()->header->time_last_ns);
	CM_MUST(send(CM_COMMAND_EMPTY_CACHE, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_EMPTY_CACHE, 0) == -ENODEV);
	CM_MUST(send(CM_COMMAND_RESET_PEAK, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_RESET_PEAK, 1u << 31) == -ENODEV);
	CM_MUST(send(CM_COMMAND_RESET_ACCUMULATED, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_CONFIGURE, CM_OPTION_COUNT) == -EINVAL);
	CM_MUST(send(CM_COMMAND_CONFIGURE, CM_OPTION_mode) == -EOPNOTSUPP);
	CM_MUST(send(CM_COMMAND_CONFIGURE, CM_OPTION_decay_seconds) == -EINVAL); /* no value */
	CM_MUST(send(CM_COMMAND_NONE, 0) == -EOPNOTSUPP);
	CM_MUST(send(UINT32_MAX, 0) == -EOPNOTSUPP);
}

static struct cm_region *region_after_exit;

/* Registered before the library's exit handler, so it runs after it. */
static void after_our_exit(void)
{
	struct cm_channel *channel = &region_after_exit->header->channel;
	struct cm_command command;

	CM_MUST(region_after_exit->header->state == CM_REGION_EXITED);
	CM_MUST(stage_count_regions() == 0);
	channel->command = CM_COMMAND_CHECKPOINT;
	__atomic_store_n(&channel->state, CM_CHANNEL_POSTED, __ATOMIC_RELEASE);
	(void)cm_channel_wake(channel);
	while (__atomic_load_n(&channel->state, __ATOMIC_ACQUIRE) != CM_CHANNEL_DONE)
		(void)usleep(1000);
	command.status = channel->status;
	CM_MUST(command.status == -ESHUTDOWN);
	CM_MUST(cm_process_cache_if_made());
}

CM_ROLE(exit)
{
	CM_MUST(!atexit(after_our_exit));
	CM_MUST(cm_process_cache());
	region_after_exit = cm_process_region();
}

CM_ROLE(quick_exit)
{
	CM_MUST(cm_process_cache());
	quick_exit(0);
}

CM_ROLE(killed)
{
	CM_MUST(cm_process_cache());
	(void)kill(getpid(), SIGKILL);
}

/* The program closes every descriptor that it does not know, and opens a file under each number. */
CM_ROLE(taken_fd)
{
	char path[PATH_MAX];
	struct stat st;
	pid_t pid;
	int fd;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s/own_file", getenv("REGIONS"));
	for (fd = 3; fd < 64; fd++)
		(void)close(fd);
	for (fd = 3; fd < 64; fd++)
		CM_MUST(open(path, O_RDWR | O_CREAT, 0600) == fd);
	CM_MUST(cm_region_commit(cm_process_region(), CM_TABLE_STACK, 1u << 20) == -EBADF);
	CM_MUST(!fstat(3, &st) && st.st_size == 0);
	pid = fork();
	if (!pid) {
		for (fd = 3; fd < 64; fd++)
			CM_MUST(!fstat(fd, &st));
		_exit(0);
	}
	stage_wait_for_child(pid);
	(void)unlink(path);
}

/* ---- the tests ---- */

STAGE_CASE(a_forked_child_starts_anew, "fork", "")
STAGE_CASE(a_cloned_child_starts_anew, "clone", "")
STAGE_CASE(a_forked_child_without_cuda_leaves_the_region_alone, "idle_fork", "")
STAGE_CASE(a_cloned_child_without_cuda_leaves_the_region_alone, "idle_clone", "")
STAGE_CASE(a_forked_child_unmaps_the_region_at_once, "forgets", "")
STAGE_CASE(a_program_after_exec_gets_its_own_region, "exec", "")
STAGE_CASE(the_helper_does_not_keep_the_process_alive, "thread_end", "")
STAGE_CASE(the_helper_takes_no_signals, "blocked_signals", "")
STAGE_CASE(the_helper_runs_commands, "commands", "")
STAGE_CASE(no_command_runs_once_exit_has_begun, "exit", "")
STAGE_CASE(a_quick_exit_removes_the_region_too, "quick_exit", "")
STAGE_CASE(a_descriptor_of_the_program_is_left_alone, "taken_fd", "")

/* A helper that kept sleeping would time the test out. */
STAGE_TEST(a_helper_that_misses_the_wake_up_checks_by_itself)
{
	stage_play(state, "late_thread_end", "decay_seconds:off", "NUDGES=lost", "");
}

STAGE_TEST(a_crash_leaves_the_region_behind)
{
	struct stage *stage = *state;
	DIR *stream;
	struct dirent *entry;
	unsigned left = 0;

	stage_play_with(stage, (struct cm_rerun){.role = "killed"}, "", NULL, 128 + SIGKILL);
	stream = opendir(stage->dir);
	assert_non_null(stream);
	while ((entry = readdir(stream)))
		left += entry->d_name[0] != '.';
	(void)closedir(stream);
	assert_int_equal(left, 1);
	stage_remove_regions(stage->dir);
}
