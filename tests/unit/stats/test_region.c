/* SPDX-License-Identifier: MIT */
#include "stats/region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stats/region_mode.h"
#include "stats/start_time.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/region_fixture.h"

#define SLOW_US  100000
#define MIB      UINT64_C(1048576)
#define BYTES_4G (UINT64_C(4) << 30)

/* What the kernel refuses, and how long it takes. */
static int64_t space_left; /* bytes; negative: any number */
static int fallocate_error;
static sem_t *slow;    /* posted at the next call, which then takes a tenth of a second */
static int interrupts; /* how many more calls a signal interrupts; negative: each */
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

	if (fallocate_error)
		return fallocate_error;
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
	fallocate_error = 0;
	slow = NULL;
	interrupts = 0;
	no_memfd = false;
	memset(&file_system, 0, sizeof(file_system));
	return cm_region_fixture_init(state);
}

static void a_region_says_whose_it_is(void **state)
{
	struct cm_region_fixture *f = *state;
	struct cm_header *header;
	char path[300];
	uint64_t start;
	struct stat st;

	assert_int_equal(cm_region_fixture_create(f, 100), 0);
	header = f->region->header;
	assert_int_equal(f->region->backing, CM_BACKING_FILE);
	assert_int_equal(f->region->error, 0);
	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &start), 0);
	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.%llu", f->dir, (unsigned)geteuid(),
		       (unsigned)getpid(), (unsigned long long)start);
	assert_string_equal(f->region->path, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | CM_REGION_MODE);
	assert_int_equal(st.st_size, header->file_bytes);
	assert_true(header->magic == CM_LAYOUT_MAGIC);
	assert_int_equal(header->major, CM_LAYOUT_MAJOR);
	assert_int_equal(header->minor, CM_LAYOUT_MINOR);
	assert_int_equal(header->header_bytes, sizeof(*header));
	assert_int_equal(header->pid, getpid());
	assert_int_equal(header->uid, geteuid());
	assert_int_equal(header->start_time, start);
	assert_int_equal(header->state, CM_REGION_STARTING);
	assert_int_equal(header->stat_count, CM_STAT_COUNT);
	assert_int_equal(header->scalar_count, CM_SCALAR_COUNT);
	assert_string_equal(header->version, "1.2.3");
	assert_string_equal(header->comm, "test_region");
	assert_non_null(strstr(header->cmdline, "test_region"));
}

static void tables_follow_each_other_and_lie_in_the_file(void **state)
{
	struct cm_region_fixture *f = *state;
	const struct cm_table_row *table;
	uint64_t end = sizeof(struct cm_header);
	int i;

	assert_int_equal(cm_region_fixture_create(f, 100), 0);
	table = f->region->header->table;
	for (i = 0; i < CM_TABLE_COUNT; i++) {
		assert_true(table[i].offset >= end && table[i].offset % 4096 == 0);
		assert_int_equal(table[i].rows, 0);
		end = table[i].offset + (uint64_t)table[i].stride * table[i].capacity;
	}
	assert_true(end <= f->region->header->file_bytes);
	assert_int_equal(table[CM_TABLE_EVENT].ring, 128); /* the next power of two */
	assert_int_equal(table[CM_TABLE_EVENT].capacity, 128 * CM_DEVICES_MAX);
	assert_int_equal(table[CM_TABLE_HOST_EVENT].ring, 128);
	assert_int_equal(table[CM_TABLE_DEVICE].stride, 4096);
}

/* So that recording can begin later. */
static void without_events_there_is_a_ring_of_the_usual_size(void **state)
{
	struct cm_region_fixture *f = *state;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(f->region->header->record.events, 0);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].ring, 65536);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].rows, 0);
}

static void tables_are_as_large_as_they_are_asked_for(void **state)
{
	struct cm_region_fixture *f = *state;
	const struct cm_region_params params = {
		.dir = f->dir, .events = 1, .stack_bytes = 100 * 8, .text_bytes = 77};

	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_int_equal(f->region->header->table[CM_TABLE_STACK].capacity, 100);
	assert_int_equal(f->region->header->table[CM_TABLE_TEXT].capacity, 77);
	assert_int_equal(f->region->header->record.events, 1);
}

static uint64_t blocks_of(const struct cm_region_fixture *f)
{
	struct stat st;

	return stat(f->region->path, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

static void a_committed_row_has_memory_behind_it(void **state)
{
	struct cm_region_fixture *f = *state;
	struct cm_block *last;
	uint64_t before;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	before = blocks_of(f);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 5000), 0);
	assert_true(blocks_of(f) - before >= 5000 * sizeof(struct cm_block));
	assert_int_equal(f->region->header->table[CM_TABLE_BLOCK].rows, 5000);
	last = cm_region_row(f->region, CM_TABLE_BLOCK, 4999);
	assert_int_equal(last->size, 0);
	last->size = 1;
	/* Fewer rows take nothing away. */
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 10), 0);
	assert_int_equal(f->region->header->table[CM_TABLE_BLOCK].rows, 5000);
	assert_int_equal(last->size, 1);
}

