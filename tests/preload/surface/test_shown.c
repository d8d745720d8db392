/* SPDX-License-Identifier: MIT */
/*
 * Memory that was shown to others is idle before they have it, and is not used again: shown by
 * handles for other processes, files for the kernel, and what network cards may reach.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static CUresult get_file(CUdeviceptr addr, uint64_t bytes, int *ret_fd)
{
	return cuMemGetHandleForAddressRange(ret_fd, addr, bytes,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static void show_by_handle(CUdeviceptr addr)
{
	CUipcMemHandle handle;

	OK(cuIpcGetMemHandle(&handle, addr));
}

static void show_by_file(CUdeviceptr addr)
{
	int fd = -1;

	OK(cuMemGetHandleForAddressRange(&fd, addr, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CM_MUST(fd >= 0);
	(void)close(fd);
}

static void show_by_memops(CUdeviceptr addr)
{
	unsigned int on = 1;
	bool is_on;

	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	OK(cuPointerGetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	CM_MUST(is_on);
}

static void show_by_tokens(CUdeviceptr addr)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;

	OK(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, addr));
	CM_MUST(tokens.p2pToken);
}

static void show_by_tokens_among_others(CUdeviceptr addr)
{
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					    CU_POINTER_ATTRIBUTE_P2P_TOKENS};
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	unsigned int type;
	void *data[] = {&type, &tokens};

	OK(cuPointerGetAttributes(2, attributes, data, addr));
	CM_MUST(type == CU_MEMORYTYPE_DEVICE && tokens.p2pToken);
}

static void (*const ways[])(CUdeviceptr addr) = {
	show_by_handle, show_by_file, show_by_memops, show_by_tokens, show_by_tokens_among_others,
};

CM_ROLE(shown)
{
	uint64_t frees;
	CUdeviceptr addr;
	size_t i;

	cm_open(0);
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		addr = cm_get(3 * MIB);
		ways[i](addr);
		frees = cudasim_calls("cuMemFree_v2");
		OK(cuMemFree_v2(addr));
		CM_MUST(cudasim_calls("cuMemFree_v2") == frees + 1);
		CM_MUST(cm_reserved() == 0);
	}
}

/* Its file outlives it: other cards may write by it, to whoever had its pages next. */
CM_ROLE(shown_host)
{
	uint64_t frees;
	int fd = -1;
	char *ptr;

	cm_open(0);
	OK(cuMemHostAlloc((void **)&ptr, 3 * MIB, 0));
	OK(cuMemFreeHost(ptr));
	CM_MUST(get_file((CUdeviceptr)(uintptr_t)ptr, MIB, &fd) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostAlloc((void **)&ptr, 3 * MIB, 0));
	OK(get_file((CUdeviceptr)(uintptr_t)ptr + MIB, MIB, &fd));
	frees = cudasim_calls("cuMemFreeHost");
	OK(cuMemFreeHost(ptr));
	CM_MUST(cudasim_calls("cuMemFreeHost") == frees + 1);
	(void)close(fd);
}

/* The pieces of one allocation go together, when the last is freed; none is allocated again. */
CM_ROLE(shown_in_pieces)
{
	CUdeviceptr first, second, third;
	unsigned int on = 1;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second));
	OK(cuMemFree_v2(first));
	OK(cuCtxSynchronize());
	third = cm_get(3 * MIB);
	CM_MUST(third < first || third >= first + 20 * MIB);
	CM_MUST(cm_reserved() == (int64_t)(40 * MIB));
	OK(cuMemFree_v2(second));
	CM_MUST(cm_reserved() == (int64_t)(20 * MIB));
	OK(cuMemFree_v2(third));
}

/* So often in a row nobody holds the program up for longer than its kernel takes. */
#define ROUNDS 100

/* A block that was allocated behind a barrier, and may still be written to by who had it
 * before. */
static CUdeviceptr get_behind_work(void)
{
	CUdeviceptr block, again;
	bool works = false;
	int round;

	for (round = 0; round < ROUNDS && !works; round++) {
		if (round)
			OK(cuMemFree_v2(again));
		block = cm_get(3 * MIB);
		cm_launch_slow(block);
		OK(cuMemFree_v2(block));
		again = cm_get(3 * MIB);
		CM_MUST(again == block);
		works = cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY;
	}
	CM_MUST(works);
	return again;
}

/* Nobody outside the context is held back by that barrier, so showing the block waits. */
static void play_settled_as(void (*show)(CUdeviceptr addr))
{
	CUdeviceptr block;

	cm_open(0);
	block = get_behind_work();
	show(block);
	OK(cuStreamQuery(NULL));
	OK(cuMemFree_v2(block));
}

CM_ROLE(settled)
{
	play_settled_as(show_by_handle);
}

/* The strictest mode, and it is not harmed. */
static void show_during_a_capture(CUdeviceptr addr)
{
	CUstream stream;
	CUgraph graph;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	show_by_handle(addr);
	OK(cuStreamEndCapture(stream, &graph));
}

CM_ROLE(settled_in_a_capture)
{
	play_settled_as(show_during_a_capture);
}

/* A network card writes where it is told to as soon as the program has the memory, no matter what
 * the streams wait for. If it can be told without us, no block is allocated behind a barrier. */
CM_ROLE(reached)
{
	static volatile uint32_t flag;
	CUdeviceptr block, next;
	CUfunction hold;

	CM_MUST(dlmopen(LM_ID_NEWLM, getenv("LOOSE"), RTLD_NOW));
	cm_open(0);
	hold = cm_load_hold();
	block = cm_get(3 * MIB);
	cm_launch_hold(hold, NULL, block, 3 * MIB, &flag);
	OK(cuMemFree_v2(block));
	next = cm_get(3 * MIB);
	CM_MUST(next != block);
	CM_MUST(cudasim_calls("cuCtxWaitEvent") == 0);
	flag = 1;
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(3 * MIB) == block);
}

/* Who says by hand that barriers are wanted gets them, whatever the signs. */
CM_ROLE(ordered)
{
	CUdeviceptr block;

	CM_MUST(dlmopen(LM_ID_NEWLM, getenv("LOOSE"), RTLD_NOW));
	cm_open(0);
	block = cm_get(3 * MIB);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	CM_MUST(cm_get(3 * MIB) == block);
	CM_MUST(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
}

/* This program imports cuIpcGetMemHandle, which is a sign of sharing: auto is exact for it. */
CM_PLAY(memory_once_shown_is_freed_for_good, "shown", "placement:exact", NULL)
CM_PLAY_EVERYWHERE(host_memory_once_shown_is_freed_for_good, "shown_host", NULL)
CM_PLAY(memory_once_shown_is_freed_for_good_in_pieces, "shown_in_pieces", "placement:split", NULL)
CM_PLAY(memory_is_idle_before_it_is_shown, "settled", "", "CUDASIM=time:real")
CM_PLAY(memory_is_idle_before_it_is_shown_in_a_capture, "settled_in_a_capture", "",
	"CUDASIM=time:real")
CM_PLAY(no_barrier_where_network_cards_may_write, "reached", "", NULL)
CM_PLAY(a_barrier_that_is_asked_for_is_laid, "ordered", "reuse:barrier", NULL)
