/* SPDX-License-Identifier: MIT */
/*
 * Address space of which little is ever touched: tables with room for all that can come.
 * Thread-safe.
 */
#ifndef CM_STATS_SPARSE_H
#define CM_STATS_SPARSE_H

#include <stddef.h>

/*
 * As mmap(2) for reading and writing, with MAP_NORESERVE; NULL and errno where it fails. Memory
 * comes where it is touched, also in a program that has all its future memory locked (mlockall(2),
 * MCL_FUTURE), for which a plain mapping would be filled at once.
 */
void *cm_sparse_map(size_t bytes, int flags, int fd);

#endif
