/* SPDX-License-Identifier: MIT */
/*
 * Counting device memory that passes by the cache (allocator/entry/uncached.h), for the doors that
 * pass it. To be used inside the hook; where there is no cache nothing is counted.
 */
#ifndef CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H
#define CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H

#include <stdint.h>

#include "allocator/entry/uncached.h"
#include "interpose/symbols/hooks.h"

/* Counts memory that the current context has got, and loses with its end. */
void cm_uncached_note(enum cm_uncached_kind kind, enum cm_uncached_name name, uint64_t key,
		      uint64_t bytes);

/* Around a driver call that gives memory up: what is taken before, and its answer. */
uint32_t cm_uncached_begin_free(enum cm_uncached_name name, uint64_t key);
CUresult cm_uncached_finish(uint32_t taken, CUresult res);

#endif
