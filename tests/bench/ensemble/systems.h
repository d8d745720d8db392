/* SPDX-License-Identifier: MIT */
/*
 * What programs of the ensemble are played under: the library's allocator with this or that option,
 * the driver alone, PyTorch's rules. One at a time, one thread, over the card of card.h.
 */
#ifndef CM_BENCH_ENSEMBLE_SYSTEMS_H
#define CM_BENCH_ENSEMBLE_SYSTEMS_H

#include <stddef.h>
#include <stdint.h>

struct system {
	const char *name;
	const char *help;
	/* 0, or -1; for a card of so many bytes. */
	int (*open)(const struct system *system, uint64_t card, uint32_t contexts);
	/* All blocks have been freed. */
	void (*close)(void);
	/* NULL: refused. A context is a number from 0 on. */
	void *(*alloc)(uint64_t bytes, uint32_t stream, uint32_t context);
	void (*free)(void *block);
	/* Work is about to be submitted; NULL: it does not want to know. */
	void (*before_work)(void);
	/* The program waits for all work of all contexts. */
	void (*wait)(void);
	const char *conf; /* of the library, as in CUDAMEM_CONF */
};

/* The i-th, NULL behind the last; that of a name, or NULL. */
const struct system *system_at(size_t i);
const struct system *system_find(const char *name);

#endif
