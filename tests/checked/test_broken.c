/* SPDX-License-Identifier: MIT */
/*
 * The checker against heaps that are broken on purpose (broken_*.c): each breaks the law in one
 * way, and a program that gets into its way is stopped. Under the library as it is every one of
 * these programs ends well, so it is the heap that is found, and not the program.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BLOCK (12 * MIB) /* all of a segment, so that the next request lacks it */

/* ---- the programs ---- */

static CUfunction load_touch(void)
{
	static const char text[] = "cudasim-module\n"
				   "kernel touch\n params ptr u64\n time 5ms\n writes p0 p1\nend\n";
	CUmodule module;
	CUfunction touch;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&touch, module, "touch"));
	return touch;
}

static void launch(CUfunction kernel, CUstream stream, CUdeviceptr addr)
{
	uint64_t bytes = BLOCK;
	void *params[] = {&addr, &bytes};

	OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static CUstream make_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

/* Frees and gets the same again, if the heap thinks that it may. */
static CUdeviceptr free_and_get(CUdeviceptr addr)
{
	OK(cuMemFree_v2(addr));
	return cm_get(BLOCK);
}

static void reuse_across(unsigned int flags)
{
	CUstream old, new;
	CUdeviceptr addr;
	CUfunction touch;
	int i;

	cm_open(0);
	touch = load_touch();
	old = make_stream(flags);
	new = make_stream(flags);
	addr = cm_get(BLOCK);
	for (i = 0; i < 10; i++) {
		launch(touch, old, addr);
		addr = free_and_get(addr);
		launch(touch, new, addr);
		addr = free_and_get(addr);
	}
	OK(cuCtxSynchronize());
}

CM_ROLE(streams)
{
	reuse_across(CU_STREAM_DEFAULT);
}

CM_ROLE(non_blocking)
{
	reuse_across(CU_STREAM_NON_BLOCKING);
}

/* A copy made by one context in the memory of another needs no leave. */
CM_ROLE(contexts)
{
	CUdeviceptr addr, source;
	CUstream copies, stream;
	CUcontext other, ctx = cm_open(0);
	CUfunction touch = load_touch();
	int i;

	stream = make_stream(CU_STREAM_DEFAULT);
	addr = cm_get(BLOCK);
	OK(cuCtxCreate_v2(&other, 0, 0));
	copies = make_stream(CU_STREAM_DEFAULT);
	source = cm_get(BLOCK);
	for (i = 0; i < 10; i++) {
		OK(cuMemcpyDtoDAsync_v2(addr, source, BLOCK, copies));
		OK(cuCtxPushCurrent_v2(ctx));
		addr = free_and_get(addr);
		launch(touch, stream, addr);
		OK(cuCtxPopCurrent_v2(&ctx));
		OK(cuCtxSynchronize());
	}
}

/* The program waits for the context that frees, while another one copies from the memory. */
CM_ROLE(wait)
{
	CUdeviceptr addr, target;
	CUcontext other, ctx = cm_open(0);
	CUstream copies, stream;
	CUfunction touch = load_touch();
	int i;

	stream = make_stream(CU_STREAM_DEFAULT);
	addr = cm_get(BLOCK);
	OK(cuCtxCreate_v2(&other, 0, 0));
	copies = make_stream(CU_STREAM_DEFAULT);
	target = cm_get(BLOCK);
	for (i = 0; i < 10; i++) {
		OK(cuMemcpyDtoDAsync_v2(target, addr, BLOCK, copies));
		OK(cuCtxPushCurrent_v2(ctx));
		OK(cuMemFree_v2(addr));
		OK(cuCtxSynchronize());
		addr = cm_get(BLOCK);
		launch(touch, stream, addr);
		OK(cuCtxSynchronize());
		OK(cuCtxPopCurrent_v2(&ctx));
	}
	OK(cuCtxSynchronize());
}

/* Two streams of a context that reaches the memory of another device. The memory's own context is
 * busy, too: only then is a barrier laid in it. */
CM_ROLE(peer)
{
	CUcontext owner = cm_open(0), peer;
	CUdeviceptr addr = cm_get(BLOCK), other = cm_get(BLOCK);
	CUstream first, second, owners = make_stream(CU_STREAM_DEFAULT);
	CUfunction touch, owners_touch = load_touch();
	int i;

	OK(cuCtxCreate_v2(&peer, 0, 1));
	OK(cuCtxEnablePeerAccess(owner, 0));
	touch = load_touch();
	first = make_stream(CU_STREAM_DEFAULT);
	second = make_stream(CU_STREAM_DEFAULT);
	for (i = 0; i < 10; i++) {
		launch(touch, i % 2 ? second : first, addr);
		OK(cuCtxPushCurrent_v2(owner));
		launch(owners_touch, owners, other);
		addr = free_and_get(addr);
		OK(cuCtxPopCurrent_v2(&owner));
	}
	OK(cuCtxSynchronize());
}

/* The memory was allocated behind a barrier of its own context before others could reach it. */
CM_ROLE(late_peer)
{
	CUcontext owner = cm_open(0), peer;
	CUstream stream = make_stream(CU_STREAM_DEFAULT);
	CUdeviceptr addr = cm_get(BLOCK);

	launch(load_touch(), stream, addr);
	addr = free_and_get(addr);
	OK(cuCtxCreate_v2(&peer, 0, 1));
	OK(cuCtxEnablePeerAccess(owner, 0));
	launch(load_touch(), make_stream(CU_STREAM_DEFAULT), addr);
	OK(cuCtxSynchronize());
}

/* Copies by the other device, which was given no access. */
static CUcontext copy_by_other(CUdeviceptr addr, CUdeviceptr next)
{
	CUcontext owner, other = cm_open(1);
	const CUdeviceptr source = cm_get(BLOCK);

	OK(cuMemcpyDtoDAsync_v2(addr, source, BLOCK, make_stream(CU_STREAM_NON_BLOCKING)));
	OK(cuMemcpyDtoDAsync_v2(source, next, BLOCK, make_stream(CU_STREAM_NON_BLOCKING)));
	OK(cuCtxPopCurrent_v2(&other));
	OK(cuCtxGetCurrent(&owner));
	return other;
}

/* What the other one copies is freed in two batches: each is large enough to be closed before a
 * kernel. */
CM_ROLE(copies)
{
	CUcontext owner = cm_open(0), other;
	CUdeviceptr addr = cm_get(10 * BLOCK), next = cm_get(10 * BLOCK), kept = cm_get(BLOCK);
	CUstream stream = make_stream(CU_STREAM_DEFAULT);
	CUfunction touch = load_touch();

	OK(cuCtxPushCurrent_v2(owner));
	other = copy_by_other(addr, next);
	OK(cuMemFree_v2(addr));
	launch(touch, stream, kept);
	OK(cuMemFree_v2(next));
	launch(touch, stream, cm_get(10 * BLOCK));
	launch(touch, stream, cm_get(10 * BLOCK));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(other));
	OK(cuCtxSynchronize());
}

