/* SPDX-License-Identifier: MIT */
/*
 * The host reads managed memory behind a free and no other synchronisation, and finds what kernels
 * and copies have written there, also copies for which the program names no stream.
 */
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BYTES (2 * MIB) /* a tenth of a millisecond of a copy */

static CUdeviceptr source, temporary, managed;

static void open_all(void)
{
	cm_open(0);
	source = cm_get(BYTES);
	temporary = cm_get(MIB);
	OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemsetD32_v2(source, 7, BYTES / 4));
	OK(cuMemsetD32_v2(managed, 0, BYTES / 4));
	OK(cuCtxSynchronize());
}

/* The last word comes last. */
static void must_read(uint32_t wanted)
{
	OK(cuMemFree_v2(temporary));
	CM_MUST(((uint32_t *)managed)[BYTES / 4 - 1] == wanted);
}

CM_ROLE(kernel)
{
	static const char text[] = "cudasim-module\n"
				   "kernel fill\n params ptr u32 u64\n writes p0 p2*4\n"
				   " do fill p0 p1 p2\nend\n";
	uint64_t words = BYTES / 4;
	uint32_t value = 5;
	void *params[] = {&managed, &value, &words};

	open_all();
	OK(cuLaunchKernel(cm_load(text, "fill"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	must_read(5);
}

/* A plain copy between devices is seen by the host where one end is managed. */
CM_ROLE(peer_copy)
{
	CUcontext first, second = cm_open(1);
	CUdeviceptr own = cm_get(BYTES);
	CUstream stream;

	OK(cuMemsetD32_v2(own, 9, BYTES / 4));
	OK(cuCtxSynchronize());
	open_all();
	OK(cuCtxGetCurrent(&first));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemcpyPeerAsync(managed, first, own, second, BYTES, stream));
	must_read(9);
}

CM_ROLE(in_place)
{
	open_all();
	OK(cuMemcpyDtoD_v2(managed, source, BYTES));
	must_read(7);
}

CM_ROLE(in_place_of_a_thread)
{
	open_all();
	OK(cuMemcpyDtoD_v2_ptds(managed, source, BYTES));
	must_read(7);
}

CM_ROLE(unified_in_place)
{
	open_all();
	OK(cuMemcpy(managed, source, BYTES));
	must_read(7);
}

CM_ROLE(from_host_in_place)
{
	static uint32_t words[BYTES / 4];

	open_all();
	words[BYTES / 4 - 1] = 8;
	OK(cuMemcpyHtoD_v2(managed, words, BYTES));
	must_read(8);
}

CM_ROLE(plane_in_place)
{
	CUDA_MEMCPY2D plane = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = BYTES / 64,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstPitch = BYTES / 64,
		.WidthInBytes = BYTES / 64,
		.Height = 64,
	};

	open_all();
	plane.srcDevice = source;
	plane.dstDevice = managed;
	OK(cuMemcpy2D_v2(&plane));
	must_read(7);
}

/* The source may be written again behind a free. */
CM_ROLE(source_in_place)
{
	uint32_t last = 0;

	open_all();
	OK(cuMemcpyDtoD_v2(source, managed, BYTES));
	OK(cuMemFree_v2(temporary));
	((uint32_t *)managed)[BYTES / 4 - 1] = 6;
	OK(cuMemcpyDtoH_v2(&last, source + BYTES - 4, 4));
	CM_MUST(last == 0);
}

CM_PLAY_EVERYWHERE(managed_memory_is_read_behind_a_kernel, "kernel", NULL)
CM_PLAY_EVERYWHERE(managed_memory_is_read_behind_a_peer_copy, "peer_copy", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(managed_memory_is_read_behind_a_copy_in_place, "in_place", NULL)
CM_PLAY_EVERYWHERE(so_it_is_in_a_stream_of_the_thread, "in_place_of_a_thread", NULL)
CM_PLAY_EVERYWHERE(so_it_is_by_unified_addresses, "unified_in_place", NULL)
CM_PLAY_EVERYWHERE(so_it_is_from_the_host, "from_host_in_place", NULL)
CM_PLAY_EVERYWHERE(so_it_is_in_planes, "plane_in_place", NULL)
CM_PLAY_EVERYWHERE(a_managed_source_is_written_again, "source_in_place", NULL)
