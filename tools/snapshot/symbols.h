/* SPDX-License-Identifier: MIT */
/*
 * What return addresses mean, by elfutils: from the objects where they lie, if they still have the
 * build-id that the program ran with; from separate debug files; from a debuginfod where
 * DEBUGINFOD_URLS names one. What is not found costs names and nothing else.
 */
#ifndef CM_TOOLS_SNAPSHOT_SYMBOLS_H
#define CM_TOOLS_SNAPSHOT_SYMBOLS_H

#include <stdint.h>

#include "tools/snapshot/image.h"

/* What could not be found out, for the person who wonders about missing names. */
struct cm_symbols_report {
	uint32_t modules;  /* that stacks pass through */
	uint32_t missing;  /* objects that are gone or have changed */
	const char *lacks; /* what this build has not, NULL: nothing */
};

/*
 * Fills CM_TABLE_SITE, CM_TABLE_FRAME and CM_TABLE_NAME of an image, unless somebody has before.
 * Reads files, and may wait for a debuginfod. Separate debug files are looked for in the folders of
 * `debug_path`, a list with colons, before the usual places; NULL: there alone. -ENOMEM.
 */
int cm_symbols_add(struct cm_image *image, const char *debug_path,
		   struct cm_symbols_report *ret_report);

#endif
