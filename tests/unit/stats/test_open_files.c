/* SPDX-License-Identifier: MIT */
/* Which regions are found for a process: by their names, or among its open files. */
#include "stats/open_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stats/finder.h"
#include "tests/unit/stats/reader_stage.h"

struct finds {
	struct cm_find item[8];
	size_t count;
};

static void keep(void *data, const struct cm_find *find)
{
	struct finds *finds = data;

	assert_true(finds->count < 8);
	finds->item[finds->count++] = *find;
}

/* A region may be left of a dead process that had the same number. */
static void keep_held(void *data, const struct cm_find *find)
{
	if (find->held)
		keep(data, find);
}

static size_t find_held(pid_t pid, struct finds *finds)
{
	finds->count = 0;
	(void)cm_find_regions(NULL, pid, keep_held, finds);
	return finds->count;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

/* By its own clock a process in another time namespace started at another time. */
TEST(a_start_time_of_another_clock_kills_no_process)
{
	const struct cm_region_params params = {.backing = CM_BACKING_MEMFD};
	struct fixture *f = *state;
	struct finds finds = {0};
	struct cm_region *memfd;

	open_region(f);
	f->reader->header.start_time--;
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	assert_int_equal(cm_region_create(&params, &memfd), 0);
	f->region->header->start_time--;
	memfd->header->start_time--;
	assert_int_equal(find_held(getpid(), &finds), 2);
	cm_region_abandon(memfd);
}

TEST(files_are_found_by_their_names_alone)
{
	struct fixture *f = *state;
	static const char *const strange[] = {
		"cudamem.",        "cudamem.1.2",    "cudamem.1.2.3.4",
		"cudamem.0x1.2.3", "cudamem.1.2.3x", "cudamem.99999999999.2.3",
		"other.0.2.3",
	};
	struct finds finds = {0};
	char path[96];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->dir, strange[i]);
		fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_int_equal(cm_find_regions(f->dir, 0, keep, &finds), 1);
	assert_string_equal(finds.item[0].path, f->region->path);
	assert_int_equal(finds.item[0].pid, getpid());
	assert_int_equal(cm_find_regions(f->dir, 1, keep, &finds), 0);
	assert_int_equal(cm_find_regions(f->dir, getpid(), keep, &finds), 1);
	for (i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->dir, strange[i]);
		(void)unlink(path);
	}
}

/* In a user namespace the process calls its user by another number. */
TEST(an_own_file_is_found_whatever_user_it_names)
{
	struct fixture *f = *state;
	struct finds finds = {0};
	char path[400];

	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%d.1", f->dir, (unsigned)geteuid() + 1,
		       (int)getpid());
	assert_int_equal(rename(f->region->path, path), 0);
	assert_int_equal(cm_find_regions(f->dir, 0, keep, &finds), 1);
	assert_string_equal(finds.item[0].path, path);
	assert_int_equal(finds.item[0].uid, geteuid());
	(void)unlink(path);
}

TEST(a_memfd_is_found_through_its_process)
{
	struct fixture *f = *state;
	char path[sizeof(f->region->path)];
	struct finds finds = {0};
	pid_t child;

	child = start_owner(f, CM_BACKING_MEMFD, path);
	assert_string_equal(path, "");
	assert_int_equal(find_held(child, &finds), 1);
	assert_int_equal(cm_reader_open(finds.item[0].path, &f->reader, f->why), 0);
	assert_int_equal(f->reader->header.pid, child);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_CRASHED);
}

TEST(a_file_without_its_name_is_found_through_its_process)
{
	struct fixture *f = *state;
	struct finds finds = {0};

	assert_int_equal(unlink(f->region->path), 0);
	assert_int_equal(find_held(getpid(), &finds), 1);
	assert_int_equal(cm_reader_open(finds.item[0].path, &f->reader, f->why), 0);
	assert_int_equal(f->reader->header.pid, getpid());
}

/* A child, or another tool, has the file open as well: the region is not theirs. */
TEST(only_the_owner_of_an_open_region_is_found)
{
	struct fixture *f = *state;
	struct finds finds = {0};
	pid_t child;

	child = fork();
	if (!child)
		for (;;)
			(void)pause();
	assert_int_equal(find_held(child, &finds), 0);
	assert_int_equal(find_held(getpid(), &finds), 1);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	open_region(f);
}