/* The memory was allocated behind a barrier of its own context before the other copies it. */
CM_ROLE(late_copy)
{
	CUcontext owner = cm_open(0), other;
	CUdeviceptr addr = cm_get(BLOCK);

	(void)cm_open(1);
	OK(cuCtxSetCurrent(owner));
	launch(load_touch(), make_stream(CU_STREAM_DEFAULT), addr);
	addr = free_and_get(addr);
	OK(cuCtxPushCurrent_v2(owner));
	other = copy_by_other(addr, addr);
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(other));
	OK(cuCtxSynchronize());
}

CM_ROLE(pinned)
{
	CUdeviceptr addr;
	CUstream stream;
	void *ptr;
	int i;

	cm_open(0);
	stream = make_stream(CU_STREAM_DEFAULT);
	addr = cm_get(BLOCK);
	OK(cuMemHostAlloc(&ptr, BLOCK, 0));
	for (i = 0; i < 10; i++) {
		OK(cuMemcpyDtoHAsync_v2(ptr, addr, BLOCK, stream));
		OK(cuMemFreeHost(ptr));
		OK(cuMemHostAlloc(&ptr, BLOCK, 0));
		cudasim_host_write(ptr, BLOCK);
		memset(ptr, i, BLOCK);
	}
	OK(cuCtxSynchronize());
}

