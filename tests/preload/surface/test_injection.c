/* SPDX-License-Identifier: MIT */
/*
 * Debuggers and profilers that are injected into CUDA look at what the program allocates: with one
 * of them every request is the driver's, of just its size, and is counted; unless the
 * program's user has said otherwise.
 */
#include <stdio.h>
#include <string.h>

#include "stats/counters.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static const char *const variables[] = {
	"CUDA_INJECTION64_PATH",
	"NVTX_INJECTION64_PATH",
	"NV_SANITIZER_INJECTION_PORT_BASE",
	"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN",
	"CUDA_MEMCHECK",
};

/* One byte beyond the end is nobody's: a tool that guards it can tell. */
CM_ROLE(watched)
{
	CUdeviceptr block[3], base;
	size_t size;
	uint64_t i;

	cm_open(0);
	for (i = 0; i < 3; i++) {
		block[i] = cm_get(3 * MIB + i);
		OK(cuMemGetAddressRange_v2(&base, &size, block[i]));
		CM_MUST(base == block[i] && size == 3 * MIB + i);
		CM_MUST(cudasim_calls("cuMemAlloc_v2") == i + 1);
	}
	CM_MUST(cm_allocated() == (int64_t)(9 * MIB + 3));
	for (i = 0; i < 3; i++) {
		OK(cuMemFree_v2(block[i]));
		CM_MUST(cudasim_calls("cuMemFree_v2") == i + 1);
		/* Use after free is the driver's to tell, at once. */
		CM_MUST(cuMemsetD8_v2(block[i], 1, 1) != CUDA_SUCCESS);
	}
	CM_MUST(cm_allocated() == 0 && cm_reserved() == 0);
}

CM_ROLE(watched_pinned)
{
	uint64_t calls;
	void *ptr;
	int i;

	cm_open(0);
	for (i = 0; i < 2; i++) {
		calls = cudasim_calls("cuMemHostAlloc") + cudasim_calls("cuMemFreeHost");
		OK(cuMemHostAlloc(&ptr, MIB, 0));
		OK(cuMemFreeHost(ptr));
		CM_MUST(cudasim_calls("cuMemHostAlloc") + cudasim_calls("cuMemFreeHost") ==
			calls + 2);
	}
}

CM_ROLE(cached)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(3 * MIB) == block);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == 1);
}

static void play_with_each(void **state, const char *role, const char *conf)
{
	char variable[128];
	size_t i;

	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		(void)snprintf(variable, sizeof(variable), "%s=/opt/tool", variables[i]);
		cm_play(state, role, conf, variable);
	}
}

CM_PLAY_TEST(an_injected_tool_sees_every_allocation)
{
	play_with_each(state, "watched", "");
}

CM_PLAY_TEST(an_injected_tool_sees_pinned_memory_too)
{
	play_with_each(state, "watched_pinned", "");
}

CM_PLAY_TEST(who_asks_for_the_cache_gets_it_with_a_tool_too)
{
	play_with_each(state, "cached", "mode:cache");
}

CM_PLAY(without_a_tool_memory_is_cached, "cached", "", NULL)

CM_PLAY_TEST(what_was_found_is_told_to_who_asks)
{
	struct cm_play *play = *state;

	cm_play_under(play, "watched", "log:info", "CUDA_INJECTION64_PATH=/opt/tool", NULL);
	assert_non_null(strstr(play->said, "cudamem: CUDA_INJECTION64_PATH is set: memory is not "
					   "cached (mode:stats)\n"));
}
