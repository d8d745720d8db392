/* SPDX-License-Identifier: MIT */
/*
 * What the host reads and writes behind a free and no other synchronisation is what it is without
 * the library: a native cudaFree waits for the device, a cached one for work that the host can see.
 * Where there is no such work a free waits for nothing and asks nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BYTES (2 * MIB) /* a tenth of a millisecond of a copy */

static const char text[] =
	"cudasim-module\n"
	"kernel fill\n params ptr u32 u64\n writes p0 p2*4\n do fill p0 p1 p2\nend\n"
	"kernel touch\n params ptr u64\n writes p0 p1\n time 20ms\nend\n";

static CUdeviceptr source, temporary;
static CUstream stream;
static uint32_t *host;

static void open_all(void)
{
	cm_open(0);
	OK(cuMemAllocHost_v2((void **)&host, BYTES));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	source = cm_get(BYTES);
	temporary = cm_get(MIB);
	memset(host, 0, BYTES);
	OK(cuMemsetD32_v2(source, 7, BYTES / 4));
	OK(cuCtxSynchronize());
}

/* The last word comes last. */
static void must_read(uint32_t wanted)
{
	OK(cuMemFree_v2(temporary));
	CM_MUST(host[BYTES / 4 - 1] == wanted);
}

CM_ROLE(plain)
{
	open_all();
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	must_read(7);
}

CM_ROLE(unified)
{
	open_all();
	OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, source, BYTES, stream));
	must_read(7);
}

CM_ROLE(unified_on_devices)
{
	CUdeviceptr other;
	uint64_t start;

	open_all();
	other = cm_get(BYTES);
	OK(cuMemcpyAsync(other, source, BYTES, stream));
	start = cudasim_now();
	OK(cuMemFree_v2(temporary));
	CM_MUST(cudasim_now() == start);
	CM_MUST(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
}

CM_ROLE(planes)
{
	CUDA_MEMCPY2D plane = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = BYTES / 64,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstPitch = BYTES / 64,
		.WidthInBytes = BYTES / 64,
		.Height = 64,
	};

	open_all();
	plane.srcDevice = source;
	plane.dstHost = host;
	OK(cuMemcpy2DAsync_v2(&plane, stream));
	must_read(7);
}

CM_ROLE(boxes)
{
	CUDA_MEMCPY3D box = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcPitch = BYTES / 64,
		.srcHeight = 8,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstPitch = BYTES / 64,
		.dstHeight = 8,
		.WidthInBytes = BYTES / 64,
		.Height = 8,
		.Depth = 8,
	};

	open_all();
	box.srcDevice = source;
	box.dstDevice = (CUdeviceptr)(uintptr_t)host;
	OK(cuMemcpy3DAsync_v2_ptsz(&box, stream));
	must_read(7);
}

CM_ROLE(batch)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	size_t sizes[] = {4096, BYTES - 4096}, first = 0;
	CUdeviceptr dsts[2], srcs[2];

	open_all();
	dsts[0] = (uintptr_t)host;
	dsts[1] = dsts[0] + 4096;
	srcs[0] = source;
	srcs[1] = source + 4096;
	OK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 2, &attributes, &first, 1, stream));
	must_read(7);
}

/* A copy of all of the source to the host, as one row. */
static CUDA_MEMCPY3D_BATCH_OP all_as_a_box(void)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.extent = {.width = BYTES, .height = 1, .depth = 1},
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};

	op.src.op.ptr.ptr = source;
	op.dst.op.ptr.ptr = (uintptr_t)host;
	return op;
}

CM_ROLE(batch_of_boxes)
{
	CUDA_MEMCPY3D_BATCH_OP op;

	open_all();
	op = all_as_a_box();
	OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
	must_read(7);
}

CM_ROLE(attributes)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

	open_all();
	OK(cuMemcpyWithAttributesAsync((uintptr_t)host, source, BYTES, &attributes, stream));
	must_read(7);
}

CM_ROLE(attributes_of_a_box)
{
	CUDA_MEMCPY3D_BATCH_OP op;

	open_all();
	op = all_as_a_box();
	OK(cuMemcpy3DWithAttributesAsync_ptsz(&op, 0, stream));
	must_read(7);
}

/* The host gets the number of bytes alone. */
CM_ROLE(unpacked)
{
	CUmemDecompressParams params = {
		.srcNumBytes = BYTES,
		.dstNumBytes = BYTES,
		.algo = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE,
	};

	open_all();
	params.src = (const void *)source;
	params.dst = (void *)cm_get(BYTES);
	params.dstActBytes = &host[BYTES / 4 - 1];
	OK(cuMemBatchDecompressAsync(&params, 1, 0, NULL, stream));
	must_read(BYTES);
}

