/* SPDX-License-Identifier: MIT */
#include "interpose/process/process.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/region_mode.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/process_stage.h"

/* clang reports the sanitizer by __has_feature. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

static const struct cm_option_row *find_option(const char *name)
{
	const struct cm_region *region = cm_process_region();
	const struct cm_option_row *row;
	uint32_t i;

	for (i = 0; i < region->header->table[CM_TABLE_OPTION].rows; i++) {
		row = cm_region_row(region, CM_TABLE_OPTION, i);
		if (!strcmp(row->name, name))
			return row;
	}
	CM_MUST(!"such an option");
	return NULL;
}

/* ---- roles ---- */

CM_ROLE(nothing)
{
	pid_t helper;

	CM_MUST(!cm_process_cache_if_made());
	CM_MUST(stage_count_threads(&helper) == 1);
	CM_MUST(stage_count_regions() == 0);
	CM_MUST(stage_calls_into_start == 0);
}

CM_ROLE(first_call)
{
	struct cm_cache *cache;
	struct stat st;
	pid_t helper;

	errno = ENOTTY;
	cache = cm_process_cache();
	CM_MUST(cache);
	CM_MUST(errno == ENOTTY);
	CM_MUST(cm_process_cache() == cache);
	CM_MUST(stage_calls_into_start == 1);
	CM_MUST(stage_count_regions() == 1);
	CM_MUST(stage_count_threads(&helper) == 2);
	CM_MUST(helper);
	CM_MUST(!stat(cm_process_region()->path, &st));
	CM_MUST((st.st_mode & 07777) == CM_REGION_MODE);
	CM_MUST(cm_process_region()->header->state == CM_REGION_LIVE);
	CM_MUST(cm_process_region()->header->flags & CM_REGION_CONTROL);
	CM_MUST(cm_process_region()->header->tick_base);
	CM_MUST(cm_process_region()->header->time_base_ns);
	CM_MUST(cm_process_region()->header->driver_version == 13000);
	CM_MUST(stage_published == cm_process_region()->header->entry_point);
	CM_MUST(!strcmp(find_option("mode")->value, "cache"));
	CM_MUST(!strcmp(find_option("region_dir")->origin, "environment"));
}

CM_ROLE(off)
{
	pid_t helper;

	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_policy());
	CM_MUST(!cm_process_region());
	CM_MUST(stage_calls_into_start == 1);
	CM_MUST(stage_count_threads(&helper) == 1);
	CM_MUST(stage_count_regions() == 0);
}

CM_ROLE(incomplete_driver)
{
	stage_driver_is_complete = false;
	play_off();
}

CM_ROLE(without_control)
{
	pid_t helper;

	CM_MUST(cm_process_cache());
	CM_MUST(stage_count_threads(&helper) == 1);
	CM_MUST(!(cm_process_region()->header->flags & CM_REGION_CONTROL));
}

CM_ROLE(memfd)
{
	CM_MUST(cm_process_cache());
	CM_MUST(cm_process_region()->backing == CM_BACKING_MEMFD);
	CM_MUST(cm_process_region()->header->flags & CM_REGION_CONTROL);
}

CM_ROLE(private)
{
	CM_MUST(cm_process_cache());
	CM_MUST(cm_process_region()->backing == CM_BACKING_PRIVATE);
	CM_MUST(!(cm_process_region()->header->flags & CM_REGION_CONTROL));
}

/* Sets a limit inside the role: the program that runs the role may need more. */
static void limit(int resource, rlim_t value)
{
	const struct rlimit limit = {value, value};

	CM_MUST(!setrlimit(resource, &limit));
}

/* No descriptors but the standard ones: private memory serves, and the program goes on. */
CM_ROLE(few_files)
{
	limit(RLIMIT_NOFILE, 3);
	play_private();
}

CM_ROLE(small_files)
{
	limit(RLIMIT_FSIZE, 1 << 20);
	play_private();
}

/* Less than a region needs. */
CM_ROLE(little_memory)
{
	limit(RLIMIT_AS, UINT64_C(256) << 20);
	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_cache());
}

CM_ROLE(no_threads)
{
	/* The limit counts per user, and not for root: become nobody. */
	CM_MUST(!setgid(65534) && !setuid(65534));
	limit(RLIMIT_NPROC, 0);
	play_without_control();
}

static const struct cm_policy *start_and_read_policy(void)
{
	CM_MUST(cm_process_cache());
	CM_MUST(cm_process_policy());
	return cm_process_policy();
}

