/* SPDX-License-Identifier: MIT */
/*
 * What libcudamem says of this process, where it is in it: read from its region, as the tool does
 * from outside, and therefore without the tool. Thread-safe.
 */
#ifndef CM_GPU_KIT_LIBRARY_H
#define CM_GPU_KIT_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

bool library_is_here(void);

/* A figure of device 0, or of pinned host memory, by its key in PyTorch's dictionaries; -1: not
 * there. */
int64_t library_device_figure(const char *key);
int64_t library_host_figure(const char *key);

/*
 * Leaves {"device": {...}, "host": {...}} in the file that GPU_SUITE_STATS names: the last thing
 * that a program does. Nothing where there is no library, no region or no such variable.
 */
void library_leave_figures(void);

#ifdef __cplusplus
}
#endif

#endif
