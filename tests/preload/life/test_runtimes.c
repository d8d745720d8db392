/* SPDX-License-Identifier: MIT */
/*
 * Runtimes in one process: one linked in statically, as NVIDIA's libraries have theirs, and one
 * that is loaded and unloaded (RUNTIME in the environment). All arrive at the same cache.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tests/preload/play.h"
#include "tests/sim/cudasim.h"
#include "tests/unit/cmocka_all.h"

#define MIB UINT64_C(1048576)

#define OK(call) CM_MUST((call) == cudaSuccess)

static struct {
	void *handle;
	cudaError_t (*malloc)(void **ptr, size_t bytes); /* cuda_runtime.h has a template of it */
	__typeof__(cudaFree) *free;
	__typeof__(cudaMemset) *memset;
	__typeof__(cudaDeviceSynchronize) *synchronize;
} loaded;

static void *look_up(const char *name)
{
	void *function = dlsym(loaded.handle, name);

	CM_MUST(function);
	return function;
}

static void load(void)
{
	loaded.handle = dlopen(getenv("RUNTIME"), RTLD_NOW | RTLD_LOCAL);
	CM_MUST(loaded.handle);
	loaded.malloc = (__typeof__(loaded.malloc))look_up("cudaMalloc");
	loaded.free = (__typeof__(loaded.free))look_up("cudaFree");
	loaded.memset = (__typeof__(loaded.memset))look_up("cudaMemset");
	loaded.synchronize = (__typeof__(loaded.synchronize))look_up("cudaDeviceSynchronize");
}

static void unload(void)
{
	CM_MUST(!dlclose(loaded.handle));
	CM_MUST(!dlopen(getenv("RUNTIME"), RTLD_NOW | RTLD_NOLOAD));
}

static uint64_t driver_allocations(void)
{
	return cudasim_calls("cuMemAlloc_v2");
}

/* What one of them took another gives back, and the second life is served from the first one's. */
CM_ROLE(unloaded)
{
	uint64_t calls = 0;
	void *kept, *ptr;
	int i;

	load();
	OK(loaded.malloc(&kept, 3 * MIB));
	unload();
	for (i = 0; i < 3; i++) {
		load();
		OK(loaded.malloc(&ptr, 5 * MIB));
		OK(loaded.memset(ptr, i, 5 * MIB));
		OK(loaded.free(ptr));
		OK(loaded.synchronize());
		if (i == 0)
			calls = driver_allocations();
		else if (getenv("CACHED"))
			CM_MUST(driver_allocations() == calls);
		unload();
	}
	load();
	OK(loaded.memset(kept, 1, 3 * MIB));
	OK(loaded.free(kept));
	CM_MUST(loaded.free(kept) == cudaErrorInvalidValue);
	unload();
}

CM_ROLE(two)
{
	void *ours, *theirs;

	load();
	OK(cudaMalloc(&ours, 3 * MIB));
	OK(loaded.malloc(&theirs, 3 * MIB));
	OK(cudaMemset(theirs, 1, 3 * MIB));
	OK(loaded.memset(ours, 2, 3 * MIB));
	OK(loaded.free(ours));
	OK(cudaFree(theirs));
	CM_MUST(cudaFree(ours) == cudaErrorInvalidValue);
	CM_MUST(loaded.free(theirs) == cudaErrorInvalidValue);
	if (getenv("CACHED")) {
		const struct cm_device_row row = cm_own_counters(0);

		CM_MUST(row.stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION] == 2);
		CM_MUST(cm_stat_current(&row, CM_STAT_ALLOCATION) == 0);
		CM_MUST(driver_allocations() == 1);
	}
}

/* Nothing of before is there any more, and the next call begins anew. */
CM_ROLE(reset)
{
	void *live, *idle, *next;
	int i;

	for (i = 0; i < 4; i++) {
		OK(cudaMalloc(&live, 3 * MIB));
		OK(cudaMalloc(&idle, 30 * MIB));
		OK(cudaMemset(live, 1, 3 * MIB));
		OK(cudaFree(idle));
		OK(cudaDeviceReset());
		CM_MUST(cudasim_live_allocations(0) == 0);
		CM_MUST(cudaFree(live) == cudaErrorInvalidValue);
		(void)cudaGetLastError();
		OK(cudaMalloc(&next, 3 * MIB));
		OK(cudaMemset(next, 1, 3 * MIB));
		OK(cudaFree(next));
	}
}

CM_PLAY_EVERYWHERE(a_runtime_is_unloaded_and_loaded_again, "unloaded", NULL)
CM_PLAY(an_unloaded_runtime_leaves_its_memory_to_the_next, "unloaded", "", "CACHED=1")
CM_PLAY_EVERYWHERE(two_runtimes_free_each_others_memory, "two", NULL)
CM_PLAY(two_runtimes_share_one_cache, "two", "", "CACHED=1")
CM_PLAY_EVERYWHERE(a_device_reset_takes_all_memory, "reset", NULL)
