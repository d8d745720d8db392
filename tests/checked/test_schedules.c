/* SPDX-License-Identifier: MIT */
/*
 * Two threads, and every place where the first one can be held up between two calls of the driver:
 * there the second one does all that it has to do, as far as it is not held up by the first. The
 * calls that the library makes by itself count, so that the second thread comes in between the
 * parts of one call of the program. Each schedule is a process, stopped where the checker finds
 * anything.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/checked/hold_up.h"
#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BLOCK (4 * MIB)

enum { SCHEDULES_MAX = 2000 };

/* ---- what both threads share ---- */

static CUcontext first_ctx;
static CUcontext second_ctx;
static CUdeviceptr block[4]; /* of the first context */
static void *pinned[2];
static CUfunction touch;

static void launch(CUstream stream, CUdeviceptr addr)
{
	uint64_t bytes = BLOCK;
	void *params[] = {&addr, &bytes};

	OK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static CUstream make_stream(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void *get_pinned(void)
{
	void *ptr;

	OK(cuMemHostAlloc(&ptr, BLOCK, 0));
	return ptr;
}

/* Work on the block, then another owner for it, and work of that one. */
static CUdeviceptr free_and_get(CUdeviceptr addr, CUstream stream)
{
	launch(stream, addr);
	OK(cuMemFree_v2(addr));
	addr = cm_get(BLOCK);
	OK(cuMemsetD8Async(addr, 1, BLOCK, make_stream()));
	return addr;
}

static void *free_and_get_pinned(void *ptr, CUstream stream)
{
	OK(cuMemcpyHtoDAsync_v2(block[3], ptr, BLOCK, stream));
	OK(cuMemFreeHost(ptr));
	ptr = get_pinned();
	memset(ptr, 1, BLOCK);
	return ptr;
}

/* A second context of the device, its copies under way in memory of the first, which is then
 * free. */
static void copy_into_first(void)
{
	CUstream copies = make_stream();
	CUdeviceptr source = cm_get(BLOCK);

	OK(cuMemcpyDtoDAsync_v2(block[0], source, BLOCK, copies));
	OK(cuMemcpyDtoHAsync_v2(pinned[0], source, BLOCK, copies));
	OK(cuMemFree_v2(block[0]));
	OK(cuMemFreeHost(pinned[0]));
}

/* ---- what the first thread does ---- */

static void churn(void)
{
	CUstream stream = make_stream();

	block[0] = free_and_get(block[0], stream);
	pinned[0] = free_and_get_pinned(pinned[0], stream);
	block[0] = free_and_get(block[0], stream);
}

static void destroy(void)
{
	OK(cuCtxPushCurrent_v2(second_ctx));
	copy_into_first();
	OK(cuCtxDestroy_v2(second_ctx));
	block[0] = free_and_get(cm_get(BLOCK), make_stream());
	pinned[0] = free_and_get_pinned(get_pinned(), make_stream());
}

/* The memory has just been allocated behind a barrier of its own context. */
static void create(void)
{
	CUcontext ctx;

	block[0] = free_and_get(block[0], make_stream());
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemsetD8Async(block[0], 2, BLOCK, make_stream()));
	OK(cuCtxDestroy_v2(ctx));
}

static void let_peer_in(void)
{
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 1));
	OK(cuCtxEnablePeerAccess(first_ctx, 0));
	OK(cuMemsetD8Async(block[0], 2, BLOCK, make_stream()));
	OK(cuCtxPopCurrent_v2(&ctx));
	block[0] = free_and_get(block[0], make_stream());
}

static void capture(void)
{
	CUstream stream = make_stream();
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(stream, block[0]);
	block[1] = free_and_get(block[1], make_stream());
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuMemFree_v2(block[0]));
	block[0] = free_and_get(cm_get(BLOCK), stream);
}

static void reset_other_device(void)
{
	CUcontext ctx;

	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	OK(cuCtxPushCurrent_v2(ctx));
	copy_into_first();
	OK(cuCtxPopCurrent_v2(&ctx));
	OK(cuDevicePrimaryCtxReset_v2(1));
	block[0] = free_and_get(cm_get(BLOCK), make_stream());
	pinned[0] = free_and_get_pinned(get_pinned(), make_stream());
}

