/* SPDX-License-Identifier: MIT */
/*
 * Where the memory of a region comes from (a file, a memfd or private memory), and what a full file
 * system, a limit or a signal does to it.
 */
#include "stats/region.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/region_fixture.h"

#define SLOW_US  100000
#define MIB      UINT64_C(1048576)
#define BYTES_4G (UINT64_C(4) << 30)

/* What the kernel refuses, and how long it takes. */
static int64_t space_left; /* bytes; negative: any number */
static sem_t *slow;        /* posted at the next call, which then takes a tenth of a second */
static int interrupts;     /* how many more calls a signal interrupts; negative: each */
static bool no_memfd;
static struct statfs file_system; /* what is told of every file's; no blocks: it has no limit */

int __real_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __wrap_fstatfs64(int fd, struct statfs *ret_system);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes)
{
	sem_t *told = slow;

	slow = NULL;
	if (told) {
		(void)sem_post(told);
		(void)usleep(SLOW_US);
	}
	if (interrupts) {
		interrupts--;
		return EINTR;
	}
	if (space_left >= 0 && bytes > space_left)
		return ENOSPC;
	if (space_left >= 0)
		space_left -= bytes;
	return __real_posix_fallocate64(fd, offset, bytes);
}

int __wrap_fstatfs64(int fd, struct statfs *ret_system)
{
	(void)fd;
	*ret_system = file_system;
	return 0;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (no_memfd) {
		errno = ENOSYS;
		return -1;
	}
	return __real_memfd_create(name, flags);
}

static int setup(void **state)
{
	space_left = -1;
	slow = NULL;
	interrupts = 0;
	no_memfd = false;
	memset(&file_system, 0, sizeof(file_system));
	return cm_region_fixture_init(state);
}

static void *commit_blocks(void *region)
{
	return cm_region_commit(region, CM_TABLE_BLOCK, 1000) ? region : NULL;
}

#define REGION(test) CM_TEST_WITH(test, setup, cm_region_fixture_fini)

/* Under real-time scheduling a thread that tries again and again can keep the other one from ever
 * ending its commit. */
REGION(a_thread_that_waits_for_a_commit_sleeps)
{
	struct cm_region_fixture *f = *state;
	struct timespec before, after;
	pthread_t thread;
	void *result;
	sem_t begun;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(sem_init(&begun, 0, 0), 0);
	slow = &begun;
	assert_int_equal(pthread_create(&thread, NULL, commit_blocks, f->region), 0);
	assert_int_equal(sem_wait(&begun), 0);
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 10), 0);
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000000 +
			    (after.tv_nsec - before.tv_nsec) / 1000 <
		    SLOW_US / 10);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	(void)sem_destroy(&begun);
}

REGION(a_full_file_system_is_an_error_and_keeps_what_is_there)
{
	struct cm_region_fixture *f = *state;
	struct cm_segment *row;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 10), 0);
	row = cm_region_row(f->region, CM_TABLE_SEGMENT, 9);
	row->size = 7;
	space_left = 0;
	/* What was taken ahead still serves; then there is an end. */
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 20), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 100000), -ENOSPC);
	assert_int_equal(f->region->header->table[CM_TABLE_SEGMENT].rows, 20);
	assert_int_equal(row->size, 7);
	space_left = -1;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 100000), 0);
}

/* Older kernels answer EINTR; a program with a timer would lose the library to it. */
REGION(a_signal_costs_neither_the_file_nor_rows)
{
	struct cm_region_fixture *f = *state;

	interrupts = 3;
	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(f->region->backing, CM_BACKING_FILE);
	assert_int_equal(f->region->error, 0);
	interrupts = 3;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 10), 0);
	interrupts = -1;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 100000), -EINTR);
	interrupts = 0;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 100000), 0);
}

REGION(where_no_file_can_be_a_memfd_serves)
{
	struct cm_region_fixture *f = *state;
	const struct cm_region_params params = {.dir = "no/such/dir"};

	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_int_equal(f->region->backing, CM_BACKING_MEMFD);
	assert_int_equal(f->region->error, -ENOENT);
	assert_string_equal(f->region->path, "");
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100), 0);
	assert_true(f->region->header->magic == CM_LAYOUT_MAGIC);
}

