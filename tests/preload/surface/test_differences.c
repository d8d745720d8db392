/* SPDX-License-Identifier: MIT */
/*
 * What is different with the library, and what makes it go away. Each role is played without the
 * library, with it (DIFFERS in the environment), and with it and the option: only the second may
 * tell them apart, and must.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static void must_differ(bool does)
{
	CM_MUST(does == (getenv("DIFFERS") != NULL));
}

static CUdeviceptr freed_block(void)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	OK(cuMemsetD32_v2(block, 0x5eed, 3 * MIB / 4));
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	return block;
}

CM_ROLE(contents)
{
	CUdeviceptr block = freed_block(), again = cm_get(3 * MIB);
	uint32_t word = 0;

	if (again == block)
		OK(cuMemcpyDtoH_v2(&word, again, 4));
	must_differ(word == 0x5eed);
}

CM_ROLE(use_after_free)
{
	must_differ(cuMemsetD8_v2(freed_block(), 1, 1) == CUDA_SUCCESS);
}

CM_ROLE(questions_after_free)
{
	unsigned int type;

	must_differ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed_block()) ==
		    CUDA_SUCCESS);
}

CM_ROLE(beyond_the_end)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	must_differ(cuMemsetD8_v2(block + 3 * MIB, 1, 1) == CUDA_SUCCESS);
}

CM_ROLE(size)
{
	uint64_t first, second;

	cm_open(0);
	OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, cm_get(3 * MIB)));
	OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, cm_get(3 * MIB)));
	must_differ(first == second);
}

/* Natively an identity is never used again, nor its registrations. */
CM_ROLE(identity)
{
	uint64_t first, second;
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, cm_get(3 * MIB)));
	must_differ(first == second);
}

/* As nvidia-smi and other processes have it; cuMemGetInfo of the process itself does not differ. */
CM_ROLE(card)
{
	size_t free_before, free_after, total;
	uint64_t used;

	cm_open(0);
	OK(cuMemGetInfo_v2(&free_before, &total));
	used = cudasim_used_bytes(0);
	(void)freed_block();
	OK(cuMemGetInfo_v2(&free_after, &total));
	CM_MUST(free_after == free_before);
	must_differ(cudasim_used_bytes(0) != used);
}

CM_ROLE(wait)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	must_differ(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
}

/* Cached memory does not go back to the driver under such work: the driver's free would wait. */
CM_ROLE(work_without_end)
{
	static volatile uint32_t flag;
	CUdeviceptr held, block;
	CUresult got;

	CM_MUST(!setenv("CUDASIM", "memory:200M", 1));
	cm_open(0);
	held = cm_get(2 * MIB);
	OK(cuMemFree_v2(cm_get(100 * MIB)));
	cm_launch_hold(cm_load_hold(), NULL, held, MIB, &flag);
	got = cuMemAlloc_v2(&block, 150 * MIB);
	flag = 1;
	OK(cuCtxSynchronize());
	must_differ(got == CUDA_ERROR_OUT_OF_MEMORY);
}

/* A driver without events of contexts: the whole context is waited for. */
CM_ROLE(old_driver)
{
	CUdeviceptr other;

	CM_MUST(!setenv("CUDASIM", "version:12040", 1));
	cm_open(0);
	other = cm_get(3 * MIB);
	OK(cuMemFree_v2(cm_get(100 * MIB)));
	cm_launch_slow(other);
	(void)cm_get(50 * MIB);
	must_differ(cuStreamQuery(NULL) == CUDA_SUCCESS);
}

CM_ROLE(thread)
{
	unsigned before = cm_count_entries("/proc/self/task", "");

	(void)freed_block();
	must_differ(cm_count_entries("/proc/self/task", "") == before + 1);
}

CM_ROLE(file)
{
	(void)freed_block();
	must_differ(cm_count_regions() == 1);
}

/* What lies between live blocks does not go back to the driver. */
CM_ROLE(info)
{
	CUdeviceptr block[3];
	size_t before, after, total;
	int i;

	cm_open(0);
	for (i = 0; i < 3; i++)
		block[i] = cm_get(3 * MIB);
	OK(cuMemGetInfo_v2(&before, &total));
	OK(cuMemFree_v2(block[1]));
	OK(cuMemGetInfo_v2(&after, &total));
	must_differ(after == before);
}

