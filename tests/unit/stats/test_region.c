/* SPDX-License-Identifier: MIT */
#include "stats/region.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#include "tests/unit/cmocka_all.h"

/* What the kernel refuses. */
static int64_t space_left; /* bytes; negative: any number */
static int fallocate_error;
static int interrupts; /* how many more calls a signal interrupts; negative: each */
static bool no_memfd, no_unlink;
static struct statfs file_system; /* what is told of every file's; no blocks: it has no limit */

int __real_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __wrap_fstatfs64(int fd, struct statfs *ret_system);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes)
{
	if (fallocate_error)
		return fallocate_error;
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

int __wrap_unlink(const char *path)
{
	if (no_unlink) {
		errno = EPERM;
		return -1;
	}
	return __real_unlink(path);
}

struct fixture {
	char dir[40];
	struct cm_region *region;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	space_left = -1;
	fallocate_error = 0;
	interrupts = 0;
	no_memfd = false;
	memset(&file_system, 0, sizeof(file_system));
	(void)snprintf(f->dir, sizeof(f->dir), "cudamem-region-XXXXXX");
	*state = f;
	return mkdtemp(f->dir) ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char path[400];
	struct dirent *entry;
	DIR *dir = opendir(f->dir);

	if (f->region) {
		cm_region_remove(f->region);
		cm_region_abandon(f->region);
	}
	while (dir && (entry = readdir(dir))) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->dir, entry->d_name);
		(void)unlink(path);
		(void)rmdir(path);
	}
	if (dir)
		(void)closedir(dir);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static int create(struct fixture *f, uint32_t events)
{
	const struct cm_region_params params = {
		.dir = f->dir, .version = "1.2.3", .events = events};

	return cm_region_create(&params, &f->region);
}

static int count_files(const struct fixture *f)
{
	struct dirent *entry;
	DIR *dir = opendir(f->dir);
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		(void)closedir(dir);
	return n;
}

static void a_region_says_whose_it_is(void **state)
{
	struct fixture *f = *state;
	struct cm_header *header;
	char path[300];
	uint64_t start;
	struct stat st;

	assert_int_equal(create(f, 100), 0);
	header = f->region->header;
	assert_int_equal(f->region->backing, CM_BACKING_FILE);
	assert_int_equal(f->region->error, 0);
	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &start), 0);
	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.%llu", f->dir, (unsigned)geteuid(),
		       (unsigned)getpid(), (unsigned long long)start);
	assert_string_equal(f->region->path, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
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
	struct fixture *f = *state;
	const struct cm_table_row *table;
	uint64_t end = sizeof(struct cm_header);
	int i;

	assert_int_equal(create(f, 100), 0);
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
	struct fixture *f = *state;

	assert_int_equal(create(f, 0), 0);
	assert_int_equal(f->region->header->record.events, 0);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].ring, 65536);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].rows, 0);
}

static void tables_are_as_large_as_they_are_asked_for(void **state)
{
	struct fixture *f = *state;
	const struct cm_region_params params = {
		.dir = f->dir, .events = 1, .stack_bytes = 100 * 8, .text_bytes = 77};

	assert_int_equal(cm_region_create(&params, &f->region), 0);
	assert_int_equal(f->region->header->table[CM_TABLE_STACK].capacity, 100);
	assert_int_equal(f->region->header->table[CM_TABLE_TEXT].capacity, 77);
	assert_int_equal(f->region->header->record.events, 1);
}

static uint64_t blocks_of(const struct fixture *f)
{
	struct stat st;

	return stat(f->region->path, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

static void a_committed_row_has_memory_behind_it(void **state)
{
	struct fixture *f = *state;
	struct cm_block *last;
	uint64_t before;

	assert_int_equal(create(f, 0), 0);
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
	struct fixture *f = *state;
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

static void what_is_not_committed_cannot_be_touched(void **state)
{
	struct fixture *f = *state;
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
	struct fixture *f = *state;
	int status;
	pid_t child;

	assert_int_equal(create(f, 0), 0);
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
	struct fixture *f = *state;
	uint32_t capacity;

	assert_int_equal(create(f, 0), 0);
	capacity = f->region->header->table[CM_TABLE_DEVICE].capacity;
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, capacity), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, capacity + 1), -ENOSPC);
	assert_int_equal(f->region->header->table[CM_TABLE_DEVICE].rows, capacity);
	((struct cm_device_row *)cm_region_row(f->region, CM_TABLE_DEVICE, capacity - 1))->seq = 2;
}

