/* SPDX-License-Identifier: MIT */
/*
 * Regions that are made while others are swept: stats/region.c and region_sweep.c over the
 * processes and files of kernel.h, in every order of their system calls and with death before any
 * of them. A live process keeps its region's name, nobody else's stays for ever, and no file stays
 * writable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "stats/region.h"
#include "stats/region_lock.h"
#include "stats/region_mode.h"
#include "stats/region_sweep.h"
#include "stats/start_time.h"
#include "tests/model/kernel.h"
#include "tests/model/model.h"

/* clang-format off: a table */
#define open(...)            kernel_open(__VA_ARGS__)
#define openat(...)          kernel_openat(__VA_ARGS__)
#define close(fd)            kernel_close(fd)
#define read(fd, to, n)      kernel_read(fd, to, n)
#define pread(fd, to, n, at) ((void)(fd), (void)(to), 0) /* no header */
#define pwrite(fd, ...)      ((void)(fd), 0)
#define fcntl(...)           kernel_fcntl(__VA_ARGS__)
#define unlink(path)         kernel_unlink(path)
#define unlinkat(...)        kernel_unlinkat(__VA_ARGS__)
#define ftruncate(fd, n)     kernel_ftruncate(fd, n)
#define posix_fallocate(...) kernel_posix_fallocate(__VA_ARGS__)
#define fchmod(fd, mode)     kernel_fchmod(fd, mode)
#define fstat(fd, to)        kernel_fstat(fd, to)
#define fstatfs(fd, to)      ((void)(fd), (void)(to), -1)
#define fstatat(...)         kernel_fstatat(__VA_ARGS__)
#define stat(path, to)       kernel_stat(path, to)
#define memfd_create(...)    kernel_memfd_create(__VA_ARGS__)
#define mmap(...)            kernel_mmap(__VA_ARGS__)
#define munmap(at, n)        kernel_munmap(at, n)
#define madvise(at, n, how)  ((void)(at), (void)(n), 0)
#define mprotect(at, n, to)  ((void)(at), (void)(n), 0)
#define opendir(path)        kernel_opendir(path)
#define readdir(stream)      kernel_readdir(stream)
#define closedir(stream)     kernel_closedir(stream)
#define dirfd(stream)        kernel_dirfd(stream)
#define clock_gettime(...)   kernel_clock_gettime(__VA_ARGS__)
#define getrlimit(...)       kernel_getrlimit(__VA_ARGS__)
#define getpid()             kernel_getpid()
#define geteuid()            kernel_geteuid()
#define calloc(n, bytes)     kernel_calloc(n, bytes)
#define free(at)             kernel_free(at)
/* clang-format on */
/* NOLINTBEGIN(bugprone-suspicious-include) */
#include "stats/region.c"
#include "stats/region_lock.c"
#include "stats/region_mode.c"
#include "stats/region_sweep.c"
#include "stats/start_time.c"
/* NOLINTEND(bugprone-suspicious-include) */

/* Who takes part; each in a thread, and one for the time. */
enum { FIRST, SECOND, TIME, LATER, PROCESSES };

static struct cm_region *region[PROCESSES];
static int swept[PROCESSES];

static struct kernel_process cast[PROCESSES] = {
	[FIRST] = {.pid = 10, .start = 100},
	[SECOND] = {.pid = 11, .start = 101},
	[TIME] = {.pid = 12, .start = 102},
	[LATER] = {.pid = 13, .start = 103},
};

static void set_stage(const struct kernel_process *first)
{
	struct kernel_process process[PROCESSES];

	_Static_assert(sizeof(struct cm_header) <= 65536, "a map of the model holds the header");
	memcpy(process, cast, sizeof(process));
	process[FIRST] = *first;
	kernel_init(process, PROCESSES);
	memset(region, 0, sizeof(region));
	memset(swept, 0, sizeof(swept));
}

static void setup(void)
{
	set_stage(&cast[FIRST]);
	kernel_leave_file(5, 50);
}

static void setup_namespaces(void)
{
	set_stage(&(struct kernel_process){.pid = 10, .start = 100, .pid_namespace = 1});
	kernel_leave_file(5, 50);
}