/* The kernel's table of the process's own pages: bit 63 of an entry is set where one is mapped. */
static bool is_mapped(const void *at)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)at / 4096 * 8)), 8);
	(void)close(fd);
	return entry >> 63;
}

static bool can_map_pages(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can;

	assert_ptr_not_equal(page, MAP_FAILED);
	can = !madvise(page, 4096, 23); /* MADV_POPULATE_WRITE */
	(void)munmap(page, 4096);
	return can;
}

static void committed_rows_are_written_without_a_fault(void **state)
{
	const struct cm_region_params params = {.backing = CM_BACKING_MEMFD};
	struct cm_region_fixture *f = *state;
	uint32_t row;

	if (!can_map_pages() || access("/proc/self/pagemap", R_OK))
		cm_skip("the kernel maps no pages ahead, or does not say so");
	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_false(is_mapped(cm_region_row(f->region, CM_TABLE_BLOCK, 0)));
	errno = 7;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 5000), 0);
	assert_int_equal(errno, 7);
	for (row = 0; row < 5000; row++)
		assert_true(is_mapped(cm_region_row(f->region, CM_TABLE_BLOCK, row)));
}

/* As the kernel lists the process's mappings: a program that tried would be killed. */
static bool can_be_touched(const void *at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[PATH_MAX + 100], may[5] = "";
	bool found = false;

	assert_non_null(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %4s", &from, &to, may) == 3 &&
			(uintptr_t)at >= from && (uintptr_t)at < to;
	(void)fclose(maps);
	assert_true(found);
	assert_true(!strncmp(may, "rw", 2) || !strncmp(may, "--", 2));
	return may[0] == 'r';
}

static void *commit_blocks(void *region)
{
	return cm_region_commit(region, CM_TABLE_BLOCK, 1000) ? region : NULL;
}

/* Under real-time scheduling a thread that tries again and again can keep the other one from ever
 * ending its commit. */
static void a_thread_that_waits_for_a_commit_sleeps(void **state)
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

static void what_is_not_committed_cannot_be_touched(void **state)
{
	struct cm_region_fixture *f = *state;
	struct cm_region_params params = {.dir = f->dir};
	const struct cm_block *last;

	for (; params.backing <= CM_BACKING_PRIVATE; params.backing++) {
		assert_int_equal(cm_region_create(&params, &f->region), 0);
		assert_int_equal(f->region->backing, params.backing);
		assert_true(can_be_touched(f->region->header));
		assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100000), 0);
		assert_true(can_be_touched(cm_region_row(f->region, CM_TABLE_BLOCK, 0)));
		assert_true(can_be_touched(cm_region_row(f->region, CM_TABLE_BLOCK, 99999)));
		/* What shares the last pages may be. */
		last = cm_region_row(f->region, CM_TABLE_BLOCK, 99999);
		assert_false(can_be_touched(last + 2 * 65536 / sizeof(*last)));
		cm_region_remove(f->region);
		cm_region_abandon(f->region);
		f->region = NULL;
	}
}

/* A child, as tests that come behind are better off without. */
static void memory_that_is_locked_is_not_filled(void **state)
{
	struct cm_region_fixture *f = *state;
	int status;
	pid_t child;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	child = fork();
	if (!child)
		_exit(mlockall(MCL_CURRENT) ? 2 : blocks_of(f) > 8 << 20);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		cm_skip("this user may not lock so much memory");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_table_is_bounded_by_its_capacity(void **state)
{
	struct cm_region_fixture *f = *state;
	uint32_t capacity;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	capacity = f->region->header->table[CM_TABLE_DEVICE].capacity;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, capacity), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, capacity + 1), -ENOSPC);
	assert_int_equal(f->region->header->table[CM_TABLE_DEVICE].rows, capacity);
	((struct cm_device_row *)cm_region_row(f->region, CM_TABLE_DEVICE, capacity - 1))->seq = 2;
}

static void a_full_file_system_is_an_error_and_keeps_what_is_there(void **state)
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
static void a_signal_costs_neither_the_file_nor_rows(void **state)
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

static void where_no_file_can_be_a_memfd_serves(void **state)
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

static void a_full_file_system_leaves_no_file_behind(void **state)
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
static void a_file_system_that_is_nearly_full_gets_no_file(void **state)
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
static void events_leave_half_of_a_small_file_system(void **state)
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

static void without_memfd_private_memory_serves(void **state)
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

