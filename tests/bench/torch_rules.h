/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's native caching allocator by its rules alone: sizes, segments, best fit, splitting,
 * merging, nothing given back before the device is out of memory. A model, to compare the memory
 * that is reserved; it makes no claim to PyTorch's speed. Segments come from the driver. One
 * thread.
 */
#ifndef CM_BENCH_TORCH_RULES_H
#define CM_BENCH_TORCH_RULES_H

#include <stddef.h>

/* A handle of the block, not its address; NULL: out of memory. Reused on its own stream only. */
void *torch_rules_alloc(size_t bytes, unsigned stream);
void torch_rules_free(void *block);
/* Gives every segment back that is one free piece. */
void torch_rules_release(void);

#endif
