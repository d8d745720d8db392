/* SPDX-License-Identifier: MIT */
/* Regions of other mount namespaces, and those behind many open files. */
#include "stats/finder.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/reader.h"
#include "stats/region.h"
#include "stats/start_time.h"
#include "tests/unit/cmocka_all.h"

#define FILES     3000 /* more than a list looks at */
#define NOBODY    65534
#define FINDS_MAX 4096 /* of all processes of the machine */

/* A process of a container: what it does before it says that it is ready. */
struct role {
	int unshared;   /* CLONE_... of the container */
	bool linked;    /* its /dev/shm is a symbolic link */
	bool forged;    /* another user of the container makes its file */
	unsigned files; /* it opens them first */
	enum cm_backing backing;
};

struct child {
	pid_t pid;
	int input, output; /* it ends with its input, and writes a byte when it is ready */
};

struct finds {
	struct cm_find item[FINDS_MAX];
	size_t count;
};

/* What dead processes left here, maybe of the same numbers, is none of the test's. */
static void keep(void *data, const struct cm_find *find)
{
	struct finds *finds = data;

	if (!find->held && !strncmp(find->path, CM_REGION_DIR, strlen(CM_REGION_DIR)))
		return;
	if (finds->count < FINDS_MAX)
		finds->item[finds->count++] = *find;
}

static size_t find_by_number(struct finds *finds, pid_t pid)
{
	finds->count = 0;
	(void)cm_find_regions(NULL, pid, keep, finds);
	return finds->count;
}

static const struct cm_find *find_of(struct finds *finds, pid_t pid)
{
	size_t i;

	finds->count = 0;
	(void)cm_find_regions(NULL, 0, keep, finds);
	for (i = 0; i < finds->count; i++)
		if (finds->item[i].pid == pid)
			return &finds->item[i];
	return NULL;
}

static const struct cm_find *find_at(struct finds *finds, const char *part)
{
	size_t i;

	finds->count = 0;
	(void)cm_find_regions(NULL, 0, keep, finds);
	for (i = 0; i < finds->count; i++)
		if (strstr(finds->item[i].path, part))
			return &finds->item[i];
	return NULL;
}

static int contain(const struct role *role)
{
	if (!(role->unshared & CLONE_NEWNS))
		return 0;
	if (mount("none", "/", "none", MS_REC | MS_PRIVATE, ""))
		return -1;
	if (role->linked)
		return mount("dev", "/dev", "tmpfs", 0, NULL) || symlink("/tmp", CM_REGION_DIR);
	return mount("shm", CM_REGION_DIR, "tmpfs", 0, "size=64m,mode=1777");
}

static const struct rlimit files_limit = {FILES + 64, FILES + 64};

/* valgrind keeps descriptors for itself. */
static bool may_open_files(void)
{
	return !setrlimit(RLIMIT_NOFILE, &files_limit);
}

static int open_files(unsigned files)
{
	if (files && setrlimit(RLIMIT_NOFILE, &files_limit))
		return -1;
	for (; files; files--)
		if (open("/dev/null", O_RDONLY) < 0)
			return -1;
	return 0;
}

/* A file under the number of the process, made by another user in its container. */
static int forge(void)
{
	char path[64];
	uint64_t start;
	int fd;

	if (cm_process_start_time((uint32_t)getpid(), &start))
		return -1;
	(void)snprintf(path, sizeof(path), CM_REGION_DIR "/" CM_REGION_PREFIX "%d.%d.%llu", NOBODY,
		       (int)getpid(), (unsigned long long)start);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	return fd < 0 || fchown(fd, NOBODY, NOBODY);
}

static int play(const struct role *role, int input, int output)
{
	const struct cm_region_params params = {.backing = role->backing, .version = "finder"};
	struct cm_region *region;
	char byte;

	if (contain(role) || open_files(role->files) ||
	    (role->forged ? forge() : cm_region_create(&params, &region)) ||
	    write(output, "", 1) != 1)
		return 1;
	return read(input, &byte, 1) != 0;
}

/* The process, or with a PID namespace its first child, which is then the number 1. */
static struct child start(const struct role *role)
{
	int input[2], output[2], status = 0;
	struct child child;
	char byte;

	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	child.pid = fork();
	if (!child.pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(input[1]);
		(void)close(output[0]);
		if (unshare(role->unshared))
			_exit(1);
		if (role->unshared & CLONE_NEWPID) {
			child.pid = fork();
			if (child.pid) {
				(void)close(output[1]);
				(void)waitpid(child.pid, &status, 0);
				_exit(status != 0);
			}
		}
		_exit(play(role, input[0], output[1]));
	}
	(void)close(input[0]);
	(void)close(output[1]);
	child.input = input[1];
	child.output = output[0];
	assert_int_equal(read(child.output, &byte, 1), 1);
	return child;
}

static void end(const struct child *child, int signal)
{
	if (signal)
		(void)kill(child->pid, signal);
	(void)close(child->input);
	(void)close(child->output);
	(void)waitpid(child->pid, NULL, 0);
}

/* 0: it has none. */
static pid_t child_of(pid_t parent)
{
	char path[64], text[32] = {0};
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	file = fopen(path, "re");
	if (file) {
		(void)fgets(text, sizeof(text), file);
		(void)fclose(file);
	}
	return (pid_t)strtol(text, NULL, 10);
}

