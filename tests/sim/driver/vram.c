/* SPDX-License-Identifier: MIT */
#include "vram.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "card.h"

enum { UNITS_PER_CHUNK = SIM_CHUNK_BYTES / SIM_UNIT_BYTES };

/* Of the address range, to the card's memory; see the head of vram.h. */
enum { SPAN_FACTOR = 4 };

/* Address space of whole chunks, not to be touched yet; NULL when there is not that much. */
static char *reserve(uint64_t bytes)
{
	uint64_t slack = SIM_CHUNK_BYTES;
	char *hole = mmap(NULL, bytes + slack, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t lead;

	if (hole == MAP_FAILED)
		return NULL;
	lead = -(uint64_t)(uintptr_t)hole % SIM_CHUNK_BYTES;
	munmap(hole + lead + bytes, slack - lead);
	if (lead)
		munmap(hole, lead);
	return hole + lead;
}

static int map_file(struct sim_vram *vram)
{
	int access = vram->guard ? PROT_NONE : PROT_READ | PROT_WRITE;

	vram->fd = memfd_create("cudasim", MFD_CLOEXEC);
	if (vram->fd < 0 || ftruncate(vram->fd, (off_t)(2 * vram->span)))
		return -errno;
	if (mmap(vram->base, vram->span, access, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, vram->fd,
		 0) == MAP_FAILED)
		return -errno;
	/* A forked child has no device, and must not write to its parent's. */
	madvise(vram->base, vram->span, MADV_DONTFORK);
	return 0;
}

static void give_up(struct sim_vram *vram)
{
	sim_extents_fini(&vram->chunks);
	sim_extents_fini(&vram->units);
	sim_extents_fini(&vram->physical);
	if (vram->base)
		munmap(vram->base, vram->span);
	if (vram->fd >= 0)
		close(vram->fd);
}

/* With addresses for so many chunks. */
static int init_chunks(struct sim_vram *vram, uint64_t chunks)
{
	int err = 0;

	/* Units are counted in 32 bits. */
	if (!chunks || chunks * UNITS_PER_CHUNK >= SIM_NO_UNIT)
		return -EINVAL;
	vram->fd = -1;
	vram->span = chunks * SIM_CHUNK_BYTES;
	vram->base = reserve(vram->span);
	if (!vram->base)
		return -ENOMEM;
	if (sim_extents_init(&vram->chunks, (uint32_t)chunks, 0) ||
	    sim_extents_init(&vram->units, (uint32_t)chunks * UNITS_PER_CHUNK, UNITS_PER_CHUNK) ||
	    sim_extents_init(&vram->physical, (uint32_t)chunks, 0))
		err = -ENOMEM;
	if (!err)
		err = map_file(vram);
	if (err) {
		give_up(vram);
		return err;
	}
	sim_extents_add(&vram->chunks, 0, (uint32_t)chunks);
	sim_extents_add(&vram->physical, 0, (uint32_t)chunks);
	return 0;
}

int sim_vram_init(struct sim_vram *vram, int device, uint64_t limit, bool guard)
{
	int err = -EINVAL;

	/* Where address space is short, as under some checkers, less of it has to do. */
	for (unsigned factor = SPAN_FACTOR; err && factor; factor /= 2) {
		*vram = (struct sim_vram){.device = device, .limit = limit, .guard = guard};
		err = init_chunks(vram, limit / SIM_CHUNK_BYTES * factor);
	}
	return err;
}

bool sim_vram_charge(struct sim_vram *vram, uint64_t bytes)
{
	if (bytes > vram->limit - vram->used ||
	    !sim_card_enter(vram->device, vram->used + bytes, vram->limit))
		return false;
	vram->used += bytes;
	if (vram->used > vram->peak)
		vram->peak = vram->used;
	return true;
}

void sim_vram_uncharge(struct sim_vram *vram, uint64_t bytes)
{
	vram->used -= bytes;
	(void)sim_card_enter(vram->device, vram->used, vram->limit);
}

uint64_t sim_vram_left(const struct sim_vram *vram)
{
	const uint64_t used = vram->used + sim_card_others(vram->device);

	return used < vram->limit ? vram->limit - used : 0;
}

static uint32_t chunks_of(uint64_t bytes)
{
	return (uint32_t)((bytes + SIM_CHUNK_BYTES - 1) / SIM_CHUNK_BYTES);
}

static void drop(struct sim_vram *vram, uint64_t offset, uint64_t bytes)
{
	fallocate(vram->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		  (off_t)bytes);
}

/* The first of a run of chunks that can be touched from now on, or SIM_NO_UNIT. */
static uint32_t open_chunks(struct sim_vram *vram, uint32_t count, void *owner)
{
	uint64_t bytes = count * SIM_CHUNK_BYTES;
	uint32_t first;
	uint32_t length;

	if (!sim_vram_charge(vram, bytes))
		return SIM_NO_UNIT;
	first = sim_extents_alloc(&vram->chunks, count, owner);
	if (first != SIM_NO_UNIT && vram->guard &&
	    mprotect(vram->base + first * SIM_CHUNK_BYTES, bytes, PROT_READ | PROT_WRITE)) {
		sim_extents_free(&vram->chunks, first, &length);
		first = SIM_NO_UNIT;
	}
	if (first == SIM_NO_UNIT)
		sim_vram_uncharge(vram, bytes);
	return first;
}

static void close_chunks(struct sim_vram *vram, uint32_t first, uint32_t count)
{
	uint64_t offset = first * SIM_CHUNK_BYTES;
	uint64_t bytes = count * SIM_CHUNK_BYTES;
	uint32_t length;

	if (vram->guard) {
		mprotect(vram->base + offset, bytes, PROT_NONE);
		drop(vram, offset, bytes);
	}
	sim_extents_free(&vram->chunks, first, &length);
	sim_vram_uncharge(vram, bytes);
}

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + SIM_UNIT_BYTES - 1) / SIM_UNIT_BYTES);
}

