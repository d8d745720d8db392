/* SPDX-License-Identifier: MIT */
#include "stats/region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/region_mode.h"
#include "stats/start_time.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/region_fixture.h"

#define REGION(test) CM_TEST_WITH(test, cm_region_fixture_init, cm_region_fixture_fini)

REGION(a_region_says_whose_it_is)
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

REGION(tables_follow_each_other_and_lie_in_the_file)
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
REGION(without_events_there_is_a_ring_of_the_usual_size)
{
	struct cm_region_fixture *f = *state;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(f->region->header->record.events, 0);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].ring, 65536);
	assert_int_equal(f->region->header->table[CM_TABLE_EVENT].rows, 0);
}

REGION(tables_are_as_large_as_they_are_asked_for)
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

REGION(a_committed_row_has_memory_behind_it)
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

REGION(committed_rows_are_written_without_a_fault)
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

REGION(what_is_not_committed_cannot_be_touched)
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
REGION(memory_that_is_locked_is_not_filled)
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

REGION(a_table_is_bounded_by_its_capacity)
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

/* Its user could not read it otherwise, nor a sweep remove it. */
REGION(no_umask_takes_the_file_from_its_user)
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
REGION(no_region_is_in_a_core_dump)
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

REGION(a_leftover_of_the_same_name_is_replaced)
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

REGION(a_link_that_lies_in_wait_is_not_followed)
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

REGION(removing_marks_the_region_and_keeps_the_mapping)
{
	struct cm_region_fixture *f = *state;

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	cm_region_remove(f->region);
	assert_int_equal(cm_region_fixture_files(f), 0);
	assert_int_equal(f->region->header->state, CM_REGION_EXITED);
	f->region->header->tick_last = 1;
}

REGION(a_child_that_abandons_leaves_its_parents_file)
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