static void setup_same_name(void)
{
	set_stage(&(struct kernel_process){.pid = 11, .start = 101, .pid_namespace = 1});
}

static void setup_mortal(void)
{
	set_stage(&(struct kernel_process){.pid = 10, .start = 100, .mortal = true});
}

/* One that is gone had the same number. */
static void setup_reused(void)
{
	set_stage(&cast[FIRST]);
	kernel_leave_file(10, 50);
}

static void setup_hidden_locks(void)
{
	setup_namespaces();
	kernel_hides_locks = true;
}

static void setup_granted_locks(void)
{
	setup_namespaces();
	kernel_grants_locks = true;
}

static void create(void)
{
	const struct cm_region_params params = {.dir = KERNEL_DIR};
	struct cm_region *made = NULL;

	MODEL_MUST(!cm_region_create(&params, &made));
	region[model_thread() - 1] = made;
}

static void begin(void)
{
	(void)KERNEL_LIVES(create());
}

/* Away with all that is nobody's. */
static void sweep(void)
{
	swept[model_thread() - 1] = cm_region_sweep(KERNEL_DIR, NULL);
}

/* As the library begins. */
static void sweep_and_begin(void)
{
	sweep();
	create();
}

/* A program that replaces itself keeps its number and its start, and so its region's name. */
static void begin_twice(void)
{
	create();
	kernel_exec();
	create();
}

static void pass(void)
{
	kernel_pass(2);
}

/* A live process's region has its name; `any`: or is found by way of /proc. */
static unsigned judge(bool any)
{
	unsigned named = 0, i;

	for (i = 0; i < LATER; i++) {
		if (!region[i] || kernel_process(i)->dead)
			continue;
		if (any && region[i]->backing == CM_BACKING_MEMFD)
			continue;
		named++;
		if (region[i]->backing != CM_BACKING_FILE || !kernel_has(region[i]->path))
			model_fail("a live process has no name");
		if (!kernel_has_held(region[i]->path, i))
			model_fail("a live process's name is another's");
	}
	return named;
}

static void finish_as(bool any)
{
	unsigned named = judge(any);

	kernel_pass(2);
	kernel_act_as(LATER);
	(void)cm_region_sweep(KERNEL_DIR, NULL);
	(void)judge(any);
	if (kernel_names() != named)
		model_fail("something is left behind");
	if (kernel_writable())
		model_fail("a file stays writable");
}

static void finish(void)
{
	finish_as(false);
}

static void finish_any(void)
{
	finish_as(true);
}

static void swept_once(void)
{
	MODEL_MUST(swept[FIRST] + swept[SECOND] == 1);
	finish_as(false);
}

int main(void)
{
	static const struct model_scenario scenarios[] = {
		{"one begins while another sweeps",
		 setup,
		 {begin, sweep_and_begin, pass},
		 finish,
		 3,
		 NULL},
		{"in another namespace",
		 setup_namespaces,
		 {begin, sweep_and_begin, pass},
		 finish_any,
		 3,
		 NULL},
		{"death at any call",
		 setup_mortal,
		 {begin, sweep_and_begin, pass},
		 finish,
		 3,
		 NULL},
		{"a number that is used again",
		 setup_reused,
		 {begin, sweep_and_begin, pass},
		 finish,
		 3,
		 NULL},
		{"a program that replaces itself, seen from elsewhere",
		 setup_namespaces,
		 {begin_twice, sweep_and_begin, pass},
		 finish_any,
		 3,
		 NULL},
		{"one name in two namespaces",
		 setup_same_name,
		 {begin, sweep_and_begin, pass},
		 finish_any,
		 3,
		 NULL},
		{"two that sweep", setup, {sweep, sweep, pass}, swept_once, 3, NULL},
		{"locks that nobody sees",
		 setup_hidden_locks,
		 {begin, sweep_and_begin, pass},
		 finish_any,
		 3,
		 "a live process has no name"},
		{"locks that everybody gets",
		 setup_granted_locks,
		 {begin_twice, sweep_and_begin, pass},
		 finish_any,
		 3,
		 "a live process has no name"},
	};

	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
