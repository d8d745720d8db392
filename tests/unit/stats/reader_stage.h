/* SPDX-License-Identifier: MIT */
/*
 * A region of the test's own, which its reader opens, and processes that own another one.
 */
#ifndef CM_TESTS_UNIT_READER_STAGE_H
#define CM_TESTS_UNIT_READER_STAGE_H

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/reader.h"
#include "stats/region.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	struct cm_region *region;
	struct cm_reader *reader;
	char why[CM_READER_WHY_BYTES];
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct cm_region_params params = {.version = "1.2.3"};

	if (!f)
		return -1;
	if (own_region_make(f->dir, params, &f->region))
		return -1;
	f->region->header->state = CM_REGION_LIVE;
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	cm_reader_close(f->reader);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

static inline void open_region(struct fixture *f)
{
	assert_int_equal(cm_reader_open(f->region->path, &f->reader, f->why), 0);
}

/* A child that makes a region of its own, says so, and waits. */
static inline pid_t start_owner(const struct fixture *f, enum cm_backing backing, char *ret_path)
{
	const struct cm_region_params params = {.dir = f->dir, .backing = backing};
	struct cm_region *region;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		if (cm_region_create(&params, &region))
			_exit(1);
		region->header->state = CM_REGION_LIVE;
		if (write(ends[1], region->path, sizeof(region->path)) < 0)
			_exit(1);
		for (;;)
			(void)pause();
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], ret_path, sizeof(f->region->path)), sizeof(f->region->path));
	(void)close(ends[0]);
	return child;
}

#endif