/* ---- what the second one does ---- */

static void use_memory(void)
{
	CUstream stream = make_stream();

	block[2] = free_and_get(block[2], stream);
	pinned[1] = free_and_get_pinned(pinned[1], stream);
	block[2] = free_and_get(cm_get(BLOCK), stream);
}

/* A context that comes, copies into the first one, and goes. */
static void come_and_go(void)
{
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemcpyDtoDAsync_v2(block[2], cm_get(BLOCK), BLOCK, make_stream()));
	OK(cuMemFree_v2(block[2]));
	OK(cuCtxDestroy_v2(ctx));
	block[2] = free_and_get(cm_get(BLOCK), make_stream());
}

static void capture_meanwhile(void)
{
	CUstream stream = make_stream();
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(stream, block[2]);
	OK(cuStreamEndCapture(stream, &graph));
	block[2] = free_and_get(block[2], stream);
}

static const struct script {
	const char *name;
	void (*run)(void);
	void (*play)(uint64_t n); /* NULL: beside each of the scripts for the first thread */
} seconds[] = {
	{"use_memory", use_memory, NULL},
	{"come_and_go", come_and_go, NULL},
	{"capture", capture_meanwhile, NULL},
};
static const struct script *run_second;

/* ---- a schedule ---- */

static void begin_second(void)
{
	OK(cuCtxSetCurrent(first_ctx));
	run_second->run();
}

static const struct script scripts[] = {
	{"churn", churn, NULL},     {"destroy", destroy, NULL},
	{"create", create, NULL},   {"let_peer_in", let_peer_in, NULL},
	{"capture", capture, NULL}, {"reset_other_device", reset_other_device, NULL},
};

static void play(const struct script *script, uint64_t n)
{
	static const char text[] = "cudasim-module\n"
				   "kernel touch\n params ptr u64\n time 5ms\n writes p0 p1\nend\n";
	CUmodule module;
	size_t i;

	first_ctx = cm_open(0);
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&touch, module, "touch"));
	for (i = 0; i < 4; i++)
		block[i] = cm_get(BLOCK);
	for (i = 0; i < 2; i++)
		pinned[i] = get_pinned();
	if (script->run == destroy) {
		OK(cuCtxCreate_v2(&second_ctx, 0, 0));
		OK(cuCtxPopCurrent_v2(&second_ctx));
	}
	cm_hold_up(n, begin_second);
	script->run();
	cm_hold_up_end();
	OK(cuCtxSynchronize());
	exit(0);
}

/* The peer, which asks for access while the first thread gets the first memory of all. */
static void reach(void)
{
	OK(cuCtxSetCurrent(second_ctx));
	OK(cuCtxEnablePeerAccess(first_ctx, 0));
}

static void play_reach(uint64_t n)
{
	static const uint32_t flag = 1;

	second_ctx = cm_open(1);
	first_ctx = cm_open(0);
	cm_hold_up(n, begin_second);
	block[0] = cm_get(BLOCK);
	cm_hold_up_end();
	block[1] = cm_get(BLOCK);
	OK(cuCtxSetCurrent(second_ctx));
	cm_launch_hold(cm_load_hold(), NULL, block[0], BLOCK, &flag);
	cm_launch_hold(cm_load_hold(), NULL, block[1], BLOCK, &flag);
	OK(cuCtxSynchronize());
	exit(0);
}

/* So little that its place is the next one's. */
static void *get_little_pinned(void)
{
	void *ptr;

	OK(cuMemHostAlloc(&ptr, MIB, 0));
	return ptr;
}

/* Its context goes, and another one of the same device has the same memory and lives on. */
static void replace(void)
{
	OK(cuCtxDestroy_v2(second_ctx));
	OK(cuCtxCreate_v2(&second_ctx, 0, 0));
	pinned[0] = get_little_pinned();
	block[0] = cm_get(BLOCK);
}

static void replace_primary(CUresult (*end)(CUdevice device))
{
	OK(end(0));
	(void)cm_open(0);
	pinned[0] = get_little_pinned();
	block[0] = cm_get(BLOCK);
}