/* A pinned source may be written again behind a free. */
CM_ROLE(source)
{
	uint32_t last = 0;

	open_all();
	memset(host, 1, BYTES);
	OK(cuMemcpyHtoDAsync_v2(source, host, BYTES, stream));
	OK(cuMemFree_v2(temporary));
	memset(host, 2, BYTES);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(&last, source + BYTES - 4, 4));
	CM_MUST(last == 0x01010101);
}

CM_ROLE(pinned_free)
{
	void *other;

	open_all();
	OK(cuMemAllocHost_v2(&other, MIB));
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuMemFreeHost(other));
	CM_MUST(host[BYTES / 4 - 1] == 7);
}

CM_ROLE(pinned_free_beside_a_capture)
{
	CUstream other;
	CUgraph graph;
	void *block;

	open_all();
	OK(cuMemAllocHost_v2(&block, MIB));
	other = cm_new_stream();
	OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuMemFreeHost(block));
	CM_MUST(!host[BYTES / 4 - 1]);
	OK(cuStreamEndCapture(other, &graph));
}

CM_ROLE(destroyed_stream)
{
	open_all();
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuStreamDestroy_v2(stream));
	must_read(7);
}

static void *copy_on_own_stream(void *ctx)
{
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemcpyDtoHAsync_v2_ptsz(host, source, BYTES, NULL));
	return NULL;
}

