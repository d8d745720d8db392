/* SPDX-License-Identifier: MIT */
#include "stats/region_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define ORDINARY 65534
#define NO_USER  2 /* how a child ends that could not become one */
#define OPENERS  4
#define ROUNDS   500

static char dir[32];
static char path[64], link_path[64];

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/cm_region_mode_XXXXXX");
	if (!mkdtemp(dir) || chmod(dir, 0777))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	(void)snprintf(link_path, sizeof(link_path), "%s/link", dir);
	return symlink(path, link_path);
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(link_path);
	return rmdir(dir);
}

/* A mode holds no process of root: the cases are those of a child without its rights. Returns how
 * the child ended; NO_USER: root may not become another user here. */
static int as_ordinary_user(int (*run)(void))
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(!geteuid() && setuid(ORDINARY) ? NO_USER : run());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define assert_as_ordinary_user(run)                                      \
	do {                                                              \
		const int ended = as_ordinary_user(run);                  \
		if (ended == NO_USER)                                     \
			cm_skip("root may not become another user here"); \
		assert_int_equal(ended, 0);                               \
	} while (0)

static int make(void)
{
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, CM_REGION_MODE);
}

static bool has_mode(mode_t mode)
{
	struct stat st;

	return !stat(path, &st) && (st.st_mode & 07777) == mode;
}

static int write_to_one(void)
{
	const int made = make();
	int fd;

	if (made < 0 || write(made, "text", 4) != 4)
		return 10;
	if (open(path, O_WRONLY | O_TRUNC) >= 0 || errno != EACCES || !truncate(path, 0))
		return 11;
	fd = cm_region_open_writable(AT_FDCWD, path, O_NOFOLLOW);
	if (fd < 0 || fcntl(fd, F_GETFD) != FD_CLOEXEC || write(fd, "more", 4) != 4)
		return 12;
	if (!has_mode(CM_REGION_MODE))
		return 13;
	return cm_region_open_writable(AT_FDCWD, link_path, O_NOFOLLOW) == -ELOOP ? 0 : 14;
}

CM_TEST_WITH(its_user_writes_to_it_by_one_way_alone, set_up, tear_down)
{
	assert_as_ordinary_user(write_to_one);
}

static void *open_and_close(void *failed)
{
	int i, fd;

	for (i = 0; i < ROUNDS; i++) {
		fd = cm_region_open_writable(AT_FDCWD, path, 0);
		if (fd < 0)
			__atomic_store_n((int *)failed, fd, __ATOMIC_RELAXED);
		else
			(void)close(fd);
	}
	return NULL;
}

static int open_at_once(void)
{
	pthread_t opener[OPENERS];
	int failed = 0, i;

	if (make() < 0)
		return 20;
	for (i = 0; i < OPENERS; i++)
		if (pthread_create(&opener[i], NULL, open_and_close, &failed))
			return 21;
	for (i = 0; i < OPENERS; i++)
		(void)pthread_join(opener[i], NULL);
	if (failed)
		return 22;
	return has_mode(CM_REGION_MODE) ? 0 : 23;
}

CM_TEST_WITH(several_open_it_at_once, set_up, tear_down)
{
	assert_as_ordinary_user(open_at_once);
}

/* As a library before this mode made them, and a memfd has it. */
static int open_writable(void)
{
	int fd;

	if (make() < 0 || chmod(path, 0640))
		return 30;
	fd = cm_region_open_writable(AT_FDCWD, path, 0);
	return fd >= 0 && has_mode(0640) ? 0 : 31;
}

CM_TEST_WITH(a_writable_one_keeps_its_mode, set_up, tear_down)
{
	assert_as_ordinary_user(open_writable);
}

static int open_foreign(void)
{
	return cm_region_open_writable(AT_FDCWD, path, 0) == -EPERM ? 0 : 40;
}

CM_TEST_WITH(that_of_another_user_is_refused, set_up, tear_down)
{
	if (geteuid())
		cm_skip("not root: there is no other user");
	assert_true(make() >= 0);
	assert_int_equal(chmod(path, 0444), 0);
	assert_as_ordinary_user(open_foreign);
	assert_true(has_mode(0444));
}
