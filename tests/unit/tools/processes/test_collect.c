/* SPDX-License-Identifier: MIT */
/* The processes that are found: one may end, or begin, while the folder is looked through. */
#include "tools/processes/collect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"
#include "tools/cli/exits.h"

#define ENDING 5000001 /* beyond the largest pid that Linux gives out */

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	char ending[96]; /* the file of a process that is about to end */
	struct cm_region *region;
	struct cm_options options;
};

static const char *vanishes; /* as soon as somebody opens it */

int __real_cm_reader_open(const char *path, struct cm_reader **ret_reader, char *why);
int __wrap_cm_reader_open(const char *path, struct cm_reader **ret_reader, char *why);

int __wrap_cm_reader_open(const char *path, struct cm_reader **ret_reader, char *why)
{
	if (vanishes && !strcmp(path, vanishes))
		(void)unlink(path);
	return __real_cm_reader_open(path, ret_reader, why);
}

static bool proc_is_missing;

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	if (!proc_is_missing || strncmp(path, "/proc", 5))
		return __real_access(path, mode);
	errno = ENOENT;
	return -1;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	if (own_region_make(f->dir, (struct cm_region_params){0}, &f->region))
		return -1;
	f->options.dir = f->dir;
	(void)snprintf(f->ending, sizeof(f->ending), "%s/" CM_REGION_PREFIX "%u.%d.4242", f->dir,
		       (unsigned)geteuid(), ENDING);
	vanishes = f->ending;
	return link(f->region->path, f->ending);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	vanishes = NULL;
	(void)unlink(f->ending);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(one_that_ends_meanwhile_is_left_out)
{
	struct fixture *f = *state;
	struct cm_processes found;

	assert_int_equal(cm_collect(&f->options, NULL, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.item[0].pid, getpid());
	cm_processes_free(&found);
}

TEST(one_that_ends_meanwhile_is_not_there)
{
	struct fixture *f = *state;
	struct cm_processes found;
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", ENDING);
	assert_int_equal(cm_collect(&f->options, pid, &found), CM_EXIT_TARGET);
	assert_int_equal(access(f->ending, F_OK), -1);
}

/* Counts this process's. */
static unsigned count_own(const struct cm_options *options, const char *target, int *ret_error)
{
	struct cm_processes found;
	unsigned count = 0;
	size_t i;

	assert_int_equal(cm_collect(options, target, &found), 0);
	for (i = 0; i < found.count; i++) {
		if (found.item[i].pid != getpid())
			continue;
		*ret_error = found.item[i].error;
		count++;
	}
	cm_processes_free(&found);
	return count;
}

TEST(one_that_begins_meanwhile_is_there_by_its_number_alone)
{
	const struct cm_options everywhere = {0};
	struct fixture *f = *state;
	uint64_t magic = f->region->header->magic;
	int error = 0;
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	f->region->header->magic = 0;
	assert_int_equal(count_own(&f->options, NULL, &error), 0);
	assert_int_equal(count_own(&everywhere, NULL, &error), 0);
	assert_int_equal(count_own(&f->options, pid, &error), 1);
	assert_int_equal(error, -EAGAIN);
	f->region->header->magic = magic;
	assert_int_equal(count_own(&f->options, NULL, &error), 1);
	assert_int_equal(count_own(&everywhere, NULL, &error), 1);
	assert_int_equal(error, 0);
}

/* What is said if nobody is found. */
static int complain_nobody(const struct cm_options *options, char text[256])
{
	FILE *stream = fmemopen(text, 256, "w");
	int exit;

	assert_non_null(stream);
	cm_complain_to(stream);
	exit = cm_complain_nobody(options);
	cm_complain_to(NULL);
	(void)fclose(stream);
	return exit;
}

TEST(without_proc_it_is_not_said_that_there_are_none)
{
	const struct cm_options everywhere = {0};
	struct fixture *f = *state;
	char text[256] = "";

	assert_int_equal(complain_nobody(&everywhere, text), CM_EXIT_NO);
	assert_non_null(strstr(text, "no process uses libcudamem"));
	proc_is_missing = true;
	assert_int_equal(complain_nobody(&everywhere, text), CM_EXIT_TARGET);
	assert_string_equal(text, "/proc is not mounted, so no process can be seen\n");
	assert_int_equal(complain_nobody(&f->options, text), CM_EXIT_TARGET);
	proc_is_missing = false;
	assert_int_equal(complain_nobody(&f->options, text), CM_EXIT_NO);
}
