/* SPDX-License-Identifier: MIT */
/*
 * Threads with the smallest stack that pthread_create(3) takes, 16 KiB: whatever the driver does
 * for them, the library does too, from its start to a request that asks peer processes.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static void run_small(void *(*play)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	CM_MUST(!pthread_attr_init(&attr));
	CM_MUST(!pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN));
	CM_MUST(!pthread_create(&thread, &attr, play, NULL));
	CM_MUST(!pthread_join(thread, NULL));
}

static void use_device_memory(void)
{
	CUdeviceptr addr, base;
	size_t bytes, pitch, total;

	addr = cm_get(MIB);
	OK(cuMemGetAddressRange_v2(&base, &bytes, addr));
	OK(cuMemGetInfo_v2(&bytes, &total));
	OK(cuMemFree_v2(addr));
	OK(cuMemAllocPitch_v2(&addr, &pitch, 1000, 100, 4));
	OK(cuMemFree_v2(addr));
	OK(cuMemAllocManaged(&addr, MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemFree_v2(addr));
	CM_MUST(cuMemFree_v2(12345) != CUDA_SUCCESS);
}

static void use_host_memory(void)
{
	void *host;

	OK(cuMemHostAlloc(&host, MIB, 0));
	OK(cuMemFreeHost(host));
	OK(cuMemAllocHost_v2(&host, MIB));
	OK(cuMemFreeHost(host));
}

static void use_streams(void)
{
	CUdeviceptr addr = cm_get(MIB), other;
	CUstream stream;
	CUgraph graph;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemsetD8Async(addr, 1, MIB, stream));
	OK(cuMemFree_v2(addr));
	OK(cuMemAllocAsync(&other, MIB, stream));
	OK(cuMemFreeAsync(other, stream));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAlloc_v2(&addr, 3 * MIB));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuMemFree_v2(addr));
	OK(cuStreamDestroy_v2(stream));
}

static void *use_everything(void *arg)
{
	CUcontext first = cm_open(0), second;

	use_device_memory();
	use_host_memory();
	use_streams();
	OK(cuCtxCreate_v2(&second, 0, 0));
	(void)cm_get(MIB);
	OK(cuCtxDestroy_v2(second));
	OK(cuCtxSetCurrent(first));
	OK(cuDevicePrimaryCtxReset_v2(0));
	return arg;
}

CM_ROLE(everything)
{
	run_small(use_everything);
}

static const char *const hooks[] = {
#define CM_HOOK(symbol, base, version, flags) #symbol,
#include "interpose/symbols/hooks.def"
};
#define HOOKS (sizeof(hooks) / sizeof(hooks[0]))

typedef CUresult any_fn(void *a, void *b, void *c, void *d, void *e, void *f, void *g, void *h,
			void *i, void *j);

static any_fn *function[HOOKS];

/* Without an argument each function fails, or does nothing, as far as the driver goes. */
static void *call_each(void *arg)
{
	size_t i;

	for (i = 0; i < HOOKS; i++) {
		(void)cm_open(0); /* one of them ends the context */
		if (function[i])
			(void)function[i](arg, arg, arg, arg, arg, arg, arg, arg, arg, arg);
	}
	return arg;
}

/* Under the library its hooks, without it the driver's own functions. */
CM_ROLE(hooks)
{
	size_t i;

	for (i = 0; i < HOOKS; i++) {
		void *found = dlsym(RTLD_DEFAULT, hooks[i]);

		memcpy(&function[i], &found, sizeof(found));
	}
	run_small(call_each);
}

/* Fragmented, and wants more than there is: it trims, asks its peers, and reports. */
static void *run_out(void *arg)
{
	CUdeviceptr addr[4];
	unsigned i;

	cm_open(0);
	for (i = 0; i < 4; i++)
		addr[i] = cm_get(9 * MIB);
	for (i = 0; i < 4; i += 2)
		OK(cuMemFree_v2(addr[i]));
	CM_MUST(cuMemAlloc_v2(&addr[0], 60 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	return arg;
}

static void hold_and_wait(int say, int hear)
{
	CUdeviceptr addr;
	char byte;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	cm_open(0);
	addr = cm_get(4 * MIB);
	OK(cuMemFree_v2(addr));
	CM_MUST(write(say, "", 1) == 1);
	CM_MUST(read(hear, &byte, 1) == 0);
	exit(0);
}

CM_ROLE(out)
{
	int ready[2], go[2];
	pid_t child;
	char byte;

	CM_MUST(!pipe(ready) && !pipe(go));
	child = fork();
	CM_MUST(child >= 0);
	if (!child) {
		(void)close(go[1]);
		hold_and_wait(ready[1], go[0]);
	}
	CM_MUST(read(ready[0], &byte, 1) == 1);
	run_small(run_out);
	(void)close(go[1]);
	cm_wait_for_child(child);
}

CM_PLAY_EVERYWHERE(all_that_a_program_does_fits, "everything", NULL)
CM_PLAY_EVERYWHERE(every_hook_fits, "hooks", NULL)
CM_PLAY(recording_of_stacks_fits, "everything", "stacks:all", NULL)

CM_PLAY_TEST(a_request_that_fails_fits)
{
	struct cm_play *play = *state;
	char card[PATH_MAX + 64];

	(void)snprintf(card, sizeof(card), "CUDASIM=memory:64M,card:%s.card", play->dir);
	cm_play_under(play, "out", "oom_report:full", card, NULL);
	assert_non_null(strstr(play->said, "]: out of memory "));
	(void)unlink(strstr(card, ",card:") + strlen(",card:"));
}