CM_ROLE(policy)
{
	const struct cm_policy *policy = start_and_read_policy();

	CM_MUST(policy->mode == CM_MODE_STATS);
	CM_MUST(policy->reuse == CM_REUSE_WAIT);
	CM_MUST(policy->sync == CM_SYNC_FREE);
	CM_MUST(policy->placement == CM_PLACEMENT_EXACT);
	CM_MUST(policy->max_split_size == UINT64_C(64) << 20);
	CM_MUST(policy->large_segment_size == UINT64_C(32) << 20);
	CM_MUST(policy->max_non_split_rounding == UINT64_C(32) << 20);
	CM_MUST(policy->garbage_collection_threshold == 0.75);
	CM_MUST(policy->memory_fraction == 0.5);
	CM_MUST(policy->roundup_power2_divisions[0] == 2);
	CM_MUST(policy->roundup_power2_divisions[15] == 8);
	CM_MUST(cm_process_region()->header->table[CM_TABLE_EVENT].ring == 1024);
}

CM_ROLE(default_policy)
{
	const struct cm_policy *policy = start_and_read_policy();

	CM_MUST(policy->mode == CM_MODE_CACHE);
	CM_MUST(policy->placement == CM_PLACEMENT_SPLIT);
	CM_MUST(policy->max_split_size == UINT64_MAX);
	CM_MUST(!strcmp(find_option("placement")->value, "split"));
	CM_MUST(!strcmp(find_option("placement")->origin, "library"));
}

CM_ROLE(exact)
{
	CM_MUST(start_and_read_policy()->placement == CM_PLACEMENT_EXACT);
}

CM_ROLE(stats)
{
	CM_MUST(start_and_read_policy()->mode == CM_MODE_STATS);
	CM_MUST(!strcmp(find_option("mode")->value, "stats"));
}

CM_ROLE(cache)
{
	CM_MUST(start_and_read_policy()->mode == CM_MODE_CACHE);
}

static void call_from_inside(void)
{
	CM_MUST(!cm_process_cache());
}

CM_ROLE(call_from_inside)
{
	stage_during_start = call_from_inside;
	CM_MUST(cm_process_cache());
	CM_MUST(stage_calls_into_start == 1);
}

static sem_t start_reached, start_may_go_on;

static void hold_the_start(void)
{
	(void)sem_post(&start_reached);
	(void)sem_wait(&start_may_go_on);
}

static void *call_once(void *arg)
{
	(void)arg;
	return cm_process_cache();
}

/* Starts the library in another thread and returns in the middle of that start. */
static pthread_t start_and_hold(void)
{
	pthread_t thread;

	CM_MUST(!sem_init(&start_reached, 0, 0));
	CM_MUST(!sem_init(&start_may_go_on, 0, 0));
	stage_during_start = hold_the_start;
	CM_MUST(!pthread_create(&thread, NULL, call_once, NULL));
	(void)sem_wait(&start_reached);
	return thread;
}

CM_ROLE(start_that_hangs)
{
	pthread_t thread = start_and_hold();
	void *cache = NULL;

	CM_MUST(!cm_process_cache()); /* waits 0.1 s, then gives up */
	(void)sem_post(&start_may_go_on);
	CM_MUST(!pthread_join(thread, &cache));
	CM_MUST(cache && cm_process_cache() == cache);
}

CM_ROLE(fork_in_start)
{
	pthread_t thread = start_and_hold();
	pid_t pid = fork();

	if (!pid) {
		stage_during_start = NULL;
		CM_MUST(cm_process_cache());
		CM_MUST(cm_process_region()->header->pid == (uint32_t)getpid());
		exit(0);
	}
	stage_wait_for_child(pid);
	(void)sem_post(&start_may_go_on);
	CM_MUST(!pthread_join(thread, NULL));
	CM_MUST(stage_count_regions() == 1);
}

CM_ROLE(fork_before)
{
	pid_t pid = fork();

	if (!pid) {
		CM_MUST(cm_process_cache());
		CM_MUST(stage_count_regions() == 1);
		exit(0);
	}
	stage_wait_for_child(pid);
	CM_MUST(stage_count_regions() == 0);
	CM_MUST(!cm_process_cache_if_made());
	CM_MUST(cm_process_cache());
}

CM_ROLE(no_standard_files)
{
	CM_MUST(!close(STDIN_FILENO) && !close(STDOUT_FILENO));
	CM_MUST(cm_process_cache());
	CM_MUST(dup(STDERR_FILENO) == STDIN_FILENO);
	CM_MUST(dup(STDERR_FILENO) == STDOUT_FILENO);
}

/* ---- the tests ---- */

