/* SPDX-License-Identifier: MIT */
/* Two devices, of which one reaches the memory of the other. */
#include <pthread.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* What device 1 still writes to is not allocated on device 0. */
CM_ROLE(peers)
{
	static volatile uint32_t flag;
	CUcontext first, second;
	CUdeviceptr block, next;
	CUfunction hold;
	int can;

	OK(cuInit(0));
	OK(cuDeviceCanAccessPeer(&can, 1, 0));
	CM_MUST(can);
	second = cm_open(1);
	first = cm_open(0);
	block = cm_get(30 * MIB);
	OK(cuCtxSetCurrent(second));
	OK(cuCtxEnablePeerAccess(first, 0));
	CM_MUST(cuCtxEnablePeerAccess(first, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	hold = cm_load_hold();
	cm_launch_hold(hold, NULL, block, 30 * MIB, &flag);
	OK(cuCtxSetCurrent(first));
	OK(cuMemFree_v2(block));
	next = cm_get(30 * MIB);
	CM_MUST(next != block);
	flag = 1;
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(first));
	CM_MUST(cm_get(30 * MIB) == block);
}

/* A kernel of the current context writes the block, and may. */
static void must_reach(CUdeviceptr block, uint64_t bytes)
{
	static const uint32_t flag = 1;

	cm_launch_hold(cm_load_hold(), NULL, block, bytes, &flag);
	OK(cuCtxSynchronize());
}

/* Access is asked for before there is any memory, as programs do. */
CM_ROLE(peers_first)
{
	CUcontext first = cm_open(0), second = cm_open(1);
	CUdeviceptr block[3];
	int i;

	OK(cuCtxEnablePeerAccess(first, 0));
	OK(cuCtxSetCurrent(first));
	for (i = 0; i < 3; i++)
		block[i] = cm_get((uint64_t)(i + 1) * MIB);
	OK(cuCtxSetCurrent(second));
	for (i = 0; i < 3; i++)
		must_reach(block[i], MIB);
	OK(cuCtxDisablePeerAccess(first));
	OK(cuCtxEnablePeerAccess(first, 0));
	for (i = 0; i < 3; i++)
		must_reach(block[i], MIB);
}

/* A capture in another context does not keep the memory that stands from being reached. */
CM_ROLE(peers_in_a_capture)
{
	CUcontext first = cm_open(0), second = cm_open(1);
	CUdeviceptr block;
	CUstream stream;
	CUgraph graph;

	OK(cuCtxSetCurrent(first));
	block = cm_get(3 * MIB);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuCtxSetCurrent(second));
	OK(cuCtxEnablePeerAccess(first, 0));
	OK(cuCtxSetCurrent(first));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuCtxSetCurrent(second));
	must_reach(block, MIB);
}

