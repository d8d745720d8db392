/* SPDX-License-Identifier: MIT */
/*
 * A region of this process as a file in a folder of its own, as the tool finds those of others.
 */
#ifndef CM_TESTS_UNIT_OWN_REGION_H
#define CM_TESTS_UNIT_OWN_REGION_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/region.h"

#define OWN_REGION_DIR_BYTES 32

/* 0 or -1. `params` but for the folder, whose name is put into `dir`. */
static inline int own_region_make(char dir[OWN_REGION_DIR_BYTES], struct cm_region_params params,
				  struct cm_region **ret_region)
{
	(void)snprintf(dir, OWN_REGION_DIR_BYTES, "cudamem-test-XXXXXX");
	params.dir = dir;
	return mkdtemp(dir) && !cm_region_create(&params, ret_region) && (*ret_region)->path[0]
		       ? 0
		       : -1;
}

/* As root can, and nobody else before a chmod. 0 or -1. */
static inline int own_region_truncate(const struct cm_region *region, off_t bytes)
{
	return chmod(region->path, 0600) || truncate(region->path, bytes) ? -1 : 0;
}

static inline void own_region_remove(const char *dir, struct cm_region *region)
{
	cm_region_remove(region);
	cm_region_abandon(region);
	(void)rmdir(dir);
}

#endif