static void replace_reset(void)
{
	replace_primary(cuDevicePrimaryCtxReset_v2);
}

static void replace_released(void)
{
	replace_primary(cuDevicePrimaryCtxRelease_v2);
}

/* The first thread gives back what lies idle in a context that the second one ends meanwhile. */
static void play_give_back(uint64_t n)
{
	unsigned int flags;

	OK(cuInit(0));
	if (run_second->run == replace)
		OK(cuCtxCreate_v2(&second_ctx, 0, 0));
	else
		second_ctx = cm_open(0);
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuMemFreeHost(get_little_pinned()));
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	CM_MUST(!cudasim_fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY));
	CM_MUST(!cudasim_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY));
	cm_hold_up(n, begin_second);
	block[1] = cm_get(BLOCK);
	pinned[1] = get_little_pinned();
	cm_hold_up_end();
	OK(cuMemsetD8_v2(block[0], 1, BLOCK));
	OK(cuMemHostGetFlags(&flags, pinned[0]));
	memset(pinned[0], 1, MIB);
	exit(0);
}

/* The primary context of the device, which may have gone a moment ago. */
static void retain(void)
{
	second_ctx = cm_open(0);
	block[0] = cm_get(BLOCK);
}

/* The first thread leaves the primary context that the second one retains meanwhile. */
static void play_release(uint64_t n)
{
	CUcontext ctx;

	(void)cm_open(0);
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	cm_hold_up(n, begin_second);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	cm_hold_up_end();
	OK(cuCtxSetCurrent(second_ctx));
	OK(cuMemsetD8_v2(block[0], 1, BLOCK));
	OK(cuMemFree_v2(block[0]));
	exit(0);
}

/* In another context, what the primary one had a moment ago and is still written down for. */
static void take_over(void)
{
	OK(cuMemFree_v2(cm_get(BLOCK)));
	block[0] = cm_get(BLOCK);
}

static void take_over_pinned(void)
{
	OK(cuMemFreeHost(get_little_pinned()));
	pinned[0] = get_little_pinned();
}

/* In a context that may have the handle of the primary one. */
static void follow(void)
{
	OK(cuCtxCreate_v2(&second_ctx, 0, 0));
	take_over();
}

static void follow_on_other_device(void)
{
	(void)cm_open(1);
	take_over();
}

static void count_host(void *data, const char *key, int64_t value)
{
	if (!strcmp(key, "allocated_bytes.current"))
		*(int64_t *)data = value;
}

/* Each free was of what it meant. */
static void must_hold_nothing(void)
{
	struct cm_api api;
	int64_t host = -1;

	cm_api_open(&api);
	(void)api.host_memory_stats(count_host, &host);
	CM_MUST(!api.memory_allocated(0) && !api.memory_allocated(1) && !host);
}

/* The first thread leaves a primary context with all that is in use there. */
static void play_leave(uint64_t n)
{
	second_ctx = cm_open(0);
	(void)get_little_pinned();
	(void)cm_get(BLOCK);
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	cm_hold_up(n, begin_second);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemFreeHost(get_little_pinned()));
	OK(cuMemFree_v2(cm_get(3 * BLOCK)));
	OK(cuMemFree_v2(cm_get(5 * BLOCK)));
	OK(cuMemFree_v2(cm_get(7 * BLOCK)));
	cm_hold_up_end();
	if (block[0])
		OK(cuMemFree_v2(block[0]));
	else
		OK(cuMemFreeHost(pinned[0]));
	must_hold_nothing();
	exit(0);
}

/* All that the card has left, once what lies idle elsewhere has gone back. */
static void fill_card(void)
{
	size_t free_bytes, total;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	block[0] = cm_get(total / 4 * 3);
}

/* The first thread leaves a primary context that others have still, with much that lies idle. */
static void play_leave_idle(uint64_t n)
{
	size_t free_bytes, total;
	CUdeviceptr idle;

	second_ctx = cm_open(0);
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	idle = cm_get(total / 2);
	OK(cuMemFree_v2(idle));
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuDevicePrimaryCtxRetain(&second_ctx, 0));
	cm_hold_up(n, begin_second);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxRetain(&second_ctx, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxRetain(&second_ctx, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemFree_v2(cm_get(BLOCK)));
	cm_hold_up_end();
	exit(0);
}

