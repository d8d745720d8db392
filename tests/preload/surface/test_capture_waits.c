/* SPDX-License-Identifier: MIT */
/* Requests of other threads while a stream is captured: who waits for the end, and for how long. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static CUresult end(CUstream stream)
{
	CUgraph graph;

	return cuStreamEndCapture(stream, &graph);
}

static pthread_mutex_t program = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool has_lock;

/* As PyTorch's allocator, and an interpreter: with a lock of the program's held. */
static void *get_with_a_lock(void *arg)
{
	OK(cuCtxSetCurrent(arg));
	CM_MUST(!pthread_mutex_lock(&program));
	has_lock = true;
	(void)cm_get(40 * MIB);
	CM_MUST(!pthread_mutex_unlock(&program));
	return NULL;
}

/* The request waits for work that ends only after the capture, which wants the lock. */
CM_ROLE(wanted_lock)
{
	static volatile uint32_t flag;
	CUdeviceptr addr;
	pthread_t thread;
	CUstream stream;
	CUcontext ctx;
	uint64_t asked;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&ctx));
	stream = cm_new_stream();
	addr = cm_get(40 * MIB);
	cm_launch_hold(cm_load_hold(), cm_new_stream(), addr, MIB, &flag);
	OK(cuMemFree_v2(addr));
	CM_MUST(!pthread_create(&thread, NULL, get_with_a_lock, ctx));
	while (!has_lock)
		(void)usleep(100);
	/* It has begun to wait once it has asked again. */
	for (asked = cudasim_calls("cuEventQuery"); cudasim_calls("cuEventQuery") < asked + 3;)
		(void)usleep(100);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CM_MUST(!pthread_mutex_lock(&program));
	CM_MUST(!pthread_mutex_unlock(&program));
	OK(end(stream));
	flag = 1;
	CM_MUST(!pthread_join(thread, NULL));
}

static void *get_the_most(void *arg)
{
	OK(cuCtxSetCurrent(arg));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	return NULL;
}

/* What the cache holds is in the way of a request until the capture has ended. */
CM_ROLE(full_card)
{
	uint64_t refused;
	pthread_t thread;
	CUstream stream;
	CUcontext ctx;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&ctx));
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	OK(cuCtxSynchronize());
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	refused = cudasim_calls("cuMemAlloc_v2");
	CM_MUST(!pthread_create(&thread, NULL, get_the_most, ctx));
	while (cudasim_calls("cuMemAlloc_v2") == refused)
		(void)usleep(100);
	OK(end(stream));
	CM_MUST(!pthread_join(thread, NULL));
}

static void *get_what_was_freed(void *arg)
{
	OK(cuCtxSetCurrent(arg));
	(void)cm_get(30 * MIB);
	return NULL;
}

/* What was freed before a capture serves what is requested in it, by any thread, though the device
 * was at work when it was freed. */
CM_ROLE(freed_before)
{
	CUdeviceptr block[2];
	pthread_t thread;
	CUstream stream;
	CUcontext ctx;
	CUgraph graph;
	int i;

	ctx = cm_open(0);
	stream = cm_new_stream();
	for (i = 0; i < 2; i++)
		block[i] = cm_get(30 * MIB);
	for (i = 0; i < 2; i++) {
		cm_launch_slow(block[i]);
		OK(cuMemFree_v2(block[i]));
	}
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	block[0] = cm_get(29 * MIB);
	OK(cuMemsetD8Async(block[0], 1, 29 * MIB, stream));
	CM_MUST(!pthread_create(&thread, NULL, get_what_was_freed, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	OK(cuStreamEndCapture(stream, &graph));
}

static void *get_too_much(void *arg)
{
	struct rusage before, after;
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(arg));
	CM_MUST(!getrusage(RUSAGE_THREAD, &before));
	CM_MUST(cuMemAlloc_v2(&addr, SIZE_MAX / 2) == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(!getrusage(RUSAGE_THREAD, &after));
	/* A thread that waits sleeps some five hundred times. */
	CM_MUST(after.ru_nvcsw - before.ru_nvcsw < 100);
	return NULL;
}

/* Where nothing can be given back, and what the card never has, the end of a capture is of no
 * use. */
CM_ROLE(in_vain)
{
	pthread_t thread;
	CUstream stream;
	CUcontext ctx;

	ctx = cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CM_MUST(!pthread_create(&thread, NULL, get_too_much, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	OK(end(stream));
}

static _Atomic bool has_retained;

static void *retain_too(void *arg)
{
	CUcontext ctx;

	CM_MUST(!cudasim_fail("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_OUT_OF_MEMORY));
	(void)cuDevicePrimaryCtxRetain(&ctx, 0);
	has_retained = true;
	return arg;
}

/* Who waits for the capture's end, to make room, keeps nobody from what the capture needs. */
CM_ROLE(retain)
{
	pthread_t thread;
	CUstream stream;
	uint64_t calls;
	CUcontext ctx;

	cm_open_and_warm();
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	calls = cudasim_calls("cuDevicePrimaryCtxRetain");
	CM_MUST(!pthread_create(&thread, NULL, retain_too, NULL));
	while (cudasim_calls("cuDevicePrimaryCtxRetain") == calls)
		(void)usleep(100);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CM_MUST(!has_retained);
	OK(end(stream));
	CM_MUST(!pthread_join(thread, NULL));
}

CM_PLAY(a_request_that_waits_holds_no_capture_up, "wanted_lock", "reuse:wait", "CUDASIM=time:real")
CM_PLAY(who_waits_for_a_capture_does_not_hold_it_up, "retain", "", "CUDASIM=time:real")
CM_PLAY(a_capture_on_a_full_card_is_waited_for, "full_card", "", "CUDASIM=time:real,memory:64M")
CM_PLAY(a_capture_is_not_waited_for_in_vain, "in_vain", "mode:stats,oom_report:off",
	"CUDASIM=time:real")
CM_PLAY(a_capture_is_not_waited_for_by_who_wants_too_much, "in_vain", "oom_report:off",
	"CUDASIM=time:real")
CM_PLAY_EVERYWHERE(what_was_freed_before_a_capture_serves_in_it, "freed_before",
		   "CUDASIM=memory:64M,context:0")
