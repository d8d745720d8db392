/* SPDX-License-Identifier: MIT */
/*
 * The memory of one device: a range of real host addresses backed by a memory file, so that copies
 * move bytes and another process can map a piece of it. As a driver does, it takes the card's
 * memory in chunks of 2 MiB: a request of 1 MiB or more has chunks of its own, smaller ones share
 * chunks in units of 512 bytes. Untouched pages cost no host memory. With the plan's guard, freed
 * chunks fault and freed units are overwritten. Caller locks.
 *
 * The address range is larger than the card, for a card maps its pages as it likes: memory is never
 * out because of how it lies. The upper part of the file holds physical memory without an address
 * (cuMemCreate).
 */
#ifndef CM_SIM_VRAM_H
#define CM_SIM_VRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extents.h"

#define SIM_CHUNK_BYTES ((uint64_t)2 << 20)
#define SIM_UNIT_BYTES  ((uint64_t)512)
#define SIM_SMALL_BYTES ((uint64_t)1 << 20)

/* What a freed unit is filled with, so that a stale read shows. */
#define SIM_FREED_BYTE 0xdf

struct sim_vram {
	int fd;
	int device; /* its number, in the ledger of cards */
	bool guard;
	char *base;
	uint64_t span;  /* bytes of address range, and of the lower part of the file */
	uint64_t limit; /* bytes of the card */
	uint64_t used;  /* chunks taken, other processes' left out */
	uint64_t peak;
	uint64_t live;  /* allocations */
	uint64_t taken; /* bytes of chunks without an address */
	uint64_t takes; /* how many such allocations there are */
	struct sim_extents chunks;
	struct sim_extents units;
	struct sim_extents physical; /* chunks of the upper part of the file */
};

/* 0 or a negative errno. */
int sim_vram_init(struct sim_vram *vram, int device, uint64_t limit, bool guard);

/* The address, or 0 when the card has not that much left. */
uint64_t sim_vram_alloc(struct sim_vram *vram, uint64_t bytes, void *owner);
/* `addr` and `bytes` as of sim_vram_alloc(). */
void sim_vram_free(struct sim_vram *vram, uint64_t addr, uint64_t bytes);

/* Physical chunks without an address: the offset in the file, or UINT64_MAX. */
uint64_t sim_vram_take(struct sim_vram *vram, uint64_t bytes);
void sim_vram_give(struct sim_vram *vram, uint64_t offset, uint64_t bytes);

/* Memory that no address stands for, such as a context's own. False when there is not enough. */
bool sim_vram_charge(struct sim_vram *vram, uint64_t bytes);
void sim_vram_uncharge(struct sim_vram *vram, uint64_t bytes);

/* What is left of the card, by other processes too. */
uint64_t sim_vram_left(const struct sim_vram *vram);

static inline bool sim_vram_has(const struct sim_vram *vram, uint64_t addr)
{
	return addr - (uint64_t)(uintptr_t)vram->base < vram->span;
}

/* The owner of the live memory at the address, which sim_vram_has(); NULL where there is none. */
void *sim_vram_owner(const struct sim_vram *vram, uint64_t addr);

#endif
