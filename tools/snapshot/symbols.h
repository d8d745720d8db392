/* SPDX-License-Identifier: MIT */
/*
 * The names of return addresses, by elfutils: from the objects themselves, if they still have the
 * build-id that the program ran with; from separate debug files; from a debuginfod server that
 * DEBUGINFOD_URLS names. What is not found has no names; that is no error.
 */
#ifndef CM_TOOLS_SNAPSHOT_SYMBOLS_H
#define CM_TOOLS_SNAPSHOT_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/snapshot/image.h"

/* Where names come from. */
struct cm_symbols_from {
	const char *debug_path; /* searched before the usual places; separated by colons, or NULL */
	uid_t owner;            /* whose process or file says which objects those are */
	bool local;             /* asks no debuginfod server */
};

/* Why names are missing. */
struct cm_symbols_report {
	uint32_t modules;  /* on the stacks */
	uint32_t missing;  /* objects that are missing or have changed */
	const char *lacks; /* the library that this build lacks; NULL: none */
};

/*
 * Fills CM_TABLE_SITE, CM_TABLE_FRAME and CM_TABLE_NAME of an image, unless they are filled
 * already. Reads files in a process of its own, with the rights of `owner` if the tool is root, and
 * may wait for a debuginfod server; gives up when no name was found for two minutes. -ENOMEM, or
 * the error of fork(2).
 */
int cm_symbols_add(struct cm_image *image, const struct cm_symbols_from *from,
		   struct cm_symbols_report *ret_report);

#endif
