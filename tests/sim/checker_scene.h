/* SPDX-License-Identifier: MIT */
/*
 * For tests of the checker: two streams, and memory that changes its owner between them.
 */
#ifndef CM_TESTS_SIM_CHECKER_SCENE_H
#define CM_TESTS_SIM_CHECKER_SCENE_H

#include <pthread.h>

#include "tests/sim/sim_test.h"

#define NON_BLOCKING CU_STREAM_NON_BLOCKING

static const char KERNELS[] = "cudasim-module\n"
			      "kernel touch\n params ptr u64\n time 50us\n writes p0 p1\nend\n"
			      "kernel look\n params ptr u64\n time 50us\n reads p0 p1\nend\n";

enum { BLOCK = 4096 };

/* Two streams of one context, and a block that has an owner. */
struct scene {
	CUcontext ctx;
	CUfunction touch;
	CUfunction look;
	CUstream old;   /* where the old owner's work runs */
	CUstream new;   /* where the new owner's does */
	CUstream other; /* a blocking one */
	CUevent event;
	CUdeviceptr block;
};

static inline void *at(CUdeviceptr addr)
{
	return (void *)(uintptr_t)addr;
}

static inline void work(CUfunction kernel, CUstream stream, CUdeviceptr addr)
{
	uint64_t bytes = BLOCK;
	void *params[] = {&addr, &bytes};

	launch(kernel, stream, params);
}

static inline CUstream make_stream(unsigned flags)
{
	CUstream stream;

	assert_ok(cuStreamCreate(&stream, flags));
	return stream;
}

static inline void set_scene(struct scene *scene, unsigned old_flags, unsigned new_flags)
{
	*scene = (struct scene){.old = make_stream(old_flags), .new = make_stream(new_flags)};
	scene->other = make_stream(CU_STREAM_DEFAULT);
	scene->touch = load_kernel(KERNELS, "touch");
	scene->look = load_kernel(KERNELS, "look");
	assert_ok(cuCtxGetCurrent(&scene->ctx));
	assert_ok(cuEventCreate(&scene->event, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuMemAlloc(&scene->block, 16 * BLOCK));
	cudasim_allocated(at(scene->block), BLOCK, 0);
}

/* Found since the last call. */
static inline uint64_t found(void)
{
	static uint64_t seen;
	uint64_t now = cudasim_violations();
	uint64_t more = now - seen;

	seen = now;
	return more;
}

/* Events of the first stream, and the second that waits for them. */

static inline void record(struct scene *scene)
{
	assert_ok(cuEventRecord(scene->event, scene->old));
}

static inline void wait(struct scene *scene)
{
	assert_ok(cuStreamWaitEvent(scene->new, scene->event, 0));
}

static inline void record_and_wait(struct scene *scene)
{
	record(scene);
	wait(scene);
}

/* The barrier of a context. */

static inline void ctx_record(struct scene *scene)
{
	assert_ok(cuCtxRecordEvent(scene->ctx, scene->event));
}

static inline void ctx_wait(struct scene *scene)
{
	assert_ok(cuCtxWaitEvent(scene->ctx, scene->event));
}

static inline void ctx_record_and_wait(struct scene *scene)
{
	ctx_record(scene);
	ctx_wait(scene);
}

static inline void synchronize_event(struct scene *scene)
{
	record(scene);
	assert_ok(cuEventSynchronize(scene->event));
}

/* ---- cases in a scene ---- */

/* What is found is told at the end of a case; anything else is a mistake of the case. */
#define expect_found(n) assert_int_equal(found(), n)

static inline int begin_case(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	CUcontext ctx;

	if (!scene || cuInit(0) || cuCtxCreate(&ctx, NULL, 0, 0))
		return -1;
	set_scene(scene, NON_BLOCKING, NON_BLOCKING);
	*state = scene;
	return 0;
}

static inline int end_case(void **state)
{
	struct scene *scene = *state;

	(void)cuCtxDestroy(scene->ctx);
	(void)cuCtxSetCurrent(NULL);
	free(scene);
	return found() != 0;
}

/* Old work in the old stream, and the memory is free. */
static inline void use_and_free(const struct scene *scene)
{
	work(scene->touch, scene->old, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
}

static inline void allocate(const struct scene *scene)
{
	cudasim_allocated(at(scene->block), BLOCK, 0);
}

static inline void use_as_new(const struct scene *scene)
{
	allocate(scene);
	work(scene->touch, scene->new, scene->block);
}

#define in_scene(test) CM_TEST_WITH(test, begin_case, end_case)

struct second {
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUfunction touch;
};

/* Another context of the device, not current. */
static inline struct second make_second(void)
{
	struct second second;

	assert_ok(cuCtxCreate(&second.ctx, NULL, 0, 0));
	second.stream = make_stream(NON_BLOCKING);
	second.touch = load_kernel(KERNELS, "touch");
	assert_ok(cuEventCreate(&second.event, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuCtxPopCurrent(NULL));
	return second;
}

static inline void in_another_thread(void *(*body)(void *scene), struct scene *scene)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, body, scene), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static inline void *synchronize_here(void *data)
{
	struct scene *scene = data;

	if (cuCtxSetCurrent(scene->ctx) || cuStreamSynchronize(scene->old))
		abort();
	return NULL;
}

#endif
