/* SPDX-License-Identifier: MIT */
/*
 * One object and its debug information, by libdwfl. Addresses are as the object was linked.
 */
#ifndef CM_TOOLS_SNAPSHOT_SYMBOLS_DW_H
#define CM_TOOLS_SNAPSHOT_SYMBOLS_DW_H

#include <stdint.h>

#include "stats/layout.h"

struct cm_dw;

typedef void (*cm_dw_fn)(void *data, const char *function, const char *file, uint32_t line);

/*
 * From here on separate debug files are looked for in these folders too, a list with colons; NULL:
 * in the usual places alone. -ENOMEM.
 */
int cm_dw_look_in(const char *folders);

/*
 * Finds the object of a module: the file at `path` if its build-id is the one recorded, else by the
 * build-id alone (debug files, debuginfod). NULL: nowhere.
 */
struct cm_dw *cm_dw_open(const struct cm_module *module, const char *path);
void cm_dw_close(struct cm_dw *dw);

/*
 * Calls fn for each function that the address is in, inlined ones first; not at all where none is
 * known. The texts are the callee's only during the call; `file` may be NULL, `line` 0.
 */
void cm_dw_name(struct cm_dw *dw, uint64_t address, cm_dw_fn fn, void *data);

#endif
