/* SPDX-License-Identifier: MIT */
/*
 * Whether the loader of a program takes a library by LD_PRELOAD, as far as its file tells. It does
 * not say what the programs are that this one starts.
 */
#ifndef CM_TOOLS_RUN_LOADER_H
#define CM_TOOLS_RUN_LOADER_H

#include <limits.h>

enum cm_loader {
	CM_LOADER_PRELOADS,
	CM_LOADER_NONE,    /* a static program */
	CM_LOADER_SECURE,  /* set-user-ID, set-group-ID or with capabilities: it ignores the path */
	CM_LOADER_MACHINE, /* of another machine than the library */
	CM_LOADER_MUSL,    /* lacks functions of the library and ends the program */
};

/*
 * Finds the program that execvp(3) would run for `command`, through scripts and env(1), and looks
 * at its file. CM_LOADER_PRELOADS also if that cannot be told. `ret_path` is its path, unless the
 * command is not found. Runs nothing.
 */
enum cm_loader cm_loader_find(const char *command, const char *library, char ret_path[PATH_MAX]);

#endif
