/* SPDX-License-Identifier: MIT */
/* Another preloaded library, before us and behind us: BESIDE in the environment is its path. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static unsigned counted(const char *name)
{
	const unsigned *count = dlsym(RTLD_DEFAULT, name);

	CM_MUST(count);
	return *count;
}

static void use_and_use_again(void)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(3 * MIB) == block);
	OK(cuMemFree_v2(block));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cm_allocated() == 0);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == 1);
	CM_MUST(counted("beside_mallocs") > 0);
}

/* It sees what the program does. */
CM_ROLE(before)
{
	use_and_use_again();
	CM_MUST(counted("beside_allocs") == 2);
	CM_MUST(counted("beside_frees") == 3);
}

/* It sees what reaches the driver: the cache's own call, and the wrong free. */
CM_ROLE(behind)
{
	use_and_use_again();
	CM_MUST(counted("beside_allocs") == 1);
	CM_MUST(counted("beside_frees") == 1);
}

/* A library that patches the driver sees what reaches it, and what it knows of an address stays
 * true: the memory is there until it hears of its end. */
CM_ROLE(patched)
{
	void *patcher = dlopen(getenv("PATCHER"), RTLD_NOW | RTLD_GLOBAL);
	int (*start)(void *driver);
	CUdeviceptr block;
	int i;

	CM_MUST(patcher);
	start = (__typeof__(start))dlsym(patcher, "patcher_start");
	CM_MUST(start && start(dlopen(getenv("DRIVER"), RTLD_NOW)));
	cm_open(0);
	for (i = 0; i < 10; i++) {
		block = cm_get(3 * MIB);
		OK(cuMemsetD8_v2(block, 1, 3 * MIB));
		OK(cuMemFree_v2(block));
		OK(cuCtxSynchronize());
	}
	if (getenv("CACHED")) {
		CM_MUST(counted("patcher_allocs") == 1 && counted("patcher_frees") == 0);
	} else if (counted("patcher_allocs")) { /* none where memory is mapped by hand */
		CM_MUST(counted("patcher_allocs") - counted("patcher_frees") ==
			cudasim_live_allocations(0));
	}
}

/* All figures are the context's: the device has four times as much. */
CM_ROLE(slice)
{
	size_t free_bytes, total;

	cm_open(0);
	(void)cm_get(4 * MIB);
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(total == 32 * MIB && free_bytes == 28 * MIB);
	OK(cuMemFree_v2(cm_get(12 * MIB)));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(total == 32 * MIB && free_bytes == 28 * MIB);
	CM_MUST(cm_own_counters(0).total_bytes == 32 * MIB);
	/* Never more than there is, whatever the two say of each other. */
	OK(cuMemFree_v2(cm_get(60 * MIB)));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(total == 32 * MIB && free_bytes == 32 * MIB);
}

static void play_with(void **state, const char *role, const char *first, const char *second)
{
	char preload[2 * PATH_MAX];

	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s:%s", getenv(first), getenv(second));
	cm_play(state, role, "", preload);
}

CM_PLAY_TEST(a_library_before_us_sees_what_the_program_calls)
{
	play_with(state, "before", "BESIDE", "MODULE");
}

CM_PLAY_TEST(a_library_behind_us_sees_what_the_driver_is_asked)
{
	play_with(state, "behind", "MODULE", "BESIDE");
}

CM_PLAY_TEST(a_library_that_patches_the_driver_sees_what_it_is_asked)
{
#if defined(__x86_64__)
	cm_play_everywhere(state, "patched", NULL);
	cm_play(state, "patched", "", "CACHED=1");
#else
	cm_skip("its code is for x86-64");
#endif
}

CM_PLAY_TEST(totals_are_those_of_the_context)
{
	char preload[2 * PATH_MAX];

	CM_MUST(!setenv("CUDASIM", "memory:128M,context:0", 1));
	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s:%s", getenv("MODULE"),
		       getenv("SLICE"));
	cm_play(state, "slice", "", preload);
	CM_MUST(!unsetenv("CUDASIM"));
}