CM_ROLE(stream_of_a_thread)
{
	pthread_t thread;
	CUcontext ctx;

	open_all();
	OK(cuCtxGetCurrent(&ctx));
	CM_MUST(!pthread_create(&thread, NULL, copy_on_own_stream, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	must_read(7);
}

CM_ROLE(own_stream)
{
	open_all();
	OK(cuMemcpyDtoHAsync_v2_ptsz(host, source, BYTES, NULL));
	must_read(7);
}

static CUgraphExec capture(void)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

CM_ROLE(graph)
{
	open_all();
	OK(cuGraphLaunch(capture(), stream));
	must_read(7);
}

CM_ROLE(captured_copy)
{
	uint64_t start;

	open_all();
	(void)capture();
	start = cudasim_now();
	OK(cuMemFree_v2(temporary));
	CM_MUST(cudasim_now() == start);
	CM_MUST(!host[0]);
}

/* Another stream is captured meanwhile, in a mode that allows the free. */
CM_ROLE(beside_a_capture)
{
	CUstream other;
	CUgraph graph;

	open_all();
	other = cm_new_stream();
	OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	must_read(7);
	OK(cuStreamEndCapture(other, &graph));
}

static sem_t begun, may_end;

static void *capture_alone(void *ctx)
{
	CUstream other;
	CUgraph graph;

	OK(cuCtxSetCurrent(ctx));
	other = cm_new_stream();
	OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CM_MUST(!sem_post(&begun));
	CM_MUST(!sem_wait(&may_end));
	OK(cuStreamEndCapture(other, &graph));
	return NULL;
}

/* Before the first call that follows the next allocation. */
static void begin_once_allocated(void *thread)
{
	static uint64_t calls;
	const uint64_t before = calls;
	CUcontext ctx;

	calls = cudasim_calls("cuMemAlloc_v2");
	if (!before || calls == before) {
		cudasim_interrupt(1, begin_once_allocated, thread);
		return;
	}
	OK(cuCtxGetCurrent(&ctx));
	CM_MUST(!pthread_create(thread, NULL, capture_alone, ctx));
	CM_MUST(!sem_wait(&begun));
}

/* Before the free waits, another thread begins a capture that forbids it to others. */
CM_ROLE(capture_meanwhile)
{
	CUstream other;
	CUgraph graph;
	pthread_t thread;

	open_all();
	CM_MUST(!sem_init(&begun, 0, 0) && !sem_init(&may_end, 0, 0));
	other = cm_new_stream();
	OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	cudasim_interrupt(1, begin_once_allocated, &thread);
	must_read(7);
	CM_MUST(!sem_post(&may_end) && !pthread_join(thread, NULL));
	OK(cuStreamEndCapture(other, &graph));
}

CM_ROLE(graph_on_device)
{
	CUgraphExec exec;
	CUgraph graph;
	uint64_t start;

	open_all();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(source, 9, BYTES / 4, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	start = cudasim_now();
	OK(cuMemFree_v2(temporary));
	CM_MUST(cudasim_now() == start);
}

static volatile uint32_t called;

static void host_function(void *data)
{
	(void)data;
	called = 1;
}

CM_ROLE(host_function)
{
	open_all();
	OK(cuMemsetD32Async(source, 9, BYTES / 4, stream));
	OK(cuLaunchHostFunc(stream, host_function, NULL));
	OK(cuMemFree_v2(temporary));
	CM_MUST(called);
}

CM_ROLE(host_function_of_a_graph)
{
	CUgraphExec exec;
	CUgraph graph;

	open_all();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(source, 9, BYTES / 4, stream));
	OK(cuLaunchHostFunc(stream, host_function, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuMemFree_v2(temporary));
	CM_MUST(called);
}

static void fill_by_kernel(CUdeviceptr addr)
{
	CUfunction fill = cm_load(text, "fill");
	uint64_t words = BYTES / 4;
	uint32_t value = 5;
	void *params[] = {&addr, &value, &words};

	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

CM_ROLE(mapped)
{
	CUdeviceptr addr;
	uint32_t *mapped;

	open_all();
	OK(cuMemHostAlloc((void **)&mapped, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer_v2(&addr, mapped, 0));
	fill_by_kernel(addr);
	OK(cuMemFree_v2(temporary));
	CM_MUST(mapped[BYTES / 4 - 1] == 5);
}

CM_ROLE(fill_of_mapped)
{
	uint32_t *mapped;

	open_all();
	OK(cuMemHostAlloc((void **)&mapped, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)mapped, 6, BYTES / 4, stream));
	OK(cuMemFree_v2(temporary));
	CM_MUST(mapped[BYTES / 4 - 1] == 6);
}

/* Nothing tells that the kernel reaches the host. */
CM_ROLE(kernel_in_pinned)
{
	open_all();
	fill_by_kernel((uintptr_t)host);
	OK(cuMemFree_v2(temporary));
	CM_MUST(host[BYTES / 4 - 1] == 0);
}

/* Nor does anything tell it of memory that no call has made. */
CM_ROLE(kernel_in_pageable)
{
	static uint32_t words[BYTES / 4];

	open_all();
	fill_by_kernel((uintptr_t)words);
	OK(cuMemFree_v2(temporary));
	CM_MUST(words[BYTES / 4 - 1] == 0);
	OK(cuStreamSynchronize(stream));
	CM_MUST(words[BYTES / 4 - 1] == 5);
}

/* Once the process has managed or mapped memory kernels are waited for, wherever they write. */
CM_ROLE(kernel_in_pageable_beside_managed)
{
	static uint32_t words[BYTES / 4];
	CUdeviceptr managed;

	open_all();
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	fill_by_kernel((uintptr_t)words);
	OK(cuMemFree_v2(temporary));
	CM_MUST(words[BYTES / 4 - 1] == 5);
}

/* Kernels alone are waited for by nobody, and nothing is asked. */
CM_ROLE(kernels)
{
	CUfunction touch;
	uint64_t bytes = BYTES, start;
	void *params[] = {&source, &bytes};
	int i;

	open_all();
	touch = cm_load(text, "touch");
	for (i = 0; i < 10; i++) {
		OK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		start = cudasim_now();
		OK(cuMemFree_v2(temporary));
		CM_MUST(cudasim_now() == start);
		temporary = cm_get(MIB);
	}
	CM_MUST(cudasim_calls("cuStreamQuery") == 0);
	CM_MUST(cudasim_calls("cuEventSynchronize") == 0);
}

/* What the program has waited for itself costs one question. */
CM_ROLE(synchronized)
{
	open_all();
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFree_v2(temporary));
	CM_MUST(cudasim_calls("cuStreamQuery") == 1);
	temporary = cm_get(MIB);
	OK(cuMemFree_v2(temporary));
	CM_MUST(cudasim_calls("cuStreamQuery") == 1);
	CM_MUST(cudasim_calls("cuEventSynchronize") == 0);
}

/* From the second time on a free waits for the copy, and not for the kernel behind it. */
CM_ROLE(copy_and_kernel)
{
	CUfunction touch;
	uint64_t bytes = BYTES, start = 0;
	void *params[] = {&source, &bytes};
	int i;

	open_all();
	touch = cm_load(text, "touch");
	for (i = 0; i < 2; i++) {
		OK(cuStreamSynchronize(stream));
		OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
		OK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		start = cudasim_now();
		must_read(7);
		temporary = cm_get(MIB);
	}
	CM_MUST(cudasim_now() - start < CM_SLOW_NS);
	CM_MUST(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
}

/* Work of another device is none of this free's. */
CM_ROLE(other_device)
{
	CUdeviceptr mine;
	uint64_t start;

	open_all();
	cm_open(1);
	mine = cm_get(MIB);
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	start = cudasim_now();
	OK(cuMemFree_v2(mine));
	CM_MUST(cudasim_now() == start);
}

CM_ROLE(never)
{
	open_all();
	OK(cuMemcpyDtoHAsync_v2(host, source, BYTES, stream));
	OK(cuMemFree_v2(temporary));
	CM_MUST(host[BYTES / 4 - 1] == 0);
}

CM_PLAY_EVERYWHERE(a_copy_is_read_behind_a_free, "plain", NULL)
CM_PLAY_EVERYWHERE(a_copy_by_unified_addresses_is_read, "unified", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_planes_is_read, "planes", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_boxes_is_read, "boxes", NULL)
CM_PLAY_EVERYWHERE(a_batch_of_copies_is_read, "batch", NULL)
CM_PLAY_EVERYWHERE(a_batch_of_boxes_is_read, "batch_of_boxes", NULL)
CM_PLAY_EVERYWHERE(a_copy_with_attributes_is_read, "attributes", NULL)
CM_PLAY_EVERYWHERE(a_box_with_attributes_is_read, "attributes_of_a_box", NULL)
CM_PLAY_EVERYWHERE(what_decompression_wrote_is_read, "unpacked", "CUDASIM=abilities:on")
CM_PLAY_EVERYWHERE(the_source_of_a_copy_is_written_again, "source", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_a_destroyed_stream_is_read, "destroyed_stream", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_another_threads_stream_is_read, "stream_of_a_thread", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_the_threads_own_stream_is_read, "own_stream", NULL)
CM_PLAY_EVERYWHERE(a_copy_of_a_graph_is_read, "graph", NULL)
CM_PLAY_EVERYWHERE(a_host_function_has_run, "host_function", NULL)
CM_PLAY_EVERYWHERE(a_host_function_of_a_graph_has_run, "host_function_of_a_graph", NULL)
CM_PLAY_EVERYWHERE(mapped_memory_is_read_behind_a_kernel, "mapped", NULL)
CM_PLAY_EVERYWHERE(mapped_memory_is_read_behind_a_fill, "fill_of_mapped", NULL)
CM_PLAY(a_copy_between_devices_is_not_waited_for, "unified_on_devices", "", NULL)
CM_PLAY(a_copy_is_read_behind_a_free_of_pinned_memory, "pinned_free", "", NULL)
CM_PLAY_EVERYWHERE(a_copy_is_read_behind_a_free_beside_a_capture, "beside_a_capture", NULL)
CM_PLAY(a_free_of_pinned_memory_beside_a_capture_does_not_wait, "pinned_free_beside_a_capture", "",
	NULL)
CM_PLAY(a_wait_beside_a_capture_ends_no_other, "capture_meanwhile", "", NULL)
CM_PLAY(a_captured_copy_is_not_waited_for, "captured_copy", "", NULL)
CM_PLAY(a_graph_on_a_device_is_not_waited_for, "graph_on_device", "", NULL)
CM_PLAY(a_kernel_in_plain_pinned_memory_is_not_waited_for, "kernel_in_pinned", "", NULL)
CM_PLAY(a_kernel_in_pageable_memory_is_not_waited_for, "kernel_in_pageable", "",
	"CUDASIM=pageable:on")
CM_PLAY_EVERYWHERE(pageable_memory_is_read_beside_managed, "kernel_in_pageable_beside_managed",
		   "CUDASIM=pageable:on")
CM_PLAY(kernels_are_not_waited_for_and_nothing_is_asked, "kernels", "", NULL)
CM_PLAY(what_the_program_waited_for_costs_one_question, "synchronized", "", NULL)
CM_PLAY(the_kernel_behind_a_copy_is_not_waited_for, "copy_and_kernel", "", NULL)
CM_PLAY(a_copy_of_another_device_is_not_waited_for, "other_device", "", "CUDASIM=devices:2")
CM_PLAY(never_means_never, "never", "sync:never", NULL)
CM_PLAY(the_old_word_means_never, "never", "sync:epoch", NULL)
