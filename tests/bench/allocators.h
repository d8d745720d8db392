/* SPDX-License-Identifier: MIT */
/*
 * The allocators that are measured, all behind the same two functions, so that the call of each
 * costs the same. One thread calls open(); the other functions are as thread-safe as the allocator.
 */
#ifndef CM_BENCH_ALLOCATORS_H
#define CM_BENCH_ALLOCATORS_H

#include <stddef.h>
#include <stdint.h>

struct allocator {
	const char *name;
	const char *help;
	/* 0, or -1 after a message; NULL: nothing is to be prepared. */
	int (*open)(void);
	/* NULL where there is no memory. `bytes` > 0; most take no notice of the stream. */
	void *(*alloc)(size_t bytes, unsigned stream);
	void (*free)(void *block);
	/* Requests to the CUDA runtime so far, for allocators that count them themselves; NULL:
	 * none. */
	uint64_t (*calls)(void);
};

/* The allocator of that name, or NULL. */
const struct allocator *allocator_find(const char *name);
/* The i-th allocator, or NULL behind the last. */
const struct allocator *allocator_at(size_t i);

#endif
