/* SPDX-License-Identifier: MIT */
/* Contexts whose work no event covers, or of which there are too many, end the caching. */
#include "allocator/state/state.h"
#include "tests/preload/surface/more.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* Events of a context do not cover what is done in a green one: nothing is cached any more. */
CM_ROLE(green)
{
	CUdevResourceDesc desc = NULL;
	CUdeviceptr block, other;
	CUgreenCtx green;
	uint64_t live;

	cm_open(0);
	block = cm_get(30 * MIB);
	other = cm_get(3 * MIB);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuGreenCtxCreate(&green, desc, 0, 0));
	OK(cuMemFree_v2(other));
	live = cudasim_live_allocations(0);
	OK(cuMemFree_v2(block));
	CM_MUST(cudasim_live_allocations(0) == live - 1);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	CM_MUST(cm_uncached_count(CM_UNCACHED_FORWARDED) == 0);
	CM_MUST(cudasim_live_allocations(0) == live - 1);
}

/* What is cached until then is not in the way of the context. */
CM_ROLE(green_on_a_full_card)
{
	CUdevResourceDesc desc = NULL;
	CUgreenCtx green;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	more = (struct more){.failures = 1};
	OK(cuGreenCtxCreate(&green, desc, 0, 0));
	CM_MUST(more.calls == 2 && cm_reserved() == 0);
	more = (struct more){.failures = 1};
	CM_MUST(cuGreenCtxCreate(&green, desc, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(more.calls == 1);
}

/* Nor what an API of graphics runs when it likes. */
CM_ROLE(graphics)
{
	CUctxCigParam graphics = {.sharedDataType = CIG_DATA_TYPE_NV_BLOB};
	CUctxCreateParams params = {.cigParams = &graphics};
	CUdeviceptr block;
	CUcontext ctx;
	uint64_t live;

	cm_open(0);
	block = cm_get(30 * MIB);
	OK(cuMemFree_v2(cm_get(MIB)));
	live = cudasim_live_allocations(0);
	OK(cuCtxCreate_v4(&ctx, &params, 0, 0));
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	CM_MUST(cudasim_live_allocations(0) == live);
	OK(cuMemFree_v2(block));
	CM_MUST(cudasim_live_allocations(0) == live - 1);
}

/* As many contexts as an epoch can wait for are served, each of them; one more, and none is. A
 * block of 12 MiB is a segment of its own, so no other memory serves before it is ready. */
CM_ROLE(too_many)
{
	CUcontext ctx[CM_FENCE_CONTEXTS];
	uint64_t calls, live;
	CUdeviceptr block;
	size_t i;

	ctx[0] = cm_open(0);
	for (i = 1; i < CM_FENCE_CONTEXTS; i++)
		OK(cuCtxCreate_v2(&ctx[i], 0, 0));
	for (i = 0; i < CM_FENCE_CONTEXTS; i++) {
		OK(cuCtxSetCurrent(ctx[i]));
		block = cm_get(12 * MIB);
		OK(cuMemFree_v2(block));
		OK(cuCtxSynchronize());
		CM_MUST(cm_get(12 * MIB) == block);
		OK(cuMemFree_v2(block));
	}
	OK(cuCtxCreate_v2(&ctx[0], 0, 0));
	calls = cudasim_calls("cuMemAlloc_v2");
	live = cudasim_live_allocations(0);
	for (i = 0; i < CM_FENCE_CONTEXTS; i++) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuMemFree_v2(cm_get(4 * MIB)));
		OK(cuMemFree_v2(cm_get(4 * MIB)));
	}
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == calls + 2 * CM_FENCE_CONTEXTS);
	CM_MUST(cudasim_live_allocations(0) == live);
}

static void must_say(void **state, const char *role, const char *text)
{
	struct cm_play *play = *state;

	cm_play_under(play, role, "", NULL, NULL);
	assert_string_equal(play->said, text);
}

CM_PLAY_TEST(green_contexts_end_the_caching)
{
	must_say(state, "green",
		 "cudamem: the program uses green contexts: nothing is cached from now on\n");
}

CM_PLAY_TEST(a_green_context_that_lacks_memory_gets_what_is_cached)
{
	must_say(state, "green_on_a_full_card",
		 "cudamem: the program uses green contexts: nothing is cached from now on\n");
}

CM_PLAY_TEST(shared_contexts_end_the_caching)
{
	must_say(state, "graphics",
		 "cudamem: the program shares a context with a graphics API: nothing is cached "
		 "from now on\n");
}

CM_PLAY_TEST(more_contexts_than_an_epoch_has_end_the_caching)
{
	must_say(state, "too_many",
		 "cudamem: more than 16 contexts: nothing is cached from now on\n");
}
