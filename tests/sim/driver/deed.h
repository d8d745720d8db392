/* SPDX-License-Identifier: MIT */
/*
 * Who did what, where: what the checker keeps of works and of allocations so that it can tell of
 * them when they are long over. All counted. Caller locks.
 */
#ifndef CM_SIM_DEED_H
#define CM_SIM_DEED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "memory.h"

struct sim_stream;
struct sim_work;

/* A call of the program's. */
struct sim_place {
	unsigned refs;
	unsigned depth;
	uint64_t thread;
	void *frames[];
};

/* Something that touched memory. */
struct sim_deed {
	unsigned refs;
	bool by_host; /* the CPU itself; then the stream means nothing */
	bool by_graph;
	char what[40];
	uint64_t stream;
	unsigned stream_flags;
	bool legacy;
	uint64_t ctx;
	int device;
	struct sim_place *place;
};

/* From whom memory is had. */
enum sim_source {
	SIM_FROM_DRIVER,
	SIM_FROM_ALLOCATOR,
	SIM_FOR_ALLOCATOR, /* from the driver, and nobody's until the allocator hands it out */
};

/* An allocation, from the request to the free. */
struct sim_holding {
	unsigned refs;
	enum sim_source source;
	enum sim_mem_kind kind;
	uint64_t addr;
	uint64_t bytes;
	struct sim_place *got;
	struct sim_place *left; /* NULL: it lives */
};

/* Loads what a look at the stack needs; outside of the lock, before any other of these. */
void sim_place_prepare(void);
/* The calling thread's, without the simulator's own calls; a reference. */
struct sim_place *sim_place_here(void);
void sim_place_unref(struct sim_place *place);
/* A line for each frame. */
void sim_place_print(FILE *file, const struct sim_place *place, const char *lead);

struct sim_deed *sim_deed_of_work(const struct sim_work *work, const struct sim_stream *stream,
				  bool by_graph);
struct sim_deed *sim_deed_of_host(const char *what);
void sim_deed_unref(struct sim_deed *deed);

struct sim_holding *sim_holding_create(uint64_t addr, uint64_t bytes, enum sim_mem_kind kind,
				       enum sim_source source);
void sim_holding_unref(struct sim_holding *holding);

#endif
