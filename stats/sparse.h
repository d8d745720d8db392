/* SPDX-License-Identifier: MIT */
/*
 * Address space of which little is ever touched: tables with room for all that can come.
 * Thread-safe.
 */
#ifndef CM_STATS_SPARSE_H
#define CM_STATS_SPARSE_H

#include <stddef.h>

/*
 * As mmap(2) for reading and writing, with MAP_NORESERVE; NULL and errno if it fails. A page gets
 * memory when it is touched, even after mlockall(2) with MCL_FUTURE, which would fill a plain
 * mapping at once.
 */
void *cm_sparse_map(size_t bytes, int flags, int fd);

#endif
