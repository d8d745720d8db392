/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "checker.h"
#include "context.h"
#include "device.h"
#include "ranges.h"
#include "vmm.h"

struct sim_mem *sim_mem_newest;

static struct sim_mem *spare;
static uint64_t last_id;

static struct sim_mem *create(enum sim_mem_kind kind, uint64_t bytes)
{
	struct sim_mem *mem = spare;

	if (mem)
		spare = mem->next;
	else
		mem = malloc(sizeof(*mem));
	if (!mem)
		return NULL;
	*mem = (struct sim_mem){
		.kind = kind, .bytes = bytes, .id = ++last_id, .older = sim_mem_newest};
	if (mem->older)
		mem->older->newer = mem;
	sim_mem_newest = mem;
	return mem;
}

static void destroy(struct sim_mem *mem)
{
	if (mem->older)
		mem->older->newer = mem->newer;
	if (mem->newer)
		mem->newer->older = mem->older;
	else
		sim_mem_newest = mem->older;
	mem->next = spare;
	spare = mem;
}

static void link_to(struct sim_ctx *ctx, struct sim_mem *mem)
{
	mem->ctx = ctx;
	mem->next = ctx->memory;
	if (mem->next)
		mem->next->prev = mem;
	ctx->memory = mem;
}

static void unlink_from(struct sim_ctx *ctx, struct sim_mem *mem)
{
	if (mem->next)
		mem->next->prev = mem->prev;
	if (mem->prev)
		mem->prev->next = mem->next;
	else
		ctx->memory = mem->next;
}

struct sim_mem *sim_mem_alloc_on(struct sim_device *device, enum sim_mem_kind kind, uint64_t bytes)
{
	struct sim_mem *mem = create(kind, bytes);

	if (!mem)
		return NULL;
	mem->device = device;
	mem->base = sim_vram_alloc(&device->vram, bytes, mem);
	if (!mem->base) {
		destroy(mem);
		return NULL;
	}
	sim_checker_allocated(mem);
	return mem;
}

struct sim_mem *sim_mem_alloc(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t bytes)
{
	struct sim_mem *mem = sim_mem_alloc_on(ctx->device, kind, bytes);

	if (mem)
		link_to(ctx, mem);
	return mem;
}

struct sim_mem *sim_mem_add(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t base,
			    uint64_t bytes)
{
	struct sim_mem *mem = create(kind, bytes);

	if (!mem)
		return NULL;
	mem->base = base;
	if (sim_ranges_add(mem)) {
		destroy(mem);
		return NULL;
	}
	if (ctx) {
		mem->device = ctx->device;
		link_to(ctx, mem);
	}
	sim_checker_allocated(mem);
	return mem;
}

struct sim_mem *sim_mem_map(struct sim_ctx *ctx, enum sim_mem_kind kind, uint64_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sim_mem *mem;

	if (pages == MAP_FAILED)
		return NULL;
	mem = sim_mem_add(ctx, kind, (uint64_t)(uintptr_t)pages, bytes);
	if (!mem)
		munmap(pages, bytes);
	return mem;
}

void sim_mem_free(struct sim_mem *mem)
{
	sim_checker_freed(mem);
	if (mem->dispose)
		mem->dispose(mem);
	if (mem->ctx)
		unlink_from(mem->ctx, mem);
	if (mem->kind <= SIM_MEM_GLOBAL)
		sim_vram_free(&mem->device->vram, mem->base, mem->bytes);
	else
		sim_ranges_remove(mem);
	if (mem->kind == SIM_MEM_HOST || mem->kind == SIM_MEM_MANAGED)
		munmap((void *)(uintptr_t)mem->base, mem->bytes);
	destroy(mem);
}

struct sim_mem *sim_mem_find(uint64_t addr)
{
	struct sim_device *device = sim_device_of_address(addr);

	return device ? sim_vram_owner(&device->vram, addr) : sim_ranges_find(addr);
}

struct sim_mem *sim_mem_find_base(uint64_t addr)
{
	struct sim_mem *mem = sim_mem_find(addr);

	return mem && mem->base == addr ? mem : NULL;
}

bool sim_mem_overlaps(uint64_t addr, uint64_t bytes)
{
	return sim_mem_find(addr) || sim_mem_find(addr + bytes - 1) || sim_ranges_any(addr, bytes);
}

bool sim_mem_is_live(uint64_t addr, uint64_t bytes, bool write)
{
	struct sim_mem *mem;

	for (;;) {
		uint64_t rest;

		mem = sim_mem_find(addr);
		if (!mem)
			return !sim_device_of_address(addr);
		if (mem->kind == SIM_MEM_RESERVED ||
		    (mem->kind == SIM_MEM_MAPPED && !sim_vmm_is_open(mem, write)))
			return false;
		rest = mem->bytes - (addr - mem->base);
		if (bytes <= rest)
			return true;
		/* Only mapped pages may follow each other; everything else ends where it ends. */
		if (mem->kind != SIM_MEM_MAPPED)
			return false;
		addr += rest;
		bytes -= rest;
	}
}