/* Memory comes and goes while another stream is being captured. */
CM_ROLE(capture)
{
	CUstream captured, old, new;
	CUdeviceptr addr;
	CUfunction touch;
	CUgraph graph;
	int i;

	cm_open(0);
	touch = load_touch();
	captured = make_stream(CU_STREAM_NON_BLOCKING);
	old = make_stream(CU_STREAM_NON_BLOCKING);
	new = make_stream(CU_STREAM_NON_BLOCKING);
	addr = cm_get(BLOCK);
	OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (i = 0; i < 4; i++) {
		launch(touch, i % 2 ? new : old, addr);
		addr = free_and_get(addr);
	}
	OK(cuStreamEndCapture(captured, &graph));
	OK(cuCtxSynchronize());
}

/* A page in the middle of a run is free behind a barrier, and wanted elsewhere. */
CM_ROLE(page)
{
	CUdeviceptr addr, behind;
	CUstream stream;

	cm_open(0);
	stream = make_stream(CU_STREAM_DEFAULT);
	addr = cm_get(BLOCK);
	behind = cm_get(BLOCK);
	launch(load_touch(), stream, addr);
	OK(cuMemFree_v2(addr));
	addr = cm_get(BLOCK / 2);
	(void)cm_get(4 * BLOCK);
	OK(cuMemFree_v2(addr));
	OK(cuMemFree_v2(behind));
	OK(cuCtxSynchronize());
}

/* What network cards may write goes back to the driver with its free. */
CM_ROLE(shown)
{
	CUdeviceptr addr;
	unsigned on = 1;

	cm_open(0);
	addr = cm_get(BLOCK);
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	launch(load_touch(), make_stream(CU_STREAM_DEFAULT), addr);
	OK(cuMemFree_v2(addr));
	(void)cm_get(2 * BLOCK);
	(void)cm_get(3 * BLOCK);
	OK(cuCtxSynchronize());
}

/* A card may write at once, and the program keeps the registration. */
CM_ROLE(named)
{
	void *verbs = dlopen(getenv("VERBS"), RTLD_NOW);
	void *(*reg)(void *domain, void *addr, size_t bytes, int access);
	CUdeviceptr addr;
	CUstream stream;

	CM_MUST(verbs);
	*(void **)&reg = dlsym(verbs, "ibv_reg_mr");
	cm_open(0);
	stream = make_stream(CU_STREAM_DEFAULT);
	addr = cm_get(BLOCK);
	CM_MUST(reg && reg(NULL, (void *)addr, BLOCK, 0));
	launch(load_touch(), stream, addr);
	addr = free_and_get(addr);
	cudasim_host_write((void *)addr, BLOCK);
	OK(cuCtxSynchronize());
}

/* Every access was of memory that the program owns: the ring misses no entry point. */
CM_ROLE(all_owned)
{
	struct cudasim_checked checked;
	void *host[2];

	reuse_across(CU_STREAM_DEFAULT);
	OK(cuMemAllocHost_v2(&host[0], BLOCK));
	OK(cuMemHostAlloc(&host[1], BLOCK, 0));
	cudasim_host_write(host[0], BLOCK);
	cudasim_host_write(host[1], BLOCK);
	cudasim_checked(&checked);
	CM_MUST(checked.accesses == 22 && checked.strays == 0);
}

/* A graph of device 1 fills a block of device 0. Its capture has a stream of that device, or has
 * not. */
static void launch_on_other(CUcontext owner, CUdeviceptr addr, bool joined)
{
	CUcontext other = cm_open(1);
	CUstream own = make_stream(CU_STREAM_NON_BLOCKING), stream = own;
	CUfunction touch;
	CUevent fork, join;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuCtxPushCurrent_v2(owner));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	touch = load_touch();
	if (joined)
		stream = make_stream(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture_v2(own, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, own));
	OK(cuStreamWaitEvent(stream, fork, 0));
	if (joined) {
		launch(touch, stream, addr);
		OK(cuEventRecord(join, stream));
		OK(cuStreamWaitEvent(own, join, 0));
	} else {
		OK(cuMemsetD8Async(addr, 1, BLOCK, own));
	}
	OK(cuStreamEndCapture(own, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuCtxPopCurrent_v2(&owner));
	/* What was done until here reaches nothing any more. */
	OK(cuCtxSynchronize());
	OK(cuCtxPushCurrent_v2(owner));
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuCtxPopCurrent_v2(&owner));
	OK(cuGraphLaunch(exec, own));
	OK(cuCtxPopCurrent_v2(&other));
}

