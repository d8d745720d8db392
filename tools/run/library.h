/* SPDX-License-Identifier: MIT */
/*
 * Where the library to preload is.
 */
#ifndef CM_TOOLS_RUN_LIBRARY_H
#define CM_TOOLS_RUN_LIBRARY_H

#include <limits.h>

#define CM_LIBRARY_NAME "libcudamem.so"

/*
 * The absolute path of the library: `given`, or if that is NULL the one beside this tool, installed
 * or in a build tree. Negative errno of realpath(3), -ENOENT if there is none.
 */
int cm_library_find(const char *given, char ret_path[PATH_MAX]);

#endif