REGION(a_full_file_system_leaves_no_file_behind)
{
	struct cm_region_fixture *f = *state;

	space_left = 0;
	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(f->region->backing, CM_BACKING_PRIVATE); /* a memfd is full as well */
	assert_int_equal(f->region->error, -ENOSPC);
	assert_int_equal(cm_region_fixture_files(f), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100000), 0);
	((struct cm_block *)cm_region_row(f->region, CM_TABLE_BLOCK, 99999))->size = 1;
}

/* With less room than its tables soon take, a process would have no events, or no cache. */
REGION(a_file_system_that_is_nearly_full_gets_no_file)
{
	static const struct {
		uint64_t total;
		uint32_t events;
		uint64_t room;
	} cases[] = {
		{BYTES_4G, 0, (32 + 2) * MIB},
		{BYTES_4G, 1, (32 + 2) * MIB + 2 * 4096},
		{BYTES_4G, 1 << 16, (32 + 2) * MIB + (2 << 16) * sizeof(struct cm_event)},
		{64 * MIB, 0, (32 + 2) * MIB},
		{40 * MIB, 0, (20 + 2) * MIB},
	};
	struct cm_region_fixture *f = *state;
	unsigned missing;
	size_t i;

	file_system.f_bsize = 4096;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		file_system.f_blocks = cases[i].total / 4096;
		for (missing = 0; missing < 2; missing++) {
			file_system.f_bavail = cases[i].room / 4096 - missing;
			assert_int_equal(cm_region_fixture_create(f, cases[i].events), 0);
			assert_int_equal(f->region->backing,
					 missing ? CM_BACKING_MEMFD : CM_BACKING_FILE);
			assert_int_equal(f->region->error, missing ? -ENOSPC : 0);
			assert_int_equal(cm_region_fixture_files(f), !missing);
			cm_region_remove(f->region);
			cm_region_abandon(f->region);
			f->region = NULL;
		}
	}
}

/* Eight devices would take nearly half of a container's /dev/shm, sixteen nearly all. */
REGION(events_leave_half_of_a_small_file_system)
{
	struct cm_region_fixture *f = *state;
	const uint64_t ring = (UINT64_C(1) << 16) * sizeof(struct cm_event);
	const uint32_t rows = 1 << 16;

	file_system.f_bsize = 4096;
	file_system.f_blocks = file_system.f_bavail = 64 * MIB / 4096;
	assert_int_equal(cm_region_fixture_create(f, rows), 0);
	file_system.f_bavail = (32 * MIB + ring) / 4096 - 1;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_EVENT, rows), -ENOSPC);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_HOST_EVENT, rows), -ENOSPC);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, rows), 0);
	file_system.f_bavail++;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_EVENT, rows), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_HOST_EVENT, rows), 0);
}

REGION(without_memfd_private_memory_serves)
{
	struct cm_region_fixture *f = *state;
	const struct cm_region_params params = {.backing = CM_BACKING_MEMFD};

	no_memfd = true;
	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_int_equal(f->region->backing, CM_BACKING_PRIVATE);
	assert_int_equal(f->region->error, -ENOSYS);
}

/* The path of this process's memfd. */
static void find_memfd(char path[PATH_MAX])
{
	char target[PATH_MAX];
	ssize_t n;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		(void)snprintf(path, PATH_MAX, "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (!strncmp(target, "/memfd:cudamem", 14))
			return;
	}
	fail();
}

/* If it could, the next access would be a SIGBUS. */
REGION(nobody_can_cut_a_memfd_short)
{
	const struct cm_region_params params = {.backing = CM_BACKING_MEMFD};
	struct cm_region_fixture *f = *state;
	char path[PATH_MAX];

	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_int_equal(f->region->backing, CM_BACKING_MEMFD);
	find_memfd(path);
	assert_int_equal(truncate(path, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100000), 0);
	assert_int_equal(((struct cm_block *)cm_region_row(f->region, CM_TABLE_BLOCK, 99999))->addr,
			 0);
}

/* A file longer than the limit would be a signal. */
REGION(a_limit_on_file_sizes_is_respected)
{
	struct cm_region_fixture *f = *state;
	struct rlimit limit, small;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(f->region->backing, CM_BACKING_PRIVATE);
	assert_int_equal(f->region->error, -EFBIG);
	assert_int_equal(cm_region_fixture_files(f), 0);
}
