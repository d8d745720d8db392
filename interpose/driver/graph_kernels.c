/* SPDX-License-Identifier: MIT */
#include "interpose/driver/graph_kernels.h"

#include <stdatomic.h>
#include <stddef.h>

#include "allocator/base/lock.h"
#include "interpose/driver/current.h"

#define PLACES 1024 /* of each table; a power of two */

/* Graphs, and modules, by a hash of their handles, guarded by the lock. One replaces another one
 * with the same hash, which then counts as unknown. */
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_GRAPHS);
static struct place {
	uintptr_t handle;
	uint64_t devices;
} graphs[PLACES], modules[PLACES];

static _Atomic uint64_t changes_made;

/* Handles are addresses of structures, so their low bits are equal. */
static struct place *place_of(struct place *table, uintptr_t handle)
{
	return &table[(handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static void put(struct place *table, uintptr_t handle, uint64_t devices)
{
	cm_lock_acquire(&lock);
	*place_of(table, handle) = (struct place){handle, devices};
	cm_lock_release(&lock);
}

static uint64_t get(struct place *table, uintptr_t handle)
{
	const struct place found = CM_WITH_LOCK(&lock, *place_of(table, handle));

	return found.handle == handle ? found.devices : CM_ALL_ORDINALS;
}

/* ---- where kernels run ---- */

static uint64_t device_of_current(void)
{
	CUdevice device;

	return cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && (unsigned int)device < 64
		       ? UINT64_C(1) << device
		       : CM_ALL_ORDINALS;
}

uint64_t cm_device_of_context(uint64_t ctx)
{
	uint64_t devices;

	if (ctx && ctx == cm_context_current())
		return device_of_current();
	if (!ctx || cm_context_push(ctx))
		return CM_ALL_ORDINALS;
	devices = device_of_current();
	cm_context_pop();
	return devices;
}

void cm_graph_kernels_note_module(CUmodule module)
{
	put(modules, (uintptr_t)module, device_of_current());
}

void cm_graph_kernels_note_function(CUfunction function)
{
	CUmodule module;

	if (cm_real.cuFuncGetModule(&module, function) == CUDA_SUCCESS)
		cm_graph_kernels_note_module(module);
}

/*
 * A module is of the context that was current when it was loaded, and its functions are, too
 * (cuda.h, cuFuncGetModule). All calls that tell a module or a function to the program enter the
 * module, so an older one with its handle is forgotten. A launch takes a CUkernel for a function,
 * and runs it in the current context: so that one counts, too.
 */
uint64_t cm_device_of_kernel(CUfunction function, CUcontext ctx)
{
	CUmodule module;

	if (!function && ctx)
		return cm_device_of_context((uintptr_t)ctx);
	if (function && cm_real.cuFuncGetModule(&module, function) != CUDA_SUCCESS)
		return CM_ALL_ORDINALS;
	return device_of_current() | (function ? get(modules, (uintptr_t)module) : 0);
}

/* ---- graphs ---- */

void cm_graph_kernels_note(CUgraph graph, uint64_t devices)
{
	put(graphs, (uintptr_t)graph, devices);
}

void cm_graph_kernels_add(CUgraph graph, uint64_t devices)
{
	struct place *place = place_of(graphs, (uintptr_t)graph);
	size_t i;

	if (!devices)
		return;
	cm_lock_acquire(&lock);
	if (graph && place->handle == (uintptr_t)graph) {
		place->devices |= devices;
	} else {
		for (i = 0; i < PLACES; i++)
			graphs[i].devices |= devices;
		atomic_fetch_add(&changes_made, 1);
	}
	cm_lock_release(&lock);
}

uint64_t cm_graph_kernels_changes(void)
{
	return atomic_load(&changes_made);
}

void cm_graph_kernels_note_captured(CUgraph graph, uint64_t devices, uint64_t changes)
{
	cm_lock_acquire(&lock);
	if (changes != cm_graph_kernels_changes())
		devices = CM_ALL_ORDINALS;
	*place_of(graphs, (uintptr_t)graph) = (struct place){(uintptr_t)graph, devices};
	cm_lock_release(&lock);
}

void cm_graph_kernels_forget(CUgraph graph)
{
	struct place *place = place_of(graphs, (uintptr_t)graph);

	cm_lock_acquire(&lock);
	if (place->handle == (uintptr_t)graph)
		place->handle = 0;
	cm_lock_release(&lock);
}

uint64_t cm_graph_kernels_devices(CUgraph graph)
{
	return get(graphs, (uintptr_t)graph);
}

void cm_graph_kernels_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock, CM_LOCK_GRAPHS, 0);
	for (i = 0; i < PLACES; i++)
		graphs[i] = modules[i] = (struct place){0};
}