/* Its user could not read it otherwise, nor a sweep remove it. */
static void no_umask_takes_the_file_from_its_user(void **state)
{
	struct cm_region_fixture *f = *state;
	const mode_t before = umask(0777);
	struct stat st;
	int err;

	err = cm_region_fixture_create(f, 0);
	(void)umask(before);
	assert_int_equal(err, 0);
	assert_int_equal(stat(f->region->path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | CM_REGION_MODE);
}

/* If it could, the next access would be a SIGBUS. */
static void nobody_can_cut_a_memfd_short(void **state)
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

/* Mappings of the region that a core dump contains. */
static unsigned count_dumped(const struct cm_region *region)
{
	const uintptr_t from = (uintptr_t)region->header, to = from + region->map_bytes;
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long first, start = 0, end = 0;
	char line[512];
	unsigned n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
		if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
			start = first;
		if (!strncmp(line, "VmFlags:", 8) && start < to && from < end)
			n += !strstr(line, " dd");
	}
	(void)fclose(file);
	return n;
}

/* A memfd would be in it with all its holes, which become memory at that moment: 850 MiB. */
static void no_region_is_in_a_core_dump(void **state)
{
	struct cm_region_params params = {.backing = CM_BACKING_FILE};
	struct cm_region_fixture *f = *state;

	params.dir = f->dir;
	for (; params.backing <= CM_BACKING_PRIVATE; params.backing++) {
		assert_int_equal(cm_region_create(&params, &f->region), 0);
		assert_int_equal(f->region->backing, params.backing);
		assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100000), 0);
		assert_int_equal(count_dumped(f->region), 0);
		cm_region_remove(f->region);
		cm_region_abandon(f->region);
		f->region = NULL;
	}
}

/* A file longer than the limit would be a signal. */
static void a_limit_on_file_sizes_is_respected(void **state)
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

static void a_leftover_of_the_same_name_is_replaced(void **state)
{
	struct cm_region_fixture *f = *state;
	char path[sizeof(f->region->path)];
	int fd;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	memcpy(path, f->region->path, sizeof(path));
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	assert_int_equal(write(fd, "old", 3), 3);
	(void)close(fd);
	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_string_equal(f->region->path, path);
	assert_true(f->region->header->magic == CM_LAYOUT_MAGIC);
}

static void a_link_that_lies_in_wait_is_not_followed(void **state)
{
	struct cm_region_fixture *f = *state;
	char path[sizeof(f->region->path)], target[80];
	struct stat st;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	memcpy(path, f->region->path, sizeof(path));
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	(void)snprintf(target, sizeof(target), "%s/target", f->dir);
	assert_int_equal(symlink("target", path), 0);
	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(lstat(f->region->path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(access(target, F_OK), -1);
}

static void removing_marks_the_region_and_keeps_the_mapping(void **state)
{
	struct cm_region_fixture *f = *state;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	cm_region_remove(f->region);
	assert_int_equal(cm_region_fixture_files(f), 0);
	assert_int_equal(f->region->header->state, CM_REGION_EXITED);
	f->region->header->tick_last = 1;
}

static void a_child_that_abandons_leaves_its_parents_file(void **state)
{
	struct cm_region_fixture *f = *state;
	char path[PATH_MAX];
	int status;
	pid_t child;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	(void)snprintf(path, sizeof(path), "%s", f->region->path);
	child = fork();
	if (!child) {
		cm_region_abandon(f->region);
		_exit(access(path, F_OK) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(cm_region_fixture_files(f), 1);
}

int main(void)
{
#define REGION(test) cmocka_unit_test_setup_teardown(test, setup, cm_region_fixture_fini)
	const struct CMUnitTest tests[] = {
		REGION(a_region_says_whose_it_is),
		REGION(tables_follow_each_other_and_lie_in_the_file),
		REGION(without_events_there_is_a_ring_of_the_usual_size),
		REGION(tables_are_as_large_as_they_are_asked_for),
		REGION(a_committed_row_has_memory_behind_it),
		REGION(committed_rows_are_written_without_a_fault),
		REGION(a_thread_that_waits_for_a_commit_sleeps),
		REGION(what_is_not_committed_cannot_be_touched),
		REGION(memory_that_is_locked_is_not_filled),
		REGION(a_table_is_bounded_by_its_capacity),
		REGION(a_full_file_system_is_an_error_and_keeps_what_is_there),
		REGION(a_signal_costs_neither_the_file_nor_rows),
		REGION(where_no_file_can_be_a_memfd_serves),
		REGION(a_full_file_system_leaves_no_file_behind),
		REGION(a_file_system_that_is_nearly_full_gets_no_file),
		REGION(events_leave_half_of_a_small_file_system),
		REGION(without_memfd_private_memory_serves),
		REGION(no_umask_takes_the_file_from_its_user),
		REGION(nobody_can_cut_a_memfd_short),
		REGION(no_region_is_in_a_core_dump),
		REGION(a_limit_on_file_sizes_is_respected),
		REGION(a_leftover_of_the_same_name_is_replaced),
		REGION(a_link_that_lies_in_wait_is_not_followed),
		REGION(removing_marks_the_region_and_keeps_the_mapping),
		REGION(a_child_that_abandons_leaves_its_parents_file),
	};

	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
