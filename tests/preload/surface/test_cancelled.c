/* SPDX-License-Identifier: MIT */
/*
 * A thread that is cancelled in a call of the driver, each in turn: what others wait for is not
 * left behind, nor is what a function of the library's own has opened. And one that leaves a call
 * by longjmp(3), and goes on.
 */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define NOT_REACHED     9
#define CALLS_LEAST     40 /* of the driver in one round; it is far more */
#define SECONDS_AT_MOST 60 /* a round that hangs ends so */
#define TOGETHER        8  /* rounds */

static uint64_t held_up_at; /* 0: nowhere */
static bool reached;

static void cancel(void *unused)
{
	(void)unused;
	reached = true;
	CM_MUST(!pthread_cancel(pthread_self()));
	pthread_testcancel();
}

/* Through the hooks that hold something while they call the driver. */
static void use(CUcontext ctx)
{
	CUdeviceptr large, small, none = 0;
	CUcontext other;
	CUstream stream;
	CUgraph graph;
	void *pinned;

	OK(cuCtxSetCurrent(ctx));
	large = cm_get(8 * MIB);
	small = cm_get(MIB);
	OK(cuMemsetD8Async(large, 1, MIB, NULL));
	OK(cuMemFree_v2(large));
	large = cm_get(8 * MIB);
	OK(cuMemsetD8Async(large, 2, MIB, NULL));
	OK(cuMemFree_v2(large));
	CM_MUST(cuMemAlloc_v2(&none, 31 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(small));
	OK(cuMemHostAlloc(&pinned, MIB, 0));
	OK(cuMemFreeHost(pinned));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuStreamDestroy_v2(stream));
	OK(cuDevicePrimaryCtxRetain(&other, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuCtxDestroy_v2(other));
}

static void *use_held_up(void *ctx)
{
	if (held_up_at)
		cudasim_interrupt(held_up_at, cancel, NULL);
	use(ctx);
	return NULL;
}

/* Status NOT_REACHED: it makes fewer calls. */
static void play_one(uint64_t n)
{
	CUcontext ctx = cm_open(0);
	pthread_t thread;

	(void)alarm(SECONDS_AT_MOST);
	held_up_at = n;
	CM_MUST(!pthread_create(&thread, NULL, use_held_up, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	use(ctx);
	/* No capture, for one, is thought to be active still. */
	CM_MUST(cm_own_counters(0).scalar[CM_SCALAR_forwarded_allocs] == 0);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	exit(reached ? 0 : NOT_REACHED);
}

static bool is_reached(pid_t pid, uint64_t n)
{
	int status;

	CM_MUST(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_REACHED)
		return false;
	if (status) {
		(void)fprintf(stderr, "cancelled in call %u: status %#x\n", (unsigned)n,
			      (unsigned)status);
		exit(1);
	}
	return true;
}

/* Several at a time: they mostly wait for the kernel, which starts and ends them. */
CM_ROLE(each)
{
	pid_t pids[TOGETHER];
	bool all_reached = true;
	uint64_t n = 0, i;

	for (; all_reached; n += TOGETHER) {
		for (i = 0; i < TOGETHER; i++) {
			pids[i] = fork();
			CM_MUST(pids[i] >= 0);
			if (!pids[i])
				play_one(n + i + 1);
		}
		for (i = 0; i < TOGETHER; i++)
			all_reached &= is_reached(pids[i], n + i + 1);
	}
	CM_MUST(n > CALLS_LEAST + TOGETHER);
}

static struct cm_api api;
static bool dumped;

static void *dump_cancelled(void *path)
{
	CM_MUST(!pthread_cancel(pthread_self()));
	CM_MUST(!api.dump_snapshot(path));
	dumped = true;
	pthread_testcancel();
	return path;
}

CM_ROLE(dump)
{
	char path[PATH_MAX];
	pthread_t thread;
	void *result;
	int fd;

	cm_api_open(&api);
	(void)cm_open(0);
	(void)cm_get(MIB);
	(void)snprintf(path, sizeof(path), "%s/dumped", getenv("REGIONS"));
	fd = dup(STDERR_FILENO);
	CM_MUST(fd >= 0 && !close(fd));
	CM_MUST(!pthread_create(&thread, NULL, dump_cancelled, path));
	CM_MUST(!pthread_join(thread, &result));
	CM_MUST(dumped && result == PTHREAD_CANCELED);
	CM_MUST(dup(STDERR_FILENO) == fd); /* no file is left open */
	CM_MUST(!unlink(path));
}

static jmp_buf before_call;

static void leave(void *unused)
{
	(void)unused;
	longjmp(before_call, 1);
}

/* As an interpreter does that is interrupted. */
CM_ROLE(leave)
{
	size_t free_bytes, total;
	CUdeviceptr first, second;
	uint64_t frees;

	(void)cm_open(0);
	first = cm_get(MIB / 4);
	second = cm_get(MIB / 4); /* of the same segment */
	if (!setjmp(before_call)) {
		cudasim_interrupt(1, leave, NULL);
		(void)cuMemGetInfo_v2(&free_bytes, &total);
		CM_MUST(false);
	}
	frees = cudasim_calls("cuMemFree_v2");
	OK(cuMemFree_v2(first));
	CM_MUST(cm_allocated() == MIB / 4);
	OK(cuMemsetD8_v2(second, 7, MIB / 4));
	OK(cuMemFree_v2(second));
	CM_MUST(cm_allocated() == 0);
	CM_MUST(cudasim_calls("cuMemFree_v2") == frees);
	/* What is not ours is still the driver's to refuse. */
	CM_MUST(cuMemFree_v2(second + 512) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(64 * MIB) == CUDA_ERROR_INVALID_VALUE);
}

static CUdeviceptr kept;

/* In the driver's call for memory, with none of the locks that a free takes. */
static void free_within(void *unused)
{
	(void)unused;
	OK(cuMemFree_v2(kept));
	CM_MUST(cuMemFree_v2(kept + 1) == CUDA_ERROR_INVALID_VALUE);
}

/* As a signal handler may. */
CM_ROLE(within)
{
	(void)cm_open(0);
	kept = cm_get(MIB / 4);
	cudasim_interrupt(2, free_within, NULL); /* behind cuCtxGetCurrent */
	OK(cuMemFree_v2(cm_get(4 * MIB)));
	CM_MUST(cm_allocated() == 0);
}

#define ON_CARD(test, conf, card) CM_PLAY(test, "each", conf, "CUDASIM=memory:32M" card)

ON_CARD(a_cancelled_thread_leaves_no_lock_behind, "oom_report:off,events:0", "")
ON_CARD(nor_does_one_that_moves_pages, "oom_report:off,events:0,expandable_segments:True", "")
ON_CARD(nor_does_one_that_waits_for_the_context, "oom_report:off,events:0", ",version:12000")

CM_PLAY(a_cancelled_thread_ends_its_snapshot_first, "dump", "", "CUDASIM=memory:1G")
CM_PLAY(a_thread_that_left_a_call_frees_its_own, "leave", "events:0", "CUDASIM=memory:1G")
CM_PLAY(as_does_one_within_a_call, "within", "events:0", "CUDASIM=memory:1G")
