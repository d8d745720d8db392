/* SPDX-License-Identifier: MIT */
/*
 * A limit: the library's own free blocks and page map behind a mutex, over one range of
 * addresses, and nothing else: no driver, no memory that has to become ready, no statistics, no
 * region, no events. What the library takes more than that is the price of those.
 */
#ifndef CM_BENCH_BARE_H
#define CM_BENCH_BARE_H

#include <stddef.h>

/* See struct allocator. Thread-safe, but for the first. */
int bare_open(void);
void *bare_alloc(size_t bytes, unsigned stream);
void bare_free(void *block_addr);

#endif