/* What is said under a program that has no need to know of pages. */
CM_ROLE(closed_pages)
{
	CUcontext first = cm_open(0), second = cm_open(1);
	CUdeviceptr block[3];
	int i;

	/* Each is mapped by a driver allocation of its own. */
	OK(cuCtxSetCurrent(first));
	for (i = 0; i < 3; i++)
		block[i] = cm_get(30 * MIB);
	OK(cuCtxSetCurrent(second));
	CM_MUST(!cudasim_fail("cuMemSetAccess", 3, CUDA_ERROR_OUT_OF_MEMORY));
	CM_MUST(cuCtxEnablePeerAccess(first, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(cuCtxDisablePeerAccess(first) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	OK(cuCtxEnablePeerAccess(first, 0));
	for (i = 0; i < 3; i++)
		must_reach(block[i], 30 * MIB);
}

static struct {
	CUcontext first, second;
	CUdeviceptr block;
} asked;

/* Access is there, says the driver, and so it is. */
static void *ask_again(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(asked.second));
	CM_MUST(cuCtxEnablePeerAccess(asked.first, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	must_reach(asked.block, MIB);
	return NULL;
}

static void let_ask_again(void *arg)
{
	pthread_t thread;

	CM_MUST(!pthread_create(&thread, NULL, ask_again, arg));
	CM_MUST(!pthread_join(thread, NULL));
}

/* Another thread asks for access when the driver has given it, and the library has not done its
 * part. */
CM_ROLE(peers_asked_twice)
{
	asked.first = cm_open(0);
	asked.block = cm_get(3 * MIB);
	asked.second = cm_open(1);
	cudasim_interrupt(2, let_ask_again, NULL);
	OK(cuCtxEnablePeerAccess(asked.first, 0));
	must_reach(asked.block, MIB);
}

/* Pages are left as they are: work that was submitted before may be on its way. */
CM_ROLE(pages_stay_open)
{
	CUcontext first = cm_open(0), second = cm_open(1);
	CUdeviceptr block;

	OK(cuCtxEnablePeerAccess(first, 0));
	OK(cuCtxSetCurrent(first));
	block = cm_get(3 * MIB);
	OK(cuCtxSetCurrent(second));
	OK(cuCtxDisablePeerAccess(first));
	must_reach(block, 3 * MIB);
}

/* A copy between devices needs no peer access, and holds both ends back. */
CM_ROLE(peer_copy)
{
	CUcontext first, second;
	CUdeviceptr from, to;
	unsigned char byte = 0;
	int i;

	second = cm_open(1);
	first = cm_open(0);
	for (i = 0; i < 50; i++) {
		OK(cuCtxSetCurrent(first));
		from = cm_get(MIB);
		OK(cuMemsetD8_v2(from, (unsigned char)i, MIB));
		OK(cuCtxSetCurrent(second));
		to = cm_get(MIB);
		OK(cuMemcpyPeerAsync(to, second, from, first, MIB, NULL));
		OK(cuMemFree_v2(from));
		OK(cuMemcpyDtoH_v2(&byte, to + MIB - 1, 1));
		CM_MUST(byte == i);
		OK(cuMemFree_v2(to));
	}
}

/* Natively memory goes back to the driver when it is freed, and device 0 alone is waited for: the
 * copies of device 1 break where their memory is gone. */
static void free_natively(CUcontext first, CUcontext second, CUdeviceptr to)
{
	CUdeviceptr block;
	int i;

	OK(cuCtxSetCurrent(first));
	for (i = 0; i < 100; i++) {
		block = cm_get(8 * MIB);
		OK(cuMemFree_v2(block));
	}
	CM_MUST(cudasim_used_bytes(0) == 2 * MIB);
	block = cm_get(8 * MIB);
	OK(cuCtxSetCurrent(second));
	OK(cuMemcpyPeerAsync(to, second, block, first, MIB, NULL));
	OK(cuCtxSetCurrent(first));
	OK(cuMemFree_v2(block));
	CM_MUST(cudasim_used_bytes(0) == 2 * MIB);
	OK(cuCtxSetCurrent(second));
	CM_MUST(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void open_pair(CUcontext *first, CUcontext *second, CUdeviceptr *to)
{
	*second = cm_open(1);
	*to = cm_get(MIB);
	*first = cm_open(0);
	(void)cm_get(MIB);
}

/* Not even the first copy is under way any more. */
CM_ROLE(native_free_behind_a_copy)
{
	CUcontext first, second;
	CUdeviceptr to, from;

	open_pair(&first, &second, &to);
	from = cm_get(MIB);
	OK(cuCtxSetCurrent(second));
	OK(cuMemcpyPeerAsync(to, second, from, first, MIB, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(from));
	free_natively(first, second, to);
}

CM_ROLE(native_free_for_peers)
{
	CUcontext first, second;
	CUdeviceptr to;

	open_pair(&first, &second, &to);
	OK(cuCtxSetCurrent(second));
	OK(cuCtxEnablePeerAccess(first, 0));
	free_natively(first, second, to);
}

CM_PLAY(work_of_a_peer_holds_a_block_back, "peers", "", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(memory_is_reached_by_who_was_let_in_before, "peers_first", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_capture_keeps_no_peer_out, "peers_in_a_capture", "CUDASIM=devices:2")
CM_PLAY(a_page_that_stays_closed_is_heard_of, "closed_pages", "expandable_segments:True",
	"CUDASIM=devices:2")
CM_PLAY(pages_are_open_to_who_asks_meanwhile, "peers_asked_twice", "expandable_segments:True",
	"CUDASIM=devices:2")
CM_PLAY(pages_stay_open_to_a_peer, "pages_stay_open", "expandable_segments:True",
	"CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_copy_between_devices_is_safe, "peer_copy", "CUDASIM=devices:2")
CM_PLAY(a_native_free_is_native_behind_a_copy, "native_free_behind_a_copy", NULL,
	"CUDASIM=devices:2")
CM_PLAY(so_it_is_behind_a_copy_in_stats_mode, "native_free_behind_a_copy", "mode:stats",
	"CUDASIM=devices:2")
CM_PLAY(a_native_free_is_native_for_peers, "native_free_for_peers", NULL, "CUDASIM=devices:2")
CM_PLAY(so_it_is_for_peers_in_stats_mode, "native_free_for_peers", "mode:stats",
	"CUDASIM=devices:2")
