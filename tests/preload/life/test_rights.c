/* SPDX-License-Identifier: MIT */
/* Processes that may not do all: without files, memory or rights the program is served all the
 * same. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* No free number below the ones that are open. */
CM_ROLE(no_files)
{
	struct rlimit files;
	CUdeviceptr block;

	cm_open(0);
	CM_MUST(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = 3;
	CM_MUST(!setrlimit(RLIMIT_NOFILE, &files));
	block = cm_get(3 * MIB);
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(3 * MIB) == block);
	OK(cuMemFree_v2(block));
	files.rlim_cur = files.rlim_max;
	CM_MUST(!setrlimit(RLIMIT_NOFILE, &files));
}

static void install_filter(struct sock_filter *filter, size_t count)
{
	const struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};

	CM_MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/* A sandbox that lets a program do what it has always done, and refuses what it does not know. */
static void refuse_memfd(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

CM_ROLE(no_memfd)
{
	CUdeviceptr block;

	cm_open(0);
	refuse_memfd();
	block = cm_get(3 * MIB);
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(3 * MIB) == block);
	OK(cuMemFree_v2(block));
}

/* Of the calls that a library may want, those which systemd's group @system-service leaves out. */
static void end_at_unusual_calls(void)
{
	static const unsigned calls[] = {
		SYS_mincore,      SYS_ptrace,     SYS_perf_event_open,   SYS_bpf,
		SYS_pkey_alloc,   SYS_pkey_free,  SYS_pkey_mprotect,     SYS_pidfd_getfd,
		SYS_memfd_secret, SYS_modify_ldt, SYS_open_by_handle_at,
	};
	enum { COUNT = sizeof(calls) / sizeof(calls[0]) };
	struct sock_filter filter[2 * COUNT + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_filter *next = filter + 1;
	int i;

	for (i = 0; i < COUNT; i++) {
		*next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	*next = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	install_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

CM_ROLE(service)
{
	void *pinned;

	cm_open(0);
	end_at_unusual_calls();
	OK(cuMemFree_v2(cm_get(3 * MIB)));
	OK(cuMemHostAlloc(&pinned, MIB, 0));
	OK(cuMemFreeHost(pinned));
}

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long all, resident;

	CM_MUST(file && fscanf(file, "%llu %llu", &all, &resident) == 2);
	(void)fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* As a program does that must never wait for a page; the tables have room for far more than they
 * hold. */
CM_ROLE(locked_memory)
{
	uint64_t before;

	cm_open(0);
	CM_MUST(!mlockall(MCL_FUTURE));
	before = resident_bytes();
	errno = 0;
	OK(cuMemFree_v2(cm_get(MIB)));
	CM_MUST(!errno);
	CM_MUST(resident_bytes() < before + 8 * MIB);
}

/* The first file that the program opens gets the number of the error output, which is closed. */
CM_ROLE(closed_stderr)
{
	char path[PATH_MAX];
	struct stat file;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/data", getenv("REGIONS"));
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	CM_MUST(fd == STDERR_FILENO);
	CM_MUST(!unlink(path));
	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	CM_MUST(!fstat(fd, &file) && file.st_size == 0);
}

/* The loader leaves the library out of a program that has another user's rights. */
CM_ROLE(set_user_id)
{
	CM_MUST(!system("cd \"$REGIONS\" && ./other_user"));
}

static void *alloc_and_free(void *arg)
{
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(arg));
	OK(cuMemAlloc_v2(&addr, MIB));
	OK(cuMemFree_v2(addr));
	return NULL;
}

/* The first request of the process comes from a thread that has not much more stack than it
 * must. */
CM_ROLE(small_stack)
{
	const size_t bytes = 24 * UINT64_C(1024);
	CUcontext ctx = cm_open(0);
	pthread_attr_t attr;
	pthread_t thread;

	CM_MUST(!pthread_attr_init(&attr));
	CM_MUST(!pthread_attr_setstacksize(&attr, bytes));
	CM_MUST(!pthread_create(&thread, &attr, alloc_and_free, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	CM_MUST(!pthread_attr_destroy(&attr));
}

/* ---- the tests ---- */

CM_PLAY_EVERYWHERE(a_thread_with_little_stack_starts_the_library, "small_stack", NULL)

static void must_say(void **state, const char *role, const char *conf, const char *text)
{
	struct cm_play *play = *state;

	cm_play_under(play, role, conf, NULL, NULL);
	if (!strstr(play->said, text))
		fail_msg("not said: %s; but: %s", text, play->said);
}

CM_PLAY_TEST(a_process_without_files_is_served)
{
	must_say(state, "no_files", "", "(Too many open files) and no shared memory");
}

CM_PLAY_TEST(a_process_that_may_make_no_memory_files_is_served)
{
	must_say(state, "no_memfd", "region_dir:/nonexistent", "and no shared memory");
}

CM_PLAY_TEST(a_service_does_nothing_that_systemd_forbids_it)
{
	cm_play(state, "service", "", NULL);
	cm_play(state, "service", "expandable_segments:on,stacks:all", NULL);
	cm_play(state, "service", "region_dir:/nonexistent,log:off", NULL);
}

CM_PLAY_TEST(locked_memory_is_not_filled_with_empty_tables)
{
	const size_t bytes = (size_t)4096 * MIB;
	void *probe;

	if (SANITIZED)
		cm_skip("a sanitizer locks no memory");
	probe = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	if (probe == MAP_FAILED)
		cm_skip("so much memory may not be locked");
	(void)munmap(probe, bytes);
	cm_play(state, "locked_memory", "", NULL);
}

static void close_stderr(void)
{
	(void)close(STDERR_FILENO);
}

CM_PLAY_TEST(nothing_is_written_where_the_error_output_was)
{
	struct cm_play *play = *state;

	cm_play_under(play, "closed_stderr", "nonsense:1,log:info", NULL, close_stderr);
}

/* The program is a copy of the one that says whether the library is there. */
CM_PLAY_TEST(a_set_user_id_program_is_left_alone)
{
	struct cm_play *play = *state;

	if (SANITIZED)
		cm_skip("a sanitizer can't look at a process with another user's rights");
	if (geteuid() != 0)
		cm_skip("only root can make a program of another user's");
	if (cm_play_system(
		    play,
		    "cp \"$ALONE\" other_user && chown 65534 other_user && chmod 4755 other_user"))
		cm_skip("no owners in this folder");
	cm_play(state, "set_user_id", "", NULL);
	assert_int_equal(cm_play_system(play, "rm other_user"), 0);
}