CM_ROLE(info_of_a_small_block)
{
	size_t bytes, total;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(1000)));
	OK(cuMemGetInfo_v2(&bytes, &total));
	must_differ(bytes < total);
}

#define MANY 16

/* The card is full, and every second block is freed. */
CM_ROLE(between)
{
	CUdeviceptr block[MANY], addr;
	int i, n = 0;

	CM_MUST(!cudasim_plan("memory:64M"));
	cm_open(0);
	while (cuMemAlloc_v2(&block[n], 5 * MIB) == CUDA_SUCCESS)
		CM_MUST(++n < MANY);
	for (i = 1; i < n; i += 2)
		OK(cuMemFree_v2(block[i]));
	OK(cuCtxSynchronize());
	must_differ(cuMemAlloc_v2(&addr, 12 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* Descriptors of files in the folder of the regions. */
static int count_descriptors(void)
{
	const char *folder = getenv("REGIONS");
	char link[64], path[PATH_MAX];
	int fd, n = 0;

	for (fd = 0; fd < 256; fd++) {
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n += readlink(link, path, sizeof(path)) > (ssize_t)strlen(folder) &&
		     !strncmp(path, folder, strlen(folder));
	}
	return n;
}

CM_ROLE(descriptor)
{
	(void)freed_block();
	must_differ(count_descriptors() == 1);
}

/* Looked up at run time, as the runtime does: no sign of sharing, so there are pieces. */
CM_ROLE(handle)
{
	__typeof__(cuIpcGetMemHandle) *get_handle;
	CUipcMemHandle handle;

	get_handle = (__typeof__(get_handle))dlsym(RTLD_DEFAULT, "cuIpcGetMemHandle");
	CM_MUST(get_handle);
	cm_open(0);
	OK(get_handle(&handle, cm_get(3 * MIB)));
	(void)cm_get(3 * MIB);
	must_differ(get_handle(&handle, cm_get(3 * MIB)) == CUDA_ERROR_INVALID_VALUE);
}

/* The legacy stream would wait for the one that is captured: the driver refuses, and natively it is
 * work that was refused, under us a question. */
CM_ROLE(legacy_free)
{
	CUdeviceptr block;
	CUresult ended;
	CUstream stream;
	CUgraph graph;

	cm_open(0);
	block = cm_get(3 * MIB);
	OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CM_MUST(cuMemFreeAsync(block, NULL) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ended = cuStreamEndCapture(stream, &graph);
	CM_MUST(ended == CUDA_SUCCESS || ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* It was not freed. */
	OK(cuMemsetD8_v2(block, 1, 3 * MIB));
	OK(cuMemFreeAsync(block, NULL));
	CM_MUST(cuMemFreeAsync(block, NULL) == CUDA_ERROR_INVALID_VALUE);
	must_differ(ended == CUDA_SUCCESS);
}

/* A program that orders its streams by a free alone, with no event and no wait. */
CM_ROLE(order)
{
	static const char text[] = "cudasim-module\n"
				   "kernel late\n"
				   " params ptr u32 u64\n"
				   " time 20ms\n"
				   " writes p0 4\n"
				   " do fill p0 p1 p2\n"
				   "end\n";
	const uint32_t wanted = 7;
	uint64_t words = 1;
	uint32_t word = 0;
	CUdeviceptr block, other;
	CUstream stream;
	void *params[] = {&block, (void *)&wanted, &words};

	cm_open(0);
	block = cm_get(3 * MIB);
	other = cm_get(3 * MIB);
	OK(cuMemsetD32_v2(block, 0, 1));
	stream = cm_new_stream();
	OK(cuLaunchKernel(cm_load(text, "late"), 1, 1, 1, 1, 1, 1, 0, cm_new_stream(), params,
			  NULL));
	OK(cuMemFree_v2(other));
	OK(cuMemcpyDtoHAsync_v2(&word, block, 4, stream));
	OK(cuStreamSynchronize(stream));
	must_differ(word != wanted);
}

/* The same for memory that is unmapped under a kernel. */
CM_ROLE(unmapped)
{
	const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr other, range;

	cm_open(0);
	other = cm_get(3 * MIB);
	OK(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 2 * MIB, &on_device, 0));
	OK(cuMemMap(range, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(range, 2 * MIB, &access, 1));
	cm_launch_slow(range);
	OK(cuMemFree_v2(other));
	OK(cuMemUnmap(range, 2 * MIB));
	must_differ(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void look_at_the_end(void)
{
	CUcontext ctx = NULL;

	OK(cuCtxGetCurrent(&ctx));
	must_differ(!ctx);
}

/* The thread that ends last runs the handlers: the helper thread, if there is one. */
CM_ROLE(last_thread)
{
	cm_open(0);
	(void)cm_get(MIB);
	CM_MUST(!atexit(look_at_the_end));
	pthread_exit(NULL);
}

#define DIFFERENCE(test, role, option)                  \
	CM_PLAY_TEST(test)                              \
	{                                               \
		cm_play(state, role, NULL, NULL);       \
		cm_play(state, role, "", "DIFFERS=1");  \
		cm_play(state, role, option, NULL);     \
		cm_play(state, role, "mode:off", NULL); \
	}

/* clang-format off */
DIFFERENCE(a_block_comes_with_its_last_contents, "contents", "mode:stats")
DIFFERENCE(a_use_after_free_is_not_noticed, "use_after_free", "mode:stats")
DIFFERENCE(a_freed_block_still_answers, "questions_after_free", "mode:stats")
DIFFERENCE(a_use_beyond_the_end_may_not_be_noticed, "beyond_the_end", "mode:stats")
DIFFERENCE(a_block_may_be_part_of_a_larger_allocation, "size", "mode:stats")
DIFFERENCE(an_identity_is_used_again, "identity", "mode:stats")
DIFFERENCE(the_card_shows_what_is_cached_as_used, "card", "mode:stats")
DIFFERENCE(a_free_does_not_wait_for_the_device, "wait", "sync:free")
DIFFERENCE(a_free_orders_no_streams, "order", "sync:free")
DIFFERENCE(a_free_ends_no_work_before_memory_is_unmapped, "unmapped", "sync:free")
DIFFERENCE(a_refused_free_in_the_legacy_stream_spoils_no_capture, "legacy_free", "mode:off")
DIFFERENCE(what_is_free_between_blocks_does_not_count, "info", "placement:exact")
DIFFERENCE(a_request_waits_under_an_old_driver, "old_driver", "sync:free")
DIFFERENCE(a_thread_answers_the_tool, "thread", "control:off")
DIFFERENCE(the_helper_thread_may_be_the_last, "last_thread", "control:off")
DIFFERENCE(a_file_holds_the_statistics, "file", "mode:off")
DIFFERENCE(a_descriptor_keeps_that_file_open, "descriptor", "mode:off")
/* clang-format on */

CM_PLAY_TEST(cached_memory_stays_under_work_without_end)
{
	cm_play(state, "work_without_end", NULL, NULL);
	cm_play(state, "work_without_end", "oom_report:off", "DIFFERS=1");
	cm_play(state, "work_without_end", "mode:stats", NULL);
	cm_play(state, "work_without_end", "mode:off", NULL);
}

CM_PLAY_TEST(what_the_driver_adds_to_a_block_does_not_count)
{
	cm_play(state, "info_of_a_small_block", NULL, NULL);
	cm_play(state, "info_of_a_small_block", "placement:exact", "DIFFERS=1");
	cm_play(state, "info_of_a_small_block", "placement:split", NULL);
	cm_play(state, "info_of_a_small_block", "mode:stats,placement:exact", NULL);
}

CM_PLAY_TEST(what_is_free_between_blocks_serves_no_larger_one)
{
	cm_play(state, "between", NULL, NULL);
	cm_play(state, "between", "oom_report:off", "DIFFERS=1");
	cm_play(state, "between", "oom_report:off,placement:exact", NULL);
	cm_play(state, "between", "oom_report:off,expandable_segments:on", NULL);
	cm_play(state, "between", "mode:off", NULL);
}

/* With a word why, which other cases look at. */
CM_PLAY_TEST(a_piece_of_an_allocation_has_no_handle)
{
	cm_play(state, "handle", NULL, NULL);
	cm_play(state, "handle", "placement:auto,log:off", "DIFFERS=1");
	cm_play(state, "handle", "placement:exact", NULL);
	cm_play(state, "handle", "placement:auto", "WORLD_SIZE=2");
	cm_play(state, "handle", "mode:off", NULL);
}