static uint64_t alloc_units(struct sim_vram *vram, uint64_t bytes, void *owner)
{
	uint32_t unit = sim_extents_alloc(&vram->units, units_of(bytes), owner);

	if (unit == SIM_NO_UNIT) {
		uint32_t chunk = open_chunks(vram, 1, NULL);

		if (chunk == SIM_NO_UNIT)
			return 0;
		sim_extents_add(&vram->units, chunk * UNITS_PER_CHUNK, UNITS_PER_CHUNK);
		unit = sim_extents_alloc(&vram->units, units_of(bytes), owner);
	}
	return (uint64_t)(uintptr_t)vram->base + unit * SIM_UNIT_BYTES;
}

static void free_units(struct sim_vram *vram, uint32_t unit, uint64_t bytes)
{
	uint32_t length;

	if (vram->guard)
		memset(vram->base + unit * SIM_UNIT_BYTES, SIM_FREED_BYTE, bytes);
	unit = sim_extents_free(&vram->units, unit, &length);
	if (length == UNITS_PER_CHUNK) {
		sim_extents_remove(&vram->units, unit);
		close_chunks(vram, unit / UNITS_PER_CHUNK, 1);
	}
}

static uint64_t alloc_chunks(struct sim_vram *vram, uint64_t bytes, void *owner)
{
	uint32_t chunk = open_chunks(vram, chunks_of(bytes), owner);

	if (chunk == SIM_NO_UNIT)
		return 0;
	return (uint64_t)(uintptr_t)vram->base + chunk * SIM_CHUNK_BYTES;
}

uint64_t sim_vram_alloc(struct sim_vram *vram, uint64_t bytes, void *owner)
{
	uint64_t addr;

	if (bytes > vram->limit)
		return 0;
	addr = bytes < SIM_SMALL_BYTES ? alloc_units(vram, bytes, owner)
				       : alloc_chunks(vram, bytes, owner);
	vram->live += addr != 0;
	return addr;
}

void sim_vram_free(struct sim_vram *vram, uint64_t addr, uint64_t bytes)
{
	uint64_t offset = addr - (uint64_t)(uintptr_t)vram->base;

	vram->live--;
	if (bytes < SIM_SMALL_BYTES)
		free_units(vram, (uint32_t)(offset / SIM_UNIT_BYTES), bytes);
	else
		close_chunks(vram, (uint32_t)(offset / SIM_CHUNK_BYTES), chunks_of(bytes));
}

uint64_t sim_vram_take(struct sim_vram *vram, uint64_t bytes)
{
	uint32_t chunk;

	if (!sim_vram_charge(vram, bytes))
		return UINT64_MAX;
	chunk = sim_extents_alloc(&vram->physical, chunks_of(bytes), NULL);
	if (chunk == SIM_NO_UNIT) {
		sim_vram_uncharge(vram, bytes);
		return UINT64_MAX;
	}
	vram->taken += bytes;
	vram->takes++;
	return vram->span + chunk * SIM_CHUNK_BYTES;
}

void sim_vram_give(struct sim_vram *vram, uint64_t offset, uint64_t bytes)
{
	uint32_t length;

	drop(vram, offset, bytes);
	sim_extents_free(&vram->physical, (uint32_t)((offset - vram->span) / SIM_CHUNK_BYTES),
			 &length);
	vram->taken -= bytes;
	vram->takes--;
	sim_vram_uncharge(vram, bytes);
}

void *sim_vram_owner(const struct sim_vram *vram, uint64_t addr)
{
	uint64_t offset = addr - (uint64_t)(uintptr_t)vram->base;
	uint32_t chunk = (uint32_t)(offset / SIM_CHUNK_BYTES);
	void *owner = sim_extents_owner(&vram->chunks, chunk);

	return owner ? owner : sim_extents_owner(&vram->units, (uint32_t)(offset / SIM_UNIT_BYTES));
}
