/* SPDX-License-Identifier: MIT */
/*
 * Address space of which little is ever touched: tables with room for all that can come.
 * Thread-safe.
 */
#ifndef CM_STATS_SPARSE_H
#define CM_STATS_SPARSE_H

#include <stddef.h>

/*
 * New memory of zeroes, for munmap(2); NULL and errno if it fails. A page takes memory when it is
 * touched, even after mlockall(2) with MCL_FUTURE, which would fill a plain mapping at once.
 */
void *cm_sparse_map(size_t bytes);

#endif