CM_TEST(one_in_a_container_is_found_with_its_number_here)
{
	static const struct role role = {.unshared = CLONE_NEWNS | CLONE_NEWPID};
	const struct cm_find *find;
	static struct finds finds;
	struct child child;
	pid_t inner;

	if (geteuid())
		cm_skip("needs root, to make mount namespaces");
	child = start(&role);
	inner = child_of(child.pid);
	find = find_of(&finds, inner);
	assert_non_null(find);
	assert_true(find->held);
	assert_non_null(strstr(find->path, "/root" CM_REGION_DIR "/" CM_REGION_PREFIX));
	assert_non_null(strstr(find->path, ".1."));
	assert_int_equal(find_by_number(&finds, inner), 1);
	end(&child, 0);
}

CM_TEST(one_that_crashed_is_found_while_its_container_lives)
{
	static const struct role role = {.unshared = CLONE_NEWNS | CLONE_NEWPID};
	const struct cm_find *find;
	struct cm_reader *reader;
	char why[CM_READER_WHY_BYTES], part[64], path[64];
	static struct finds finds;
	struct child child;
	int pid_file, mounts, root;
	pid_t inner;

	if (geteuid())
		cm_skip("needs root, to make mount namespaces");
	child = start(&role);
	inner = child_of(child.pid);
	assert_true(inner > 0);
	/* Another process of the container stays: this test, which joins its mounts. Their root is
	 * not the container's where this test runs in a chroot. */
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)inner);
	mounts = open(path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)inner);
	root = open(path, O_PATH | O_CLOEXEC);
	(void)snprintf(part, sizeof(part), "/root" CM_REGION_DIR "/" CM_REGION_PREFIX "0.1.");
	pid_file = fork();
	if (!pid_file) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setns(mounts, CLONE_NEWNS) || fchdir(root) || chroot("."))
			_exit(1);
		(void)kill(inner, SIGKILL);
		for (;;)
			(void)pause();
	}
	end(&child, 0);
	find = find_at(&finds, part);
	assert_non_null(find);
	assert_false(find->held);
	assert_int_equal(find->pid, 1);
	assert_int_equal(cm_reader_open(find->path, &reader, why), 0);
	assert_int_equal(cm_reader_life(reader), CM_LIFE_CRASHED);
	cm_reader_close(reader);
	(void)kill(pid_file, SIGKILL);
	(void)waitpid(pid_file, NULL, 0);
	(void)close(mounts);
	(void)close(root);
	assert_null(find_at(&finds, part));
}

/* In the container of a hostile user /dev/shm may lead anywhere. */
CM_TEST(a_link_out_of_a_container_is_not_followed)
{
	static const struct role role = {
		.unshared = CLONE_NEWNS, .linked = true, .backing = CM_BACKING_MEMFD};
	static const char bait[] = "/tmp/" CM_REGION_PREFIX "0.5000300.1";
	static struct finds finds;
	struct child child;
	int fd;

	if (geteuid())
		cm_skip("needs root, to make mount namespaces");
	fd = open(bait, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	child = start(&role);
	assert_null(find_at(&finds, "5000300"));
	assert_non_null(find_of(&finds, child.pid));
	end(&child, 0);
	(void)unlink(bait);
	(void)close(fd);
}

CM_TEST(a_file_of_another_user_is_not_that_of_the_process)
{
	static const struct role role = {.unshared = CLONE_NEWNS, .forged = true};
	const struct cm_find *find;
	static struct finds finds;
	struct child child;

	if (geteuid())
		cm_skip("needs root, to make mount namespaces");
	child = start(&role);
	find = find_of(&finds, child.pid);
	assert_non_null(find);
	assert_false(find->held);
	assert_int_equal(find->uid, NOBODY);
	assert_int_equal(find_by_number(&finds, child.pid), 0);
	end(&child, 0);
}

/* In the way in which files in the region folder are: by name, however many are open. */
CM_TEST(a_named_one_is_found_behind_many_open_files)
{
	static const struct role role = {.files = FILES};
	const struct cm_find *find;
	static struct finds finds;
	struct child child;
	char path[sizeof(find->path)];

	if (!may_open_files())
		cm_skip("needs to open 3000 files");
	child = start(&role);
	find = find_of(&finds, child.pid);
	assert_non_null(find);
	assert_true(find->held);
	(void)snprintf(path, sizeof(path), "%s", find->path);
	assert_int_equal(strncmp(path, CM_REGION_DIR, strlen(CM_REGION_DIR)), 0);
	end(&child, SIGKILL);
	(void)unlink(path);
}

CM_TEST(a_memfd_behind_many_open_files_is_told_of_and_found_by_its_number)
{
	static const struct role role = {.files = FILES, .backing = CM_BACKING_MEMFD};
	static struct finds finds;
	const struct cm_find *find;
	struct child child;

	if (!may_open_files())
		cm_skip("needs to open 3000 files");
	child = start(&role);
	find = find_of(&finds, child.pid);
	assert_non_null(find);
	assert_string_equal(find->path, "");
	assert_int_equal(find->uid, geteuid());
	assert_int_equal(find_by_number(&finds, child.pid), 1);
	assert_true(finds.item[0].held);
	assert_non_null(strstr(finds.item[0].path, "/fd/"));
	end(&child, SIGKILL);
}

/* A database, for example. */
CM_TEST(many_open_files_without_a_region_are_not_told_of)
{
	static const struct role role = {.files = FILES, .backing = CM_BACKING_PRIVATE};
	static struct finds finds;
	struct child child;

	if (!may_open_files())
		cm_skip("needs to open 3000 files");
	child = start(&role);
	assert_null(find_of(&finds, child.pid));
	end(&child, SIGKILL);
}