static void a_full_file_system_is_an_error_and_keeps_what_is_there(void **state)
{
	struct fixture *f = *state;
	struct cm_segment *row;

	assert_int_equal(create(f, 0), 0);
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
	struct fixture *f = *state;

	interrupts = 3;
	assert_int_equal(create(f, 0), 0);
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
	struct fixture *f = *state;
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
	struct fixture *f = *state;

	space_left = 0;
	assert_int_equal(create(f, 0), 0);
	assert_int_equal(f->region->backing, CM_BACKING_PRIVATE); /* a memfd is full as well */
	assert_int_equal(f->region->error, -ENOSPC);
	assert_int_equal(count_files(f), 0);
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, 100000), 0);
	((struct cm_block *)cm_region_row(f->region, CM_TABLE_BLOCK, 99999))->size = 1;
}

/* With less room than its tables soon take, a process would have no events, or no cache. */
static void a_file_system_that_is_nearly_full_gets_no_file(void **state)
{
	static const struct {
		uint32_t events;
		uint64_t room;
	} cases[] = {
		{0, UINT64_C(2) << 20},
		{1, (UINT64_C(2) << 20) + 2 * 4096},
		{1 << 16, (UINT64_C(2) << 20) + (2 << 16) * sizeof(struct cm_event)},
	};
	struct fixture *f = *state;
	unsigned missing;
	size_t i;

	file_system.f_blocks = 1 << 20;
	file_system.f_bsize = 4096;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (missing = 0; missing < 2; missing++) {
			file_system.f_bavail = cases[i].room / 4096 - missing;
			assert_int_equal(create(f, cases[i].events), 0);
			assert_int_equal(f->region->backing,
					 missing ? CM_BACKING_MEMFD : CM_BACKING_FILE);
			assert_int_equal(f->region->error, missing ? -ENOSPC : 0);
			assert_int_equal(count_files(f), !missing);
			cm_region_remove(f->region);
			cm_region_abandon(f->region);
			f->region = NULL;
		}
	}
}

