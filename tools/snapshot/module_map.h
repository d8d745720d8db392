/* SPDX-License-Identifier: MIT */
/* Finds the modules of an image by address, one generation after the other. Pure. */
#ifndef CM_TOOLS_SNAPSHOT_MODULE_MAP_H
#define CM_TOOLS_SNAPSHOT_MODULE_MAP_H

#include "tools/snapshot/image.h"

struct cm_module_map {
	const struct cm_module **all; /* by address */
	const struct cm_module **now; /* those of the generation */
	size_t all_count;
	size_t now_count;
	uint32_t generation;
};

/* The map refers to the rows of the image. -ENOMEM. */
int cm_module_map_init(struct cm_module_map *map, const struct cm_image *image);
void cm_module_map_fini(struct cm_module_map *map);

/*
 * The module that had this address in a generation of the module map; NULL: none. Takes a pass over
 * all modules if the generation is not that of the last call.
 */
const struct cm_module *cm_module_map_find(struct cm_module_map *map, uint64_t address,
					   uint32_t generation);

#endif
