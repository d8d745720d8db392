/* SPDX-License-Identifier: MIT */
#include "stats/region_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/region_fixture.h"

static bool no_unlink; /* the kernel refuses to remove a file */

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_unlink(const char *path)
{
	if (no_unlink) {
		errno = EPERM;
		return -1;
	}
	return __real_unlink(path);
}

/* Adds a file last written `age_s` seconds ago. */
static void add_file(const struct cm_region_fixture *f, const char *name, time_t age_s)
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
static void add_leftover(const struct cm_region_fixture *f, unsigned number, time_t age_s)
{
	char name[80];

	(void)snprintf(name, sizeof(name), "cudamem.%u.%u.%u", (unsigned)geteuid(),
		       0x7ffffff0u + number, 77u);
	add_file(f, name, age_s);
}

static bool has_leftover(const struct cm_region_fixture *f, unsigned number)
{
	char path[120];

	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.77", f->dir, (unsigned)geteuid(),
		       0x7ffffff0u + number);
	return !access(path, F_OK);
}

#define DAY_NS (UINT64_C(86400) * 1000000000)

static const struct cm_region_keep keep_ten = {.ns = DAY_NS, .most = 10};
static const struct cm_region_keep keep_two = {.ns = DAY_NS, .most = 2};

#define REGION(test) CM_TEST_WITH(test, cm_region_fixture_init, cm_region_fixture_fini)