static void without_memfd_private_memory_serves(void **state)
{
	struct fixture *f = *state;
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
static void nobody_can_cut_a_memfd_short(void **state)
{
	const struct cm_region_params params = {.backing = CM_BACKING_MEMFD};
	struct fixture *f = *state;
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
static void a_limit_on_file_sizes_is_respected(void **state)
{
	struct fixture *f = *state;
	struct rlimit limit, small;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(create(f, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(f->region->backing, CM_BACKING_PRIVATE);
	assert_int_equal(f->region->error, -EFBIG);
	assert_int_equal(count_files(f), 0);
}

static void a_leftover_of_the_same_name_is_replaced(void **state)
{
	struct fixture *f = *state;
	char path[sizeof(f->region->path)];
	int fd;

	assert_int_equal(create(f, 0), 0);
	memcpy(path, f->region->path, sizeof(path));
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	assert_int_equal(write(fd, "old", 3), 3);
	(void)close(fd);
	assert_int_equal(create(f, 0), 0);
	assert_string_equal(f->region->path, path);
	assert_true(f->region->header->magic == CM_LAYOUT_MAGIC);
}

static void a_link_that_lies_in_wait_is_not_followed(void **state)
{
	struct fixture *f = *state;
	char path[sizeof(f->region->path)], target[80];
	struct stat st;

	assert_int_equal(create(f, 0), 0);
	memcpy(path, f->region->path, sizeof(path));
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	(void)snprintf(target, sizeof(target), "%s/target", f->dir);
	assert_int_equal(symlink("target", path), 0);
	assert_int_equal(create(f, 0), 0);
	assert_int_equal(lstat(f->region->path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(access(target, F_OK), -1);
}

static void removing_marks_the_region_and_keeps_the_mapping(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(create(f, 0), 0);
	cm_region_remove(f->region);
	assert_int_equal(count_files(f), 0);
	assert_int_equal(f->region->header->state, CM_REGION_EXITED);
	f->region->header->tick_last = 1;
}

static void a_child_that_abandons_leaves_its_parents_file(void **state)
{
	struct fixture *f = *state;
	char path[PATH_MAX];
	int status;
	pid_t child;

	assert_int_equal(create(f, 0), 0);
	(void)snprintf(path, sizeof(path), "%s", f->region->path);
	child = fork();
	if (!child) {
		cm_region_abandon(f->region);
		_exit(access(path, F_OK) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(count_files(f), 1);
}

/* --- the sweep ----------------------------------------------------------------------------- */

/* Adds a file last written `age_s` seconds ago. */
static void add_file(const struct fixture *f, const char *name, time_t age_s)
{
	struct timespec times[2] = {{0}};
	char path[400];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	(void)clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age_s;
	times[1] = times[0];
	assert_int_equal(futimens(fd, times), 0);
	(void)close(fd);
}

/* A region of this user and a process that cannot be (no pid is so large). */
static void add_leftover(const struct fixture *f, unsigned number, time_t age_s)
{
	char name[80];

	(void)snprintf(name, sizeof(name), "cudamem.%u.%u.%u", (unsigned)geteuid(),
		       0x7ffffff0u + number, 77u);
	add_file(f, name, age_s);
}

static bool has_leftover(const struct fixture *f, unsigned number)
{
	char path[120];

	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.77", f->dir, (unsigned)geteuid(),
		       0x7ffffff0u + number);
	return !access(path, F_OK);
}

#define DAY_NS (UINT64_C(86400) * 1000000000)

static const struct cm_region_keep keep_ten = {.ns = DAY_NS, .most = 10};
static const struct cm_region_keep keep_two = {.ns = DAY_NS, .most = 2};

static void a_sweep_removes_what_is_old_and_what_is_too_many(void **state)
{
	struct fixture *f = *state;

	add_leftover(f, 0, 10);
	add_leftover(f, 1, 20);
	add_leftover(f, 2, 30);
	add_leftover(f, 3, 2 * 86400);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 1);
	assert_false(has_leftover(f, 3));
	assert_int_equal(cm_region_sweep(f->dir, &keep_two), 1);
	assert_false(has_leftover(f, 2));
	assert_int_equal(cm_region_sweep(f->dir, &keep_two), 0);
	assert_true(has_leftover(f, 0) && has_leftover(f, 1));
	assert_int_equal(cm_region_sweep(f->dir, NULL), 2);
}

/* A job that is started again after a weekend must not lose its last crash. */
static void a_sweep_keeps_the_youngest_at_any_age(void **state)
{
	static const struct cm_region_keep keep = {.ns = DAY_NS, .least = 2, .most = 10};
	struct fixture *f = *state;
	unsigned i;

	for (i = 0; i < 4; i++)
		add_leftover(f, i, 86400 * (2 + (time_t)i));
	assert_int_equal(cm_region_sweep(f->dir, &keep), 2);
	assert_true(has_leftover(f, 0) && has_leftover(f, 1));
	assert_int_equal(cm_region_sweep(f->dir, &keep), 0);
}

/* A process that makes a region, created `age_s` seconds ago, and ends without removing it. */
static void leave_region(struct fixture *f, time_t age_s, bool exited)
{
	struct timespec times[2] = {{0}};
	int status;
	pid_t child;

	(void)clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age_s;
	times[1] = times[0];
	child = fork();
	if (!child) {
		status = create(f, 0) || utimensat(AT_FDCWD, f->region->path, times, 0);
		no_unlink = true;
		if (exited)
			cm_region_remove(f->region);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Nothing but its creation has set the time of the file of a process that ran for days. */
static void a_crash_is_as_old_as_the_sweep_that_found_it(void **state)
{
	struct fixture *f = *state;

	leave_region(f, 5 * 86400, false);
	add_leftover(f, 0, 100);
	add_leftover(f, 1, 200);
	assert_int_equal(cm_region_sweep(f->dir, &keep_two), 1);
	assert_true(has_leftover(f, 0) && !has_leftover(f, 1));
	assert_int_equal(count_files(f), 2);
}

/* Found once, it ages. */
static void a_crash_that_was_found_grows_old(void **state)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct fixture *f = *state;
	struct dirent *entry;
	DIR *dir;

	leave_region(f, 5 * 86400, false);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 0);
	dir = opendir(f->dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			assert_int_equal(utimensat(dirfd(dir), entry->d_name, old, 0), 0);
	(void)closedir(dir);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 1);
	assert_int_equal(count_files(f), 0);
}

/* As after setuid(2), when the file in a folder such as /dev/shm is another user's. */
static void what_an_exited_process_could_not_remove_is_swept(void **state)
{
	struct fixture *f = *state;

	leave_region(f, 10, true);
	assert_int_equal(count_files(f), 1);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 1);
	assert_int_equal(count_files(f), 0);
}

static void a_sweep_leaves_the_living_alone(void **state)
{
	struct fixture *f = *state;
	struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

	assert_int_equal(create(f, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, f->region->path, times, 0), 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 0);
	assert_int_equal(access(f->region->path, F_OK), 0);
}

/* A parent that never asks for its children must not keep what they left. */
static void a_sweep_removes_what_a_zombie_left(void **state)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct fixture *f = *state;
	siginfo_t info;
	pid_t child;

	child = fork();
	if (!child)
		_exit(create(f, 0) || utimensat(AT_FDCWD, f->region->path, times, 0));
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_status, 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 1);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Its process may be alive in another PID namespace: the lock tells. */
static void a_sweep_leaves_a_locked_region_alone(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct fixture *f = *state;
	char path[120];
	int fd;

	add_leftover(f, 0, 100);
	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.77", f->dir, (unsigned)geteuid(),
		       0x7ffffff0u);
	fd = open(path, O_RDWR);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 0);
	(void)close(fd);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 1);
}

static time_t second_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

static void a_region_just_born_is_left_alone(void **state)
{
	struct fixture *f = *state;
	time_t second;
	int removed;

	/* Once more where the machine has left us alone until it was no longer young. */
	do {
		second = second_now();
		add_leftover(f, 0, 0);
		removed = cm_region_sweep(f->dir, NULL);
	} while (second_now() != second);
	assert_int_equal(removed, 0);
	assert_true(has_leftover(f, 0));
}

static void names_that_are_no_region_of_ours_are_left_alone(void **state)
{
	static const char *const names[] = {
		"cudamem",
		"cudamem.",
		"cudamem.0",
		"cudamem.x.1.2",
		"cudamem.0.1.2.3",
		"cudamem.0.2147483647.77x",
		"cudamem.0.2147483647.77 ",
		"xcudamem.0.2147483647.77",
		"notes.txt",
		"cudamem.4294967295.2147483647.77",
	};
	struct fixture *f = *state;
	char name[80], path[120];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		add_file(f, names[i], 1000000);
	/* A name of ours that is no file, and one that points elsewhere. */
	(void)snprintf(name, sizeof(name), "cudamem.%u.2147483646.77", (unsigned)geteuid());
	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.2147483645.77", f->dir,
		       (unsigned)geteuid());
	assert_int_equal(symlink("notes.txt", path), 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 0);
	assert_int_equal(count_files(f), (int)(sizeof(names) / sizeof(names[0])) + 2);
}

