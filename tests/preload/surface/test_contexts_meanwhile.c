/* SPDX-License-Identifier: MIT */
/*
 * A context ends while a thread still frees its memory, and its handle comes back on another
 * device: each free gets the answer that it gets natively, and memory is where its context is.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

enum { BLOCKS = 4 };

/* Parts of an allocation and whole ones; the last two stay. */
static void use_memory(CUdeviceptr block[BLOCKS])
{
	int i;

	for (i = 0; i < BLOCKS; i++) {
		block[i] = cm_get((uint64_t)(i % 2 ? 30 : 1) * MIB / 2);
		OK(cuMemsetD8Async(block[i], (unsigned char)i, MIB / 2, NULL));
	}
	OK(cuMemFree_v2(block[0]));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(block[1]));
}

static void must_be_gone(const CUdeviceptr block[BLOCKS])
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		CM_MUST(cuMemFree_v2(block[i]) == CUDA_ERROR_INVALID_VALUE);
}

/* Also for the thread that had the first one current. */
CM_ROLE(handle)
{
	CUdeviceptr block[BLOCKS], old[BLOCKS];
	CUcontext ctx, last = NULL;
	uint64_t device;
	int i, again = 0;

	cm_open(0);
	for (i = 0; i < 20; i++) {
		device = (uint64_t)i % 2;
		OK(cuCtxCreate_v2(&ctx, 0, (CUdevice)device));
		again += ctx == last;
		last = ctx;
		if (i)
			must_be_gone(old);
		use_memory(block);
		CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block[3]) == device);
		OK(cuMemFree_v2(block[3]));
		OK(cuCtxSynchronize());
		block[3] = cm_get(15 * MIB);
		CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block[3]) == device);
		CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_CONTEXT, block[3]) == (uintptr_t)ctx);
		memcpy(old, block, sizeof(old));
		OK(cuCtxDestroy_v2(ctx));
	}
	CM_MUST(again > 0);
	cm_open(0);
	must_be_gone(old);
}

/* A thread that frees a block of a context that another one is about to destroy. */
static struct {
	CUcontext current;
	CUdeviceptr block;
	uint64_t destroyed; /* contexts so far */
	pthread_t thread;
	bool begun;
	atomic_bool done;
} freeing;

static void *free_one(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(freeing.current));
	OK(cuMemFree_v2(freeing.block));
	atomic_store(&freeing.done, true);
	return NULL;
}

/* With sync:free it waits until the context has ended. */
static void let_free_one(void *unused)
{
	int i;

	(void)unused;
	if (cudasim_calls("cuCtxDestroy_v2") != freeing.destroyed)
		return;
	freeing.begun = true;
	CM_MUST(!pthread_create(&freeing.thread, NULL, free_one, NULL));
	for (i = 0; i < 100 && !atomic_load(&freeing.done); i++)
		(void)usleep(1000);
}

/* Before the nth call of the driver by the thread that destroys the context, as far as that is
 * there still. Returns whether there was such a call. */
static bool free_meanwhile(CUcontext first, bool own, bool part, uint64_t n)
{
	CUdeviceptr block[BLOCKS];
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	use_memory(block);
	freeing.current = own ? ctx : first;
	freeing.block = block[part ? 2 : 3];
	freeing.destroyed = cudasim_calls("cuCtxDestroy_v2");
	freeing.begun = false;
	atomic_store(&freeing.done, false);
	cudasim_interrupt(n, let_free_one, NULL);
	OK(cuCtxDestroy_v2(ctx));
	cudasim_interrupt(0, NULL, NULL);
	if (freeing.begun)
		CM_MUST(!pthread_join(freeing.thread, NULL));
	cm_open(0);
	must_be_gone(block);
	return freeing.begun;
}

CM_ROLE(free)
{
	CUcontext first = cm_open(0);
	uint64_t n;
	int how;

	for (how = 0; how < 4; how++) {
		for (n = 1; free_meanwhile(first, how & 1, how & 2, n); n++)
			continue;
		CM_MUST(n > 1);
	}
}

CM_PLAY_EVERYWHERE(a_handle_may_be_of_another_device, "handle", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_block_is_freed_in_a_context_that_ends, "free", NULL)
