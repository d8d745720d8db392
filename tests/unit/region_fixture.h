/* SPDX-License-Identifier: MIT */
/* A folder for regions, which each test has new and empty, and a region in it. */
#ifndef CM_TESTS_UNIT_REGION_FIXTURE_H
#define CM_TESTS_UNIT_REGION_FIXTURE_H

#include "stats/region.h"

struct cm_region_fixture {
	char dir[40];
	struct cm_region *region; /* NULL: none. Removed with the folder. */
};

/* cmocka's setup and teardown: *state is a struct cm_region_fixture. */
int cm_region_fixture_init(void **state);
int cm_region_fixture_fini(void **state);

/* Creates the region, in the folder. As cm_region_create. */
int cm_region_fixture_create(struct cm_region_fixture *fixture, uint32_t events);

/* How many files are in the folder. */
int cm_region_fixture_files(const struct cm_region_fixture *fixture);

#endif
