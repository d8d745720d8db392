/* SPDX-License-Identifier: MIT */
/*
 * The names of return addresses, by elfutils: from the objects themselves, if they still have the
 * build-id that the program ran with; from separate debug files; from a debuginfod server that
 * DEBUGINFOD_URLS names. What is not found has no names; that is no error.
 */
#ifndef CM_TOOLS_SNAPSHOT_SYMBOLS_H
#define CM_TOOLS_SNAPSHOT_SYMBOLS_H

#include <stdint.h>

#include "tools/snapshot/image.h"

/* Why names are missing. */
struct cm_symbols_report {
	uint32_t modules;  /* on the stacks */
	uint32_t missing;  /* objects that are missing or have changed */
	const char *lacks; /* the library that this build lacks; NULL: none */
};

/*
 * Fills CM_TABLE_SITE, CM_TABLE_FRAME and CM_TABLE_NAME of an image, unless they are filled
 * already. Reads files, and may wait for a debuginfod server. Searches the directories of
 * `debug_path`, a list separated by colons, for separate debug files before the usual ones; NULL:
 * only those. -ENOMEM.
 */
int cm_symbols_add(struct cm_image *image, const char *debug_path,
		   struct cm_symbols_report *ret_report);

#endif
