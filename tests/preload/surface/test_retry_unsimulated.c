/* SPDX-License-Identifier: MIT */
/*
 * Functions that the simulated driver has not: they fail for lack of memory, and are called again
 * when the cache has released its own.
 */
#include "tests/preload/surface/more.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define AT(value) ((void *)(uintptr_t)(value))
#define KERNELS   8 /* the device of the calls that name one */

/* Where a result goes that the library reads. */
static uint64_t result[1];

static CUresult load_function(void)
{
	return cuFuncLoad(AT(8));
}

static CUresult load_library_file(void)
{
	return cuLibraryLoadFromFile(AT(8), "file", NULL, NULL, 0, NULL, NULL, 8);
}

static CUresult instantiate_first_form(void)
{
	return cuGraphInstantiate((void *)result, NULL, NULL, NULL, 8);
}

static CUresult launch_one(void)
{
	return cuLaunch(AT(8));
}

static CUresult launch_grid(void)
{
	return cuLaunchGrid(AT(8), 1, 8);
}

static CUresult launch_grid_in_stream(void)
{
	return cuLaunchGridAsync(AT(8), 1, 1, AT(8));
}

static CUresult launch_on_devices(void)
{
	return cuLaunchCooperativeKernelMultiDevice(AT(8), 1, 8);
}

static CUresult get_managed_of_library(void)
{
	return cuLibraryGetManaged((void *)result, NULL, AT(1), AT(8));
}

static CUresult get_attribute_of_kernel(void)
{
	return cuKernelGetAttribute(AT(8), 0, AT(1), KERNELS);
}

static CUresult set_attribute_of_kernel(void)
{
	return cuKernelSetAttribute(8, 0, AT(1), KERNELS);
}

static CUresult set_cache_of_kernel(void)
{
	return cuKernelSetCacheConfig(AT(8), 0, KERNELS);
}

static CUresult submit_batch(void)
{
	return cuStreamBatchMemOp(AT(8), 0, NULL, 8);
}

static CUresult submit_batch_per_thread(void)
{
	return cuStreamBatchMemOp_ptsz(AT(8), 0, NULL, 8);
}

static CUresult wait_for_semaphores(void)
{
	return cuWaitExternalSemaphoresAsync(AT(8), NULL, 0, AT(8));
}

static CUresult wait_for_semaphores_per_thread(void)
{
	return cuWaitExternalSemaphoresAsync_ptsz(AT(8), NULL, 0, AT(8));
}

static CUresult create_stream_of_green_context(void)
{
	return cuGreenCtxStreamCreate((void *)result, NULL, 0, 8);
}

static CUresult create_multicast(void)
{
	return cuMulticastCreate((void *)result, AT(8));
}

static CUresult bind_memory(void)
{
	return cuMulticastBindMem(8, 0, 0, 0, 0, 8);
}

static CUresult bind_address(void)
{
	return cuMulticastBindAddr(8, 0, 0, 0, 8);
}

static CUresult add_device(void)
{
	return cuMulticastAddDevice(8, KERNELS);
}

static CUresult bind_memory_of_device(void)
{
	return cuMulticastBindMem_v2(8, KERNELS, 0, 0, 0, 0, 8);
}

static CUresult bind_address_of_device(void)
{
	return cuMulticastBindAddr_v2(8, KERNELS, 0, 0, 0, 8);
}

static CUresult (*const needy[])(void) = {
	create_stream_of_green_context,
	create_multicast,
	bind_memory,
	bind_address,
	load_function,
	load_library_file,
	instantiate_first_form,
	submit_batch,
	submit_batch_per_thread,
	wait_for_semaphores,
	wait_for_semaphores_per_thread,
	launch_one,
	launch_grid,
	launch_grid_in_stream,
	launch_on_devices,
	get_managed_of_library,
	get_attribute_of_kernel,
	set_attribute_of_kernel,
	set_cache_of_kernel,
	add_device,
	bind_memory_of_device,
	bind_address_of_device,
};

#define NEEDY  (sizeof(needy) / sizeof(needy[0]))
#define NAMING 6 /* the last ones: they name the device */

static bool is_first(uintptr_t first)
{
	return first == 8 || first == (uintptr_t)result;
}

CM_ROLE(play)
{
	size_t i;

	cm_open(KERNELS);
	for (i = 0; i < NEEDY; i++) {
		OK(cuMemFree_v2(cm_get(40 * MIB)));
		more = (struct more){.failures = 1};
		OK(needy[i]());
		CM_MUST(more.calls == 2 && is_first(more.first) && more.last == 8);
		CM_MUST(cm_reserved() == 0);
		more = (struct more){.failures = 2};
		CM_MUST(needy[i]() == CUDA_ERROR_OUT_OF_MEMORY);
		CM_MUST(more.calls == 1);
	}
}

/* The current context is of another device than they name. */
CM_ROLE(elsewhere)
{
	CUcontext here, there;
	size_t i;

	there = cm_open(KERNELS);
	here = cm_open(0);
	for (i = NEEDY - NAMING; i < NEEDY; i++) {
		OK(cuCtxSetCurrent(there));
		OK(cuMemFree_v2(cm_get(40 * MIB)));
		CM_MUST(cm_reserved() == (int64_t)(40 * MIB));
		OK(cuCtxSetCurrent(here));
		more = (struct more){.failures = 1};
		OK(needy[i]());
		OK(cuCtxSetCurrent(there));
		CM_MUST(more.calls == 2 && cm_reserved() == 0);
	}
}

#define DEVICES "CUDASIM=devices:9"

CM_PLAY(who_fails_for_memory_gets_what_is_cached, "play", "", DEVICES)
CM_PLAY(it_is_that_of_the_device_it_names, "elsewhere", "", DEVICES)