/* What a context has that goes with what lies idle in it is free, and counts once. */
static void look(void)
{
	size_t free_bytes, total;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(free_bytes <= total / 8 * 7);
}

/* Outside the cache, which holds most of that. */
static void fill_pool(void)
{
	size_t free_bytes, total;
	CUdeviceptr addr;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	OK(cuMemAllocAsync(&addr, total / 4 * 3, make_stream()));
}

/* The first thread ends contexts with much that lies idle, beside an eighth of the card in use. */
static void play_end_idle(uint64_t n)
{
	size_t free_bytes, total;
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	block[0] = cm_get(total / 8);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemFree_v2(cm_get(total / 2)));
	OK(cuDevicePrimaryCtxRetain(&second_ctx, 0));
	cm_hold_up(n, begin_second);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxSetCurrent(second_ctx));
	OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	cm_hold_up_end();
	exit(0);
}

static void end_second(void)
{
	OK(cuCtxDestroy_v2(second_ctx));
}

/* The first request of all makes what belongs to each context, and another context is ended
 * meanwhile. */
static void play_first_request(uint64_t n)
{
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&second_ctx, 0, 0));
	OK(cuCtxCreate_v2(&first_ctx, 0, 0));
	cm_hold_up(n, begin_second);
	block[0] = cm_get(BLOCK);
	cm_hold_up_end();
	/* What is left of it would be waited for in vain. */
	OK(cuMemFree_v2(block[0]));
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(BLOCK) == block[0]);
	exit(0);
}

static const struct script pairs[] = {
	{"reach", reach, play_reach},
	{"replace", replace, play_give_back},
	{"replace_reset", replace_reset, play_give_back},
	{"replace_released", replace_released, play_give_back},
	{"retain", retain, play_release},
	{"take_over", take_over, play_leave},
	{"take_over_pinned", take_over_pinned, play_leave},
	{"follow", follow, play_leave},
	{"follow_on_other_device", follow_on_other_device, play_leave},
	{"fill_card", fill_card, play_leave_idle},
	{"look", look, play_end_idle},
	{"fill_pool", fill_pool, play_end_idle},
	{"end", end_second, play_first_request},
};

/* ---- the cases ---- */

/* From the first call on, until there are no more. */
static void play_all(const struct script *script)
{
	int status = 0;
	uint64_t n;
	pid_t child;

	for (n = 1; n < SCHEDULES_MAX; n++) {
		child = fork();
		if (!child && script->play)
			script->play(n);
		if (!child)
			play(script, n);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == CM_NOT_REACHED)
			break;
		if (status)
			fail_msg("%s: held up at call %llu, it ended with %d", script->name,
				 (unsigned long long)n, status);
	}
	printf("# %s: %llu schedules\n", script->name, (unsigned long long)n - 1);
	assert_in_range(n, 10, SCHEDULES_MAX - 1);
}

static void no_schedule_reuses_too_early(void **state)
{
	play_all(*state);
}

static void no_schedule_is_bad_for_the_second(void **state)
{
	(void)state;
	play_all(run_second);
}

/* The one argument names what the second thread does. */
int main(int argc, char **argv)
{
	enum { SCRIPTS = sizeof(scripts) / sizeof(scripts[0]) };
	struct CMUnitTest tests[SCRIPTS];
	const struct CMUnitTest pair[] = {cmocka_unit_test(no_schedule_is_bad_for_the_second)};
	size_t i;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], pairs[i].name))
			run_second = &pairs[i];
	}
	if (run_second)
		return cmocka_run_group_tests_name("checked_schedules", pair, NULL, NULL);
	for (i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], seconds[i].name))
			run_second = &seconds[i];
	}
	if (!run_second)
		return 2;
	memset(tests, 0, sizeof(tests));
	for (i = 0; i < SCRIPTS; i++) {
		tests[i].name = scripts[i].name;
		tests[i].test_func = no_schedule_reuses_too_early;
		tests[i].initial_state = (void *)&scripts[i];
	}
	return cmocka_run_group_tests_name("checked_schedules", tests, NULL, NULL);
}
