/* SPDX-License-Identifier: MIT */
/*
 * A region that is being made row by row, as the library would have left it: segments that fill up
 * from their beginning, with the events, counters and stacks of what happens in them. One a
 * program. Whatever goes wrong ends the program.
 */
#ifndef CM_TESTS_SNAPSHOT_SCENE_H
#define CM_TESTS_SNAPSHOT_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/region.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* A segment. */
struct place {
	uint32_t device;
	uint32_t segment;
	uint32_t last; /* its last block */
	uint64_t next; /* where the next block begins */
	uint64_t end;
};

extern struct scene {
	struct cm_region *region;
	uint32_t segments;
	uint32_t blocks;
	uint64_t tick;
	uint32_t texts;
	uint32_t words;
	uint32_t annotation;
	uint32_t heap;  /* of what comes next */
	bool plain;     /* no stacks of this program */
	uint32_t stack; /* that is in their place */
} scene;

void fail(const char *what);

/* A region with two devices, and contexts of the first, of the second, and of the first again. */
void begin(const struct cm_region_params *params);

/* Adds the objects of this program. */
void add_modules(void);

/* Gives the region the identity of a process that is not there, and a clock that is known; prints
 * its path. */
void finish(const char *dir);

void *row_at(enum cm_table table, uint32_t index);
struct cm_device_row *device_row(uint32_t device);
uint32_t add_text(const char *text);

/* This program's stack from the caller on, and a Python frame behind it. */
uint32_t capture(void);

/* An event of the place's device, or of pinned memory. */
void note(const struct place *place, enum cm_action action, uint64_t addr, uint64_t size,
	  uint32_t stack);

/* A new segment of a device, or of CM_DEVICE_NONE. */
void open_place(struct place *place, uint32_t device, uint64_t addr, uint64_t size, uint32_t flags);

/* What is left of a place becomes one free block. */
void close_place(struct place *place);

/* A block behind the last one of the place, without an event. */
struct cm_block *append(struct place *place, uint64_t size);

/* Allocates a block behind the last one. */
struct cm_block *cuda_get(struct place *place, uint64_t requested);

/* Frees it; `ready`: the device is done with it. */
void put(struct place *place, struct cm_block *block, bool ready);

#endif
