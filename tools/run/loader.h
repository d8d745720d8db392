/* SPDX-License-Identifier: MIT */
/*
 * Whether the loader of a program takes a library by LD_PRELOAD, as far as the program's file
 * tells, and which commands keep it from the programs that they start.
 */
#ifndef CM_TOOLS_RUN_LOADER_H
#define CM_TOOLS_RUN_LOADER_H

#include <limits.h>
#include <stdbool.h>

enum cm_loader {
	CM_LOADER_PRELOADS,
#define CM_LOADER(ID, why, remedy) CM_LOADER_##ID,
#include "tools/run/loader.def"
	CM_LOADER_COUNT
};

/* Why a program is not covered, as the end of a sentence about it, and what to do; both for the
 * causes behind CM_LOADER_PRELOADS. */
const char *cm_loader_why(enum cm_loader loader);
const char *cm_loader_remedy(enum cm_loader loader);

/*
 * Finds the program that execvp(3) would run for `command`, through scripts and env(1), and looks
 * at its file. CM_LOADER_PRELOADS also if that cannot be told. `ret_path` is its path, unless the
 * command is not found: then it is empty. Runs nothing.
 */
enum cm_loader cm_loader_find(const char *command, const char *library, char ret_path[PATH_MAX]);

/* Why the programs that a command starts are not covered, as the end of a sentence about it, though
 * it is itself; NULL: it is not known to start any elsewhere. What to do is CM_LOADER_BEHIND. */
const char *cm_loader_wraps(char *const *command);
#define CM_LOADER_BEHIND "put 'cudamemstat run --' behind it, before the program"

/* Whether a program names glibc's loader: if LD_TRACE_LOADED_OBJECTS is set, that one lists what it
 * would load, and does not start the program. */
bool cm_loader_is_glibc(const char *path);

#endif
