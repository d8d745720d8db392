/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's caching allocator with expandable segments, by its rules alone, as torch_rules.h: a
 * range of addresses for each stream and pool, in which pages are mapped where a request needs
 * them, and unmapped when the device is out of memory and never before. One thread.
 */
#ifndef CM_BENCH_TORCH_PAGES_H
#define CM_BENCH_TORCH_PAGES_H

#include <stddef.h>

/* A handle of the block, not its address; NULL: out of memory. Reused on its own stream only. */
void *torch_pages_alloc(size_t bytes, unsigned stream);
void torch_pages_free(void *block);
/* Unmaps every page that is wholly free, and gives ranges back that have none. */
void torch_pages_release(void);

#endif
