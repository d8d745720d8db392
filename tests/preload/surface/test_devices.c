/* SPDX-License-Identifier: MIT */
/*
 * Several devices in one process: memory of each waits for work that can touch it, and for no
 * other.
 */
#include <pthread.h>
#include <string.h>

#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BLOCK      (16 * MIB)
#define ROUNDS     300
#define PLAN(more) "CUDASIM=devices:2,memory:16G" more

/* Never ends, as far as the role is concerned. */
static volatile uint32_t flag;

static CUcontext open_busy(bool endless)
{
	CUcontext second = cm_open(1);
	CUdeviceptr block = cm_get(BLOCK);
	int i;

	if (endless)
		cm_launch_hold(cm_load_hold(), NULL, block, BLOCK, &flag);
	for (i = 0; i < 100 && !endless; i++)
		cm_launch_slow(block);
	return second;
}

/* Calls that a pair takes; what it takes natively is a part of that. */
static uint64_t get_and_free_often(void)
{
	CUdeviceptr addr;
	int i;

	cudasim_reset_counters();
	for (i = 0; i < ROUNDS; i++) {
		addr = cm_get(BLOCK);
		OK(cuMemsetD8_v2(addr, 1, BLOCK));
		OK(cuMemFree_v2(addr));
	}
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 20);
	CM_MUST(cudasim_peak_bytes(0) <= 64 * MIB);
	return cudasim_calls(NULL);
}

/* What device 0 does is the same whether device 1 is there or not. */
static void play(bool endless)
{
	CUcontext first = cm_open(0), second;
	uint64_t alone = get_and_free_often(), beside, start;

	OK(cuMemFree_v2(cm_get(BLOCK)));
	second = open_busy(endless);
	OK(cuCtxSetCurrent(first));
	start = cudasim_now();
	beside = get_and_free_often();
	/* An old driver is waited for by the batch, and how many blocks that is varies. */
	CM_MUST(beside <= alone + 10 || cudasim_calls("cuCtxSynchronize") <= ROUNDS / 2);
	/* Natively each round waits for its fill. */
	CM_MUST(cudasim_now() - start < 300000000);
	OK(cuCtxSetCurrent(second));
	CM_MUST(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
	flag = 1;
	OK(cuCtxSynchronize());
}

/* ---- a thread for each device ---- */

enum { DEVICES = 8 };

static void *drive(void *arg)
{
	CUcontext ctx = arg;
	CUdeviceptr addr;
	CUstream stream;
	int i;

	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < ROUNDS; i++) {
		addr = cm_get(BLOCK);
		OK(cuMemsetD8Async(addr, 1, BLOCK, stream));
		OK(cuMemFree_v2(addr));
	}
	return NULL;
}

/* Calls that threads on so many devices make together. */
static uint64_t drive_all(CUcontext *ctx, int n)
{
	pthread_t thread[DEVICES];
	int i;

	cudasim_reset_counters();
	for (i = 0; i < n; i++)
		CM_MUST(!pthread_create(&thread[i], NULL, drive, ctx[i]));
	for (i = 0; i < n; i++)
		CM_MUST(!pthread_join(thread[i], NULL));
	return cudasim_calls(NULL);
}

CM_ROLE(apart)
{
	CUcontext ctx[DEVICES];
	uint64_t alone;
	int i;

	for (i = 0; i < DEVICES; i++)
		ctx[i] = cm_open(i);
	alone = drive_all(ctx, 1);
	CM_MUST(drive_all(ctx, DEVICES) <= DEVICES * (alone + alone / 10));
	for (i = 0; i < DEVICES; i++)
		CM_MUST(cudasim_peak_bytes(i) <= 64 * MIB);
}

CM_ROLE(busy)
{
	play(false);
}

CM_ROLE(endless)
{
	play(true);
}

/* ---- what work of device 1 names ---- */

struct scene {
	CUcontext first, second;
	CUdeviceptr own, other, word; /* of devices 1, 0 and 0 */
	CUstream stream;              /* of device 1 */
	CUevent event;                /* of device 1, recorded */
};

static struct scene open_scene(void)
{
	struct scene scene = {.first = cm_open(0)};

