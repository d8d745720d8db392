/* SPDX-License-Identifier: MIT */
/*
 * One object and its debug information, by libdwfl. Addresses are those that the object was linked
 * for. Only in builds with libdw (CM_HAVE_LIBDW).
 */
#ifndef CM_TOOLS_SNAPSHOT_SYMBOLS_DW_H
#define CM_TOOLS_SNAPSHOT_SYMBOLS_DW_H

#include <stdint.h>

#include "stats/layout.h"

struct cm_dw;

typedef void (*cm_dw_fn)(void *data, const char *function, const char *file, uint32_t line);

/*
 * Sets the directories that are searched for separate debug files before the usual ones, a list
 * separated by colons; NULL: none. -ENOMEM.
 */
int cm_dw_look_in(const char *folders);

/*
 * Opens the object of a module: the file at `path` if it has the recorded build-id, else one found
 * by the build-id (debug files, debuginfod). NULL: not found.
 */
struct cm_dw *cm_dw_open(const struct cm_module *module, const char *path);
void cm_dw_close(struct cm_dw *dw);

/*
 * Calls fn for each function at the address, inlined ones first; not at all if none is known. The
 * texts are valid during the call; `file` may be NULL, `line` 0.
 */
void cm_dw_name(struct cm_dw *dw, uint64_t address, cm_dw_fn fn, void *data);

#endif
