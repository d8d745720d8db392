/* SPDX-License-Identifier: MIT */
/*
 * Everything that an address can belong to: one struct sim_mem for each allocation of any kind,
 * found by any address inside it. Caller locks.
 */
#ifndef CM_SIM_MEMORY_H
#define CM_SIM_MEMORY_H

#include "call.h"

struct sim_ctx;
struct sim_device;

enum sim_mem_kind {
	SIM_MEM_DEVICE,     /* cuMemAlloc, cuMemAllocPitch */
	SIM_MEM_ASYNC,      /* cuMemAllocAsync */
	SIM_MEM_ARRAY,      /* behind an array: no address for the program */
	SIM_MEM_GRAPH,      /* an allocation node's */
	SIM_MEM_GLOBAL,     /* a module's variable */
	SIM_MEM_HOST,       /* cuMemHostAlloc */
	SIM_MEM_MANAGED,    /* cuMemAllocManaged */
	SIM_MEM_REGISTERED, /* cuMemHostRegister: the program's own pages */
	SIM_MEM_IMPORTED,   /* cuIpcOpenMemHandle */
	SIM_MEM_RESERVED,   /* cuMemAddressReserve: addresses only */
	SIM_MEM_MAPPED,     /* cuMemMap, inside a reserved range */
};

struct sim_mem {
	enum sim_mem_kind kind;
	uint64_t base;
	uint64_t bytes; /* as asked for */
	uint64_t id;    /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	unsigned flags; /* of the call that made it */
	bool sync_memops;
	bool exported; /* an IPC handle of it was given out */
	bool going;    /* its free is on the way in a stream */
	struct sim_device *device;
	struct sim_ctx *ctx;                  /* NULL where it outlives contexts */
	void *extra;                          /* the kind's own */
	void (*dispose)(struct sim_mem *mem); /* when it goes; or NULL */
	struct sim_mem *next;                 /* of the context, or free structs */
	struct sim_mem *prev;
	struct sim_mem *newer; /* of all */
	struct sim_mem *older;
};

/* All that there is, the newest first. */
extern struct sim_mem *sim_mem_newest;

/* Device memory of a kind in a context; NULL when the card is full. */
struct sim_mem *sim_mem_alloc(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t bytes);
/* The same on a device, of no context. */
struct sim_mem *sim_mem_alloc_on(struct sim_device *device, enum sim_mem_kind kind, uint64_t bytes);

/* Memory that lies elsewhere: only known from here on. NULL when memory is out. */
struct sim_mem *sim_mem_add(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t base,
			    uint64_t bytes);

/* The same with pages of the host behind it. */
struct sim_mem *sim_mem_map(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t bytes);

/* Forgets it, and gives back what is behind it where this module allocated it. */
void sim_mem_free(struct sim_mem *mem);

/* What the address lies in, or NULL. */
struct sim_mem *sim_mem_find(uint64_t addr);
/* Only when the address is where it begins. */
struct sim_mem *sim_mem_find_base(uint64_t addr);
/* True when any known memory lies in the range. */
bool sim_mem_overlaps(uint64_t addr, uint64_t bytes);
/*
 * True when all of the range belongs to live memory that a device may read, or write; host memory
 * unknown to us counts as such.
 */
bool sim_mem_is_live(uint64_t addr, uint64_t bytes, bool write);

static inline bool sim_mem_is_on_device(const struct sim_mem *mem)
{
	return mem->kind <= SIM_MEM_GLOBAL || mem->kind == SIM_MEM_IMPORTED ||
	       mem->kind == SIM_MEM_MAPPED;
}

#endif