	scene.other = cm_get(BLOCK);
	scene.second = cm_open(1);
	scene.own = cm_get(BLOCK);
	OK(cuStreamCreate(&scene.stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&scene.event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(scene.event, scene.stream));
	return scene;
}

static void do_unified(const struct scene *scene)
{
	OK(cuMemcpyAsync(scene->own, scene->other, BLOCK, scene->stream));
}

static void do_on_devices(const struct scene *scene)
{
	OK(cuMemcpyDtoDAsync_v2(scene->other, scene->own, BLOCK, scene->stream));
}

static void do_peers(const struct scene *scene)
{
	OK(cuMemcpyPeerAsync(scene->own, scene->second, scene->other, scene->first, BLOCK,
			     scene->stream));
}

static void do_to_host(const struct scene *scene)
{
	static char pinned[64];

	OK(cuMemHostRegister_v2(pinned, sizeof(pinned), 0));
	OK(cuMemcpyDtoHAsync_v2(pinned, scene->other, sizeof(pinned), scene->stream));
}

static void do_plane(const struct scene *scene)
{
	const CUDA_MEMCPY2D plane = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = scene->other,
		.srcPitch = MIB,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = scene->own,
		.dstPitch = MIB,
		.WidthInBytes = MIB,
		.Height = 4,
	};

	OK(cuMemcpy2DAsync_v2_ptsz(&plane, scene->stream));
}

static void do_box(const struct scene *scene)
{
	const CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = scene->own,
		.srcContext = scene->second,
		.srcPitch = MIB,
		.srcHeight = 1,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = scene->other,
		.dstContext = scene->first,
		.dstPitch = MIB,
		.dstHeight = 1,
		.WidthInBytes = MIB,
		.Height = 1,
		.Depth = 4,
	};

	OK(cuMemcpy3DPeerAsync(&box, scene->stream));
}

static void do_batch(const struct scene *scene)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dsts[] = {scene->own, scene->own + MIB}, srcs[] = {scene->own, scene->other};
	size_t sizes[] = {4096, 4096}, first = 0;

	srcs[0] += 2 * MIB;
	OK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 2, &attributes, &first, 1, scene->stream));
}

static void do_batch_of_boxes(const struct scene *scene)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
		.extent = {.width = BLOCK, .height = 1, .depth = 1},
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};

	op.src.op.ptr.ptr = scene->other;
	op.dst.op.ptr.ptr = scene->own;
	OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, scene->stream));
}

static void unpack(const struct scene *scene, CUdeviceptr src, CUdeviceptr dst, CUdeviceptr count)
{
	CUmemDecompressParams params = {
		.srcNumBytes = 4096,
		.dstNumBytes = 4096,
		.dstActBytes = (cuuint32_t *)count,
		.src = (const void *)src,
		.dst = (void *)dst,
		.algo = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE,
	};

	OK(cuMemBatchDecompressAsync(&params, 1, 0, NULL, scene->stream));
}

static void do_unpack(const struct scene *scene)
{
	unpack(scene, scene->other, scene->own, scene->own + MIB);
}

static void do_unpack_to(const struct scene *scene)
{
	unpack(scene, scene->own, scene->other, scene->own + MIB);
}

static void do_unpack_count(const struct scene *scene)
{
	unpack(scene, scene->own, scene->own + 2 * MIB, scene->other);
}

static void do_fill(const struct scene *scene)
{
	OK(cuMemsetD32Async(scene->other, 1, BLOCK / 4, scene->stream));
}

static void do_plane_fill(const struct scene *scene)
{
	OK(cuMemsetD2D8Async(scene->other, MIB, 1, 4096, 4, scene->stream));
}

static void do_value(const struct scene *scene)
{
	OK(cuStreamWriteValue32(scene->stream, scene->other, 1, 0));
}

static void do_words(const struct scene *scene)
{
	CUstreamBatchMemOpParams ops[2] = {0};

	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = scene->own;
	ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[1].writeValue.address = scene->other;
	OK(cuStreamBatchMemOp_v2(scene->stream, 2, ops, 0));
}

static void do_graph(const struct scene *scene)
{
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = scene->other, .elementSize = 1, .width = 4096, .height = 1};
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, scene->second));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, scene->stream));
}

static void (*const forms[])(const struct scene *scene) = {
	do_unpack,         do_unpack_to, do_unpack_count, do_batch,
	do_batch_of_boxes, do_unified,   do_on_devices,   do_peers,
	do_to_host,        do_plane,     do_box,          do_fill,
	do_plane_fill,     do_value,     do_words,        do_graph,
};
/* The calls of the first ones came after CUDA 12.4. */
#define FORMS_OF_LATER 5

static int driver_version(void)
{
	int version;

	OK(cuDriverGetVersion(&version));
	return version;
}