STAGE_CASE(nothing_is_made_or_logged_before_the_first_call, "nothing", "nonsense:1")
STAGE_CASE(the_first_call_makes_all_and_exit_removes_it, "first_call", "")
STAGE_CASE(mode_off_makes_nothing, "off", "mode:off")
STAGE_CASE(control_off_starts_no_thread, "without_control", "control:off")
STAGE_CASE(the_configuration_reaches_the_policy, "policy",
	   "mode:stats,reuse:wait,sync:free,placement:exact,max_split_size_mb:64,"
	   "large_segment_size_mb:32,garbage_collection_threshold:0.75,"
	   "per_process_memory_fraction:0.5,roundup_power2_divisions:[1:2,>:8],events:1000")
STAGE_CASE(the_default_is_to_cache_and_split, "default_policy", "")
STAGE_CASE(a_call_from_inside_the_start_passes_through, "call_from_inside", "")
STAGE_CASE(a_start_that_hangs_holds_nobody_up, "start_that_hangs", "")
STAGE_CASE(a_fork_in_the_middle_of_the_start_is_a_fresh_start, "fork_in_start", "")
STAGE_CASE(a_child_forked_before_the_start_has_its_own, "fork_before", "")
STAGE_CASE(standard_files_stay_the_programs, "no_standard_files", "")

STAGE_TEST(an_incomplete_driver_means_no_cache)
{
	stage_play(state, "incomplete_driver", "", NULL,
		   "cudamem: the driver lacks required functions; nothing is cached\n");
}

STAGE_TEST(a_full_folder_means_a_memfd)
{
	struct stage *stage = *state;
	char want[PATH_MAX + 256];

	(void)snprintf(want, sizeof(want),
		       "cudamem: no statistics file in %s (No space left on device); kept in "
		       "shared memory, where cudamemstat finds them while the process lives\n",
		       stage->dir);
	stage_play(state, "memfd", "", "FULL=1", want);
	(void)snprintf(want, sizeof(want),
		       "cudamem: no statistics file in %s (No space left on device) and no shared "
		       "memory; cudamemstat cannot see this process\n",
		       stage->dir);
	stage_play(state, "private", "", "FULL=2", want);
}

STAGE_TEST(a_missing_folder_means_a_memfd)
{
	stage_play(
		state, "memfd", "region_dir:/nonexistent", NULL,
		"cudamem: no statistics file in /nonexistent (No such file or directory); kept in "
		"shared memory, where cudamemstat finds them while the process lives\n");
}

/* memfd_create fails as under a seccomp filter. */
static void refuse_memfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(93);
}

STAGE_TEST(a_refused_memfd_means_private_memory)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "private", .prepare = refuse_memfd},
			"region_dir:/nonexistent", NULL, 0);
	assert_non_null(strstr(stage->said, "cudamemstat cannot see this process\n"));
}

STAGE_TEST(the_program_goes_on_under_low_limits)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "few_files"}, "", NULL, 0);
	assert_non_null(strstr(stage->said, "(Too many open files) and no shared memory"));
	stage_play_with(stage, (struct cm_rerun){.role = "small_files"}, "", NULL, 0);
	assert_non_null(strstr(stage->said, "(File too large) and no shared memory"));
#if !defined(__SANITIZE_ADDRESS__)
	stage_play(state, "little_memory", "", NULL,
		   "cudamem: cannot start (Cannot allocate memory); nothing is cached\n");
#endif
}

static bool nobody_can_write(const char *dir)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(setgid(65534) || setuid(65534) || access(dir, W_OK));
	return waitpid(pid, &status, 0) == pid && status == 0;
}

STAGE_TEST(without_a_thread_there_are_no_commands)
{
	struct stage *stage = *state;

	if (geteuid() != 0)
		cm_skip("only root can become a user whose threads are counted");
	assert_int_equal(chmod(stage->dir, 0777), 0);
	if (!nobody_can_write(stage->dir))
		cm_skip("another user cannot reach the build folder");
	stage_play(state, "no_threads", "", NULL,
		   "cudamem: cannot create a thread; cudamemstat can read but not send commands\n");
}

STAGE_TEST(launchers_and_injected_tools_are_detected)
{
	stage_play(state, "exact", "", "OMPI_COMM_WORLD_SIZE=4", "");
	stage_play(state, "default_policy", "", "OMPI_COMM_WORLD_SIZE=1", "");
	stage_play(state, "stats", "", "CUDA_INJECTION64_PATH=/x.so", "");
	stage_play(state, "stats", "", "NVTX_INJECTION64_PATH=/x.so", "");
	stage_play(state, "cache", "mode:cache", "CUDA_INJECTION64_PATH=/x.so", "");
}
