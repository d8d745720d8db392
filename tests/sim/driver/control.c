/* SPDX-License-Identifier: MIT */
#include "../cudasim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checker.h"
#include "clock.h"
#include "device.h"
#include "faults.h"
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

EXPORT uint64_t cudasim_failable_calls(void)
{
	return sim_faults_seen();
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