/* As long as the work is under way the block is nobody else's, and then it is again. */
static void hold_back(void (*submit)(const struct scene *scene))
{
	struct scene scene = open_scene();
	CUdeviceptr next;

	flag = 0;
	cm_launch_hold(cm_load_hold(), scene.stream, scene.own, 512, &flag);
	submit(&scene);
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	next = cm_get(BLOCK);
	CM_MUST(next != scene.other);
	flag = 1;
	OK(cuCtxSetCurrent(scene.second));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(scene.own));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(next));
	/* Without events of a context the device is waited for, once a batch has been freed. */
	if (driver_version() < 12050)
		return;
	next = cm_get(BLOCK);
	CM_MUST(next == scene.other);
	OK(cuMemFree_v2(next));
}

/* Each begins with an empty cache: no other block is there that could serve. */
CM_ROLE(forms)
{
	struct cm_api api;
	size_t i = driver_version() < 13000 ? FORMS_OF_LATER : 0;

	cm_api_open(&api);
	for (; i < sizeof(forms) / sizeof(forms[0]); i++) {
		hold_back(forms[i]);
		OK(cuCtxSynchronize());
		api.empty_cache();
	}
}

/* A block that was allocated behind a barrier: its old work is done before a call of device 1 that
 * names it returns. */
static void must_come_after(void (*call)(const struct scene *scene))
{
	struct scene scene = open_scene();
	uint64_t start;

	OK(cuCtxSetCurrent(scene.first));
	start = cudasim_now();
	cm_launch_slow(scene.other);
	OK(cuMemFree_v2(scene.other));
	CM_MUST(cm_get(BLOCK) == scene.other);
	CM_MUST(cudasim_now() - start < CM_SLOW_NS);
	OK(cuCtxSetCurrent(scene.second));
	call(&scene);
	CM_MUST(cudasim_now() - start >= CM_SLOW_NS);
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(scene.other));
	OK(cuMemFree_v2(scene.own));
}

static void do_in_place(const struct scene *scene)
{
	OK(cuMemcpy(scene->own, scene->other, 512));
}

static void do_peers_in_place(const struct scene *scene)
{
	OK(cuMemcpyPeer(scene->other, scene->first, scene->own, scene->second, 512));
}

static void do_from_host(const struct scene *scene)
{
	OK(cuMemcpyHtoD_v2_ptds(scene->other, "words", 5));
}

static void do_to_host_in_place(const struct scene *scene)
{
	char byte;

	OK(cuMemcpyDtoH_v2(&byte, scene->other, 1));
}

static void do_on_devices_in_place(const struct scene *scene)
{
	OK(cuMemcpyDtoD_v2(scene->other, scene->own, 512));
}

static void do_fill_in_place(const struct scene *scene)
{
	OK(cuMemsetD8_v2(scene->other, 1, 512));
}

static void do_plane_fill_in_place(const struct scene *scene)
{
	OK(cuMemsetD2D16_v2(scene->other, 512, 1, 16, 2));
}

CM_ROLE(in_place)
{
	static void (*const calls[])(const struct scene *scene) = {
		do_in_place,
		do_peers_in_place,
		do_from_host,
		do_to_host_in_place,
		do_on_devices_in_place,
		do_fill_in_place,
		do_plane_fill_in_place,
	};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		must_come_after(calls[i]);
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		must_come_after(forms[i]);
}

static void do_from_elsewhere(const struct scene *scene)
{
	OK(cuCtxSetCurrent(scene->first));
	OK(cuMemsetD8Async(scene->other, 1, BLOCK, scene->stream));
}

/* The stream decides whose work it is, and not the context that is current. */
CM_ROLE(foreign_stream)
{
	hold_back(do_from_elsewhere);
}

/* The kernel that device 0 waits for on the device may never end, so no barrier is laid behind it:
 * natively the free has returned before it is waited for. */
static void play_foreign(bool by_context)
{
	struct scene scene = open_scene();
	CUdeviceptr kept;
	CUstream stream;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuCtxSetCurrent(scene.first));
	kept = cm_get(MIB);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuCtxSetCurrent(scene.second));
	cm_launch_hold(cm_load_hold(), scene.stream, scene.own, 512, &flag);
	OK(cuEventRecord(event, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	if (by_context)
		OK(cuCtxWaitEvent(scene.first, event));
	else
		OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuMemsetD8Async(kept, 1, MIB, stream));
	cudasim_reset_counters();
	CM_MUST(cm_get(BLOCK) != scene.other);
	CM_MUST(cudasim_calls("cuCtxWaitEvent") == 0);
	flag = 1;
	OK(cuCtxSynchronize());
}

