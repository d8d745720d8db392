/* SPDX-License-Identifier: MIT */
#include "stats/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

struct fixture {
	char dir[32];
	int at; /* the same folder, open */
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){.dir = "/tmp/cm_regular_XXXXXX"};
	if (!mkdtemp(f.dir))
		return -1;
	f.at = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &f;
	return f.at < 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"file", "link", "dangling", "pipe", "secret"};
	const struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlinkat(f->at, names[i], 0);
	(void)close(f->at);
	return rmdir(f->dir);
}

static void make_file(const struct fixture *f, const char *name, mode_t mode)
{
	const int fd = openat(f->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	assert_int_equal(write(fd, "text", 4), 4);
	(void)close(fd);
}

static void assert_reads(int fd)
{
	char text[8];

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	(void)close(fd);
}

CM_TEST_WITH(a_regular_file_is_opened_and_a_link_if_wanted, set_up, tear_down)
{
	const struct fixture *f = *state;

	make_file(f, "file", 0600);
	assert_int_equal(symlinkat("file", f->at, "link"), 0);
	assert_int_equal(symlinkat("nothing", f->at, "dangling"), 0);
	assert_reads(cm_regular_file_open(f->at, "file", 0));
	assert_reads(cm_regular_file_open(f->at, "file", O_NOFOLLOW));
	assert_reads(cm_regular_file_open(f->at, "link", 0));
	assert_int_equal(cm_regular_file_open(f->at, "link", O_NOFOLLOW), -ELOOP);
	assert_int_equal(cm_regular_file_open(f->at, "dangling", 0), -ENOENT);
	assert_int_equal(cm_regular_file_open(f->at, "nothing", 0), -ENOENT);
}

/* inotify tells of each file that is opened; O_PATH opens none. */
CM_TEST_WITH(nothing_else_is_even_opened, set_up, tear_down)
{
	const struct fixture *f = *state;
	const int watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char event[512], pipe[64];

	(void)snprintf(pipe, sizeof(pipe), "%s/pipe", f->dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_true(inotify_add_watch(watcher, pipe, IN_OPEN) > 0);
	assert_int_equal(cm_regular_file_open(f->at, "pipe", 0), -EBADMSG);
	assert_int_equal(cm_regular_file_open(f->at, ".", 0), -EBADMSG);
	assert_int_equal(cm_regular_file_open(AT_FDCWD, "/dev/null", 0), -EBADMSG);
	assert_int_equal(read(watcher, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	(void)close(watcher);
}

CM_TEST_WITH(who_may_not_read_a_file_does_not, set_up, tear_down)
{
	const struct fixture *f = *state;

	make_file(f, "secret", 0);
	if (geteuid())
		assert_int_equal(cm_regular_file_open(f->at, "secret", 0), -EACCES);
	else
		assert_reads(cm_regular_file_open(f->at, "secret", 0));
}