static void play_graph_with(bool joined)
{
	CUcontext owner = cm_open(0);
	CUdeviceptr addr = cm_get(BLOCK);
	CUstream stream = make_stream(CU_STREAM_DEFAULT);
	CUfunction touch = load_touch();
	int i;

	OK(cuCtxPushCurrent_v2(owner));
	launch_on_other(owner, addr, joined);
	for (i = 0; i < 10; i++) {
		addr = free_and_get(addr);
		launch(touch, stream, addr);
	}
	OK(cuCtxSynchronize());
}

CM_ROLE(graph)
{
	play_graph_with(false);
}

CM_ROLE(joined)
{
	play_graph_with(true);
}

/* ---- the cases ---- */

enum { ABORTED = 128 + 6 };

static int play(struct cm_play *play, const char *module, const char *role, const char *options)
{
	char preload[PATH_MAX + 64], conf[PATH_MAX + 64];
	const char *environment[] = {"CUDASIM=check:stop,devices:2,time:virtual", preload, conf,
				     "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", NULL};
	const struct cm_rerun rerun = {.role = role, .environment = environment};

	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s/lib%s.so", getenv("MODULES"),
		       module);
	(void)snprintf(conf, sizeof(conf), "CUDAMEM_CONF=region_dir:%s,decay_seconds:off,%s",
		       play->dir, options);
	return cm_rerun(&rerun, play->said);
}

CM_PLAY_TEST(library_passes)
{
	static const char *const options[] = {
		"",           "reuse:wait",
		"reuse:grow", "placement:exact",
		"sync:free",  "expandable_segments:on",
	};
	const struct cm_role *role;
	int status;
	size_t i;

	for (role = cm_roles; role; role = role->next) {
		for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
			status = play(*state, "cudamem_checked", role->name, options[i]);
			if (status)
				fail_msg("%s, %s: ended with %d; said: %s", role->name, options[i],
					 status, ((struct cm_play *)*state)->said);
		}
	}
}

/* The first program that is stopped, and why; what it leaves is a region. */
static void must_be_found(void **state, const char *module, const char *role, const char *options)
{
	struct cm_play *fixture = *state;
	char command[PATH_MAX + 16];
	int status = play(fixture, module, role, options);

	if (status != ABORTED)
		fail_msg("%s: ended with %d; said: %s", module, status, fixture->said);
	if (!strstr(fixture->said, "memory is reused too early") ||
	    !strstr(fixture->said, "the old owner's: "))
		fail_msg("%s: said: %s", module, fixture->said);
	(void)snprintf(command, sizeof(command), "rm -f %s/*", fixture->dir);
	assert_int_equal(system(command), 0);
}

#define FOUND(name, role, options)                                            \
	CM_PLAY_TEST(name##_is_found)                                         \
	{                                                                     \
		must_be_found(state, "cudamem_broken_" #name, role, options); \
	}

FOUND(at_once, "streams", "reuse:wait")
FOUND(no_wait, "streams", "")
FOUND(one_stream, "non_blocking", "")
FOUND(one_context, "contexts", "")
FOUND(peer, "peer", "")
FOUND(settle, "late_peer", "")
FOUND(named, "named", "")
FOUND(reach, "copies", "")
FOUND(graph, "graph", "")
FOUND(join, "joined", "")
FOUND(under_way, "copies", "")
FOUND(pinned, "pinned", "sync:never")
FOUND(capture, "capture", "")
/* Pages are moved where the limit is near. */
FOUND(pages, "page", "expandable_segments:on,memory_limit_mb:72")

/* It waits as all that is freed does, and goes back with the next request. */
CM_PLAY_TEST(shown_is_found)
{
	must_be_found(state, "cudamem_broken_at_once", "shown", "expandable_segments:on");
}

/* No barrier is laid, and yet others' work is not waited for. */
CM_PLAY_TEST(peer_is_found_by_a_wait)
{
	must_be_found(state, "cudamem_broken_peer", "wait", "reuse:grow");
}

CM_PLAY_TEST(settle_is_found_by_a_copy)
{
	must_be_found(state, "cudamem_broken_settle", "late_copy", "");
}