static void a_sweep_of_nothing_removes_nothing(void **state)
{
	(void)state;
	assert_int_equal(cm_region_sweep("no/such/dir", NULL), 0);
}

static void start_times_are_told_apart(void **state)
{
	uint64_t mine, again, init;

	(void)state;
	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &mine), 0);
	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &again), 0);
	assert_int_equal(mine, again);
	assert_int_equal(cm_process_start_time(1, &init), 0);
	assert_true(init <= mine);
	assert_int_equal(cm_process_start_time(0x7fffffff, &init), -ESRCH);
}

int main(void)
{
#define REGION(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		REGION(a_region_says_whose_it_is),
		REGION(tables_follow_each_other_and_lie_in_the_file),
		REGION(without_events_there_is_a_ring_of_the_usual_size),
		REGION(tables_are_as_large_as_they_are_asked_for),
		REGION(a_committed_row_has_memory_behind_it),
		REGION(committed_rows_are_written_without_a_fault),
		REGION(what_is_not_committed_cannot_be_touched),
		REGION(memory_that_is_locked_is_not_filled),
		REGION(a_table_is_bounded_by_its_capacity),
		REGION(a_full_file_system_is_an_error_and_keeps_what_is_there),
		REGION(a_signal_costs_neither_the_file_nor_rows),
		REGION(where_no_file_can_be_a_memfd_serves),
		REGION(a_full_file_system_leaves_no_file_behind),
		REGION(a_file_system_that_is_nearly_full_gets_no_file),
		REGION(without_memfd_private_memory_serves),
		REGION(nobody_can_cut_a_memfd_short),
		REGION(a_limit_on_file_sizes_is_respected),
		REGION(a_leftover_of_the_same_name_is_replaced),
		REGION(a_link_that_lies_in_wait_is_not_followed),
		REGION(removing_marks_the_region_and_keeps_the_mapping),
		REGION(a_child_that_abandons_leaves_its_parents_file),
		REGION(a_sweep_removes_what_is_old_and_what_is_too_many),
		REGION(a_sweep_keeps_the_youngest_at_any_age),
		REGION(a_crash_is_as_old_as_the_sweep_that_found_it),
		REGION(a_crash_that_was_found_grows_old),
		REGION(what_an_exited_process_could_not_remove_is_swept),
		REGION(a_sweep_leaves_the_living_alone),
		REGION(a_sweep_removes_what_a_zombie_left),
		REGION(a_sweep_leaves_a_locked_region_alone),
		REGION(a_region_just_born_is_left_alone),
		REGION(names_that_are_no_region_of_ours_are_left_alone),
		cmocka_unit_test(a_sweep_of_nothing_removes_nothing),
		cmocka_unit_test(start_times_are_told_apart),
	};

	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
