/* SPDX-License-Identifier: MIT */
/* The functions of cudasim.h, by which tests count, plan and check. */
#include "../cudasim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checker.h"
#include "clock.h"
#include "context.h"
#include "device.h"
#include "faults.h"
#include "memory.h"
#include "plan.h"
#include "state.h"
#include "timeline.h"
#include "work.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT unsigned cudasim_counters(struct cudasim_counter *counters, unsigned room)
{
	for (unsigned i = 0; i < SIM_CALL_COUNT && i < room; i++)
		counters[i] = (struct cudasim_counter){
			.name = sim_calls[i].name,
			.calls = sim_calls_made((enum sim_call)i),
			.ns = sim_calls_ns((enum sim_call)i),
		};
	return SIM_CALL_COUNT;
}

EXPORT uint64_t cudasim_calls(const char *name)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
		if (!name || strcmp(sim_calls[i].name, name) == 0)
			calls += sim_calls_made((enum sim_call)i);
	}
	return calls;
}

EXPORT void cudasim_reset_counters(void)
{
	sim_calls_reset();
}

EXPORT uint64_t cudasim_now(void)
{
	uint64_t now;

	sim_start();
	sim_lock();
	now = sim_clock_now();
	sim_unlock();
	return now;
}

EXPORT void cudasim_advance(uint64_t ns)
{
	sim_start();
	sim_lock();
	if (sim_plan.real_time)
		sim_clock_spend(ns);
	sim_work_run_until(sim_clock_now() + (sim_plan.real_time ? 0 : ns));
	sim_unlock();
}

EXPORT void cudasim_complete_all(void)
{
	sim_lock();
	sim_work_settle();
	sim_unlock();
}

static uint64_t ask_vram(int ordinal, uint64_t (*answer)(const struct sim_vram *vram))
{
	const struct sim_device *device;
	uint64_t bytes = 0;

	sim_lock();
	device = sim_device_get(ordinal);
	if (device)
		bytes = answer(&device->vram);
	sim_unlock();
	return bytes;
}

static uint64_t live(const struct sim_vram *vram)
{
	return vram->live;
}

static uint64_t used(const struct sim_vram *vram)
{
	return vram->used;
}

static uint64_t peak(const struct sim_vram *vram)
{
	return vram->peak;
}

EXPORT uint64_t cudasim_live_allocations(int device)
{
	return ask_vram(device, live);
}

EXPORT uint64_t cudasim_used_bytes(int device)
{
	return ask_vram(device, used);
}

EXPORT uint64_t cudasim_peak_bytes(int device)
{
	return ask_vram(device, peak);
}

static const char *const makers[] = {
	[SIM_MEM_DEVICE] = "cuMemAlloc",
	[SIM_MEM_ASYNC] = "cuMemAllocAsync",
	[SIM_MEM_ARRAY] = "cuArrayCreate",
	[SIM_MEM_GRAPH] = "cuGraphAddMemAllocNode",
	[SIM_MEM_GLOBAL] = "cuModuleLoadData",
	[SIM_MEM_HOST] = "cuMemHostAlloc",
	[SIM_MEM_MANAGED] = "cuMemAllocManaged",
	[SIM_MEM_REGISTERED] = "cuMemHostRegister",
	[SIM_MEM_IMPORTED] = "cuIpcOpenMemHandle",
	[SIM_MEM_RESERVED] = "cuMemAddressReserve",
	[SIM_MEM_MAPPED] = "cuMemMap",
};

static struct cudasim_holding holding_of(const struct sim_mem *mem)
{
	return (struct cudasim_holding){
		.made_by = makers[mem->kind],
		.addr = mem->base,
		.bytes = mem->bytes,
		.count = 1,
		.device = mem->device ? mem->device->ordinal : -1,
		.error = mem->ctx ? (int)mem->ctx->error : 0,
	};
}

/* Pages are of no context; who works with them is of the device. */
static struct cudasim_holding pages_of(const struct sim_device *device)
{
	struct cudasim_holding holding = {
		.made_by = "cuMemCreate",
		.bytes = device->vram.taken,
		.count = device->vram.takes,
		.device = device->ordinal,
	};

	for (const struct sim_ctx *ctx = device->contexts; ctx && !holding.error; ctx = ctx->next)
		holding.error = (int)ctx->error;
	return holding;
}

EXPORT unsigned cudasim_holdings(struct cudasim_holding *holdings, unsigned room)
{
	const struct sim_device *device;
	const struct sim_mem *mem;
	unsigned n = 0;

	sim_lock();
	for (mem = sim_mem_newest; mem; mem = mem->older, n++)
		if (n < room)
			holdings[n] = holding_of(mem);
	for (int i = 0; (device = sim_device_get(i)); i++)
		if (device->vram.taken && n++ < room)
			holdings[n - 1] = pages_of(device);
	sim_unlock();
	return n;
}

EXPORT int cudasim_fail(const char *name, uint64_t n, int code)
{
	sim_start();
	if (!name)
		return sim_faults_add(SIM_CALL_COUNT, n, (CUresult)code) ? 0 : -1;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
			if (strcmp(pass ? sim_calls[i].base : sim_calls[i].name, name) == 0)
				return sim_faults_add((enum sim_call)i, n, (CUresult)code) ? 0 : -1;
		}
	}
	return -1;
}

EXPORT void cudasim_clear_failures(void)
{
	sim_start();
	sim_faults_clear();
}

EXPORT void cudasim_interrupt(uint64_t n, void (*meanwhile)(void *data), void *data)
{
	struct sim_thread *self = sim_thread_self();

	if (!self)
		return;
	self->meanwhile = meanwhile;
	self->meanwhile_data = data;
	self->interrupt = n;
}

EXPORT int cudasim_plan(const char *word)
{
	bool ok;

	sim_start();
	sim_lock();
	ok = sim_plan_set(word);
	sim_faults_start();
	sim_unlock();
	sim_checker_start();
	return ok ? 0 : -1;
}