CM_ROLE(foreign_event)
{
	play_foreign(false);
}

CM_ROLE(foreign_event_of_context)
{
	play_foreign(true);
}

/* Idle segments of device 0 go for one of its own. */
static void *exchange(void *first)
{
	OK(cuCtxSetCurrent(first));
	(void)cm_get(50 * MIB);
	return NULL;
}

/* While the calling thread is about to submit. */
static void let_another_exchange(void *first)
{
	pthread_t thread;

	CM_MUST(!pthread_create(&thread, NULL, exchange, first));
	CM_MUST(!pthread_join(thread, NULL));
}

/* Work that was announced before an event showed device 0 to be idle, and submitted behind it. */
static void show_idle_before(void (*submit)(const struct scene *scene))
{
	struct scene scene = open_scene();
	CUdeviceptr idle[3];
	uint64_t records;
	int i;

	OK(cuCtxSetCurrent(scene.first));
	for (i = 0; i < 3; i++)
		idle[i] = cm_get(40 * MIB);
	for (i = 0; i < 3; i++)
		OK(cuMemFree_v2(idle[i]));
	OK(cuCtxSynchronize());
	cudasim_interrupt(2, let_another_exchange, scene.first); /* behind cuStreamGetCtx */
	submit(&scene);
	CM_MUST(cudasim_calls("cuMemFree_v2") == 2);
	records = cudasim_calls("cuCtxRecordEvent");
	(void)cm_get(56 * MIB);
	CM_MUST(cudasim_calls("cuCtxRecordEvent") > records);
}

static void wait_for_event(const struct scene *scene)
{
	OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, scene->event, 0));
}

CM_ROLE(idle_before_a_wait)
{
	show_idle_before(wait_for_event);
}

CM_ROLE(idle_before_a_copy)
{
	show_idle_before(do_fill);
}

/* The copy goes with its device, which natively a reset waits for. */
CM_ROLE(reset)
{
	struct scene scene = open_scene();

	OK(cuMemcpyDtoDAsync_v2(scene.other, scene.own, BLOCK, scene.stream));
	OK(cuDevicePrimaryCtxReset_v2(1));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	CM_MUST(cm_get(BLOCK) == scene.other);
	cm_launch_slow(scene.other);
	OK(cuMemFree_v2(scene.other));
	CM_MUST(cm_get(BLOCK) == scene.other);
}

/* To let more wait than what is live (poll_policy.h). */
#define WITHOUT_ROOM "CUDASIM=devices:2,memory:6G,abilities:on"

CM_PLAY(a_busy_device_holds_up_no_other, "busy", "", PLAN(""))
CM_PLAY(nor_does_a_kernel_that_never_ends, "endless", "", PLAN(""))
CM_PLAY(nor_does_it_under_12_4, "busy", "", PLAN(",version:12040"))
CM_PLAY(nor_does_a_kernel_that_never_ends_under_12_4, "endless", "", PLAN(",version:12040"))
CM_PLAY(nor_does_it_under_12_2, "busy", "", PLAN(",version:12020"))
CM_PLAY(nor_does_a_kernel_that_never_ends_under_12_2, "endless", "", PLAN(",version:12020"))
CM_PLAY(a_thread_on_each_device_makes_no_more_calls, "apart", "", "CUDASIM=devices:8,memory:16G")
CM_PLAY(work_that_names_a_block_holds_it_back, "forms", "", WITHOUT_ROOM)
CM_PLAY(so_it_does_under_12_4, "forms", "", WITHOUT_ROOM ",version:12040")
CM_PLAY(so_it_does_under_12_2, "forms", "", WITHOUT_ROOM ",version:12020")
CM_PLAY(work_that_names_a_block_comes_after_its_old_work, "in_place", "", WITHOUT_ROOM)
CM_PLAY(a_copy_is_work_of_its_stream, "foreign_stream", "", PLAN(""))
CM_PLAY(a_stream_waits_for_an_event_of_another_device, "foreign_event", "", PLAN(""))
CM_PLAY(a_context_waits_for_an_event_of_another_device, "foreign_event_of_context", "", PLAN(""))
CM_PLAY(a_device_that_gets_a_wait_is_not_idle, "idle_before_a_wait", "", PLAN(""))
CM_PLAY(a_device_that_gets_a_copy_is_not_idle, "idle_before_a_copy", "", PLAN(""))
CM_PLAY(a_device_that_is_reset_holds_nothing_back, "reset", "", PLAN(""))