REGION(a_sweep_removes_what_is_old_and_what_is_too_many)
{
	struct cm_region_fixture *f = *state;

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
REGION(a_sweep_keeps_the_youngest_at_any_age)
{
	static const struct cm_region_keep keep = {.ns = DAY_NS, .least = 2, .most = 10};
	struct cm_region_fixture *f = *state;
	unsigned i;

	for (i = 0; i < 4; i++)
		add_leftover(f, i, 86400 * (2 + (time_t)i));
	assert_int_equal(cm_region_sweep(f->dir, &keep), 2);
	assert_true(has_leftover(f, 0) && has_leftover(f, 1));
	assert_int_equal(cm_region_sweep(f->dir, &keep), 0);
}

/* Adds one of 64 KiB. */
static void add_large_leftover(const struct cm_region_fixture *f, unsigned number, time_t age_s)
{
	const struct timespec times[2] = {{.tv_sec = time(NULL) - age_s},
					  {.tv_sec = time(NULL) - age_s}};
	char path[120];
	int fd;

	add_leftover(f, number, age_s);
	(void)snprintf(path, sizeof(path), "%s/cudamem.%u.%u.77", f->dir, (unsigned)geteuid(),
		       0x7ffffff0u + number);
	fd = open(path, O_WRONLY);
	assert_int_equal(posix_fallocate(fd, 0, 65536), 0);
	assert_int_equal(futimens(fd, times), 0);
	(void)close(fd);
}

/* In a container's /dev/shm the crashes of one day would leave the program no room. */
REGION(leftovers_take_no_more_than_their_share)
{
	struct cm_region_keep keep = {.ns = DAY_NS, .least = 4, .most = 10};
	struct cm_region_fixture *f = *state;
	struct statfs system;
	unsigned i;

	assert_int_equal(statfs(f->dir, &system), 0);
	if (!system.f_blocks)
		cm_skip("nothing limits this file system");
	for (i = 0; i < 4; i++)
		add_large_leftover(f, i, 10 + (time_t)i);
	keep.share = (uint32_t)((uint64_t)system.f_blocks * (uint64_t)system.f_bsize / 160 / 1024);
	assert_int_equal(cm_region_sweep(f->dir, &keep), 2);
	assert_true(has_leftover(f, 0) && has_leftover(f, 1));
	keep.share *= 5; /* less than one takes */
	assert_int_equal(cm_region_sweep(f->dir, &keep), 1);
	assert_true(has_leftover(f, 0));
	assert_int_equal(cm_region_sweep(f->dir, &keep), 0);
}

/* A process that makes a region, created `age_s` seconds ago, and ends without removing it. */
static void leave_region(struct cm_region_fixture *f, time_t age_s, bool exited)
{
	struct timespec times[2] = {{0}};
	int status;
	pid_t child;

	(void)clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age_s;
	times[1] = times[0];
	child = fork();
	if (!child) {
		status = cm_region_fixture_create(f, 0) ||
			 utimensat(AT_FDCWD, f->region->path, times, 0);
		no_unlink = true;
		if (exited)
			cm_region_remove(f->region);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Nothing but its creation has set the time of the file of a process that ran for days. */
REGION(a_crash_is_as_old_as_the_sweep_that_found_it)
{
	struct cm_region_fixture *f = *state;

	leave_region(f, 5 * 86400, false);
	add_leftover(f, 0, 100);
	add_leftover(f, 1, 200);
	assert_int_equal(cm_region_sweep(f->dir, &keep_two), 1);
	assert_true(has_leftover(f, 0) && !has_leftover(f, 1));
	assert_int_equal(cm_region_fixture_files(f), 2);
}

/* Found once, it ages. */
REGION(a_crash_that_was_found_grows_old)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct cm_region_fixture *f = *state;
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
	assert_int_equal(cm_region_fixture_files(f), 0);
}

/* As after setuid(2), when the file in a folder such as /dev/shm is another user's. */
REGION(what_an_exited_process_could_not_remove_is_swept)
{
	struct cm_region_fixture *f = *state;

	leave_region(f, 10, true);
	assert_int_equal(cm_region_fixture_files(f), 1);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 1);
	assert_int_equal(cm_region_fixture_files(f), 0);
}

/* As after chroot(2), with which the file's name means another place. */
REGION(what_an_exited_process_could_not_find_is_swept)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct cm_region_params params = {.backing = CM_BACKING_FILE, .dir = "."};
	struct cm_region_fixture *f = *state;
	struct cm_region *region;
	int status;
	pid_t child;

	child = fork();
	if (!child) {
		if (chdir(f->dir) || cm_region_create(&params, &region) ||
		    utimensat(AT_FDCWD, region->path, times, 0) || chdir("/"))
			_exit(1);
		cm_region_remove(region);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(cm_region_fixture_files(f), 1);
	assert_int_equal(cm_region_sweep(f->dir, &keep_ten), 1);
}

REGION(a_sweep_leaves_the_living_alone)
{
	struct cm_region_fixture *f = *state;
	struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

	assert_int_equal(cm_region_fixture_create(f, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, f->region->path, times, 0), 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 0);
	assert_int_equal(access(f->region->path, F_OK), 0);
}

/* A parent that never asks for its children must not keep what they left. */
REGION(a_sweep_removes_what_a_zombie_left)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct cm_region_fixture *f = *state;
	siginfo_t info;
	pid_t child;

	child = fork();
	if (!child)
		_exit(cm_region_fixture_create(f, 0) ||
		      utimensat(AT_FDCWD, f->region->path, times, 0));
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_status, 0);
	assert_int_equal(cm_region_sweep(f->dir, NULL), 1);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Its process may be alive in another PID namespace: the lock tells. */
REGION(a_sweep_leaves_a_locked_region_alone)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct cm_region_fixture *f = *state;
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

/* The kernel sends a SIGXFSZ to who writes beyond the limit. */
REGION(a_process_that_may_write_no_files_sweeps)
{
	const struct rlimit none = {0, 0};
	struct cm_region_fixture *f = *state;
	int status;
	pid_t child;

	leave_region(f, 10, false);
	child = fork();
	if (!child)
		_exit(setrlimit(RLIMIT_FSIZE, &none) || cm_region_sweep(f->dir, &keep_ten));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(cm_region_fixture_files(f), 1);
}

static time_t second_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

REGION(a_region_just_born_is_left_alone)
{
	struct cm_region_fixture *f = *state;
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

REGION(names_that_are_no_region_of_ours_are_left_alone)
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
	struct cm_region_fixture *f = *state;
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
	assert_int_equal(cm_region_fixture_files(f), (int)(sizeof(names) / sizeof(names[0])) + 2);
}

CM_TEST(a_sweep_of_nothing_removes_nothing)
{
	assert_int_equal(cm_region_sweep("no/such/dir", NULL), 0);
}
