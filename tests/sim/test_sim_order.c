/* SPDX-License-Identifier: MIT */
/*
 * What orders work, as the checker sees it. Each order that CUDA promises is tried with work of two
 * owners of one block: with the order nothing is found, without it, or with one that comes close,
 * the reuse is. Whether the first work has ended by the clock must make no difference, so
 * everything runs both ways.
 */
#include <string.h>

#include "tests/sim/checker_scene.h"

struct order {
	const char *name;
	unsigned old_flags;
	unsigned new_flags;
	/* Before the old owner's work; NULL: nothing. */
	void (*before)(struct scene *scene);
	/* Between the free and the new owner's work; NULL: nothing. */
	void (*between)(struct scene *scene);
	unsigned found;
};

static void record_and_wait_elsewhere(struct scene *scene)
{
	record(scene);
	assert_ok(cuStreamWaitEvent(scene->other, scene->event, 0));
}

static void record_wait_and_pass_on(struct scene *scene)
{
	record_and_wait_elsewhere(scene);
	assert_ok(cuEventRecord(scene->event, scene->other));
	wait(scene);
}

static void record_elsewhere_and_wait(struct scene *scene)
{
	assert_ok(cuEventRecord(scene->event, scene->other));
	wait(scene);
}

static void use_same_stream(struct scene *scene)
{
	scene->new = scene->old;
}

static void use_legacy_stream(struct scene *scene)
{
	scene->new = CU_STREAM_LEGACY;
}

static void use_per_thread_stream(struct scene *scene)
{
	scene->new = CU_STREAM_PER_THREAD;
}

static void run_in_legacy_stream(struct scene *scene)
{
	scene->old = CU_STREAM_LEGACY;
}

static void run_in_per_thread_stream(struct scene *scene)
{
	scene->old = CU_STREAM_PER_THREAD;
}

static void work_in_legacy_stream(struct scene *scene)
{
	work(scene->touch, CU_STREAM_LEGACY, scene->block + BLOCK);
}

static void record_in_legacy_stream(struct scene *scene)
{
	assert_ok(cuEventRecord(scene->event, CU_STREAM_LEGACY));
}

static void query_legacy_stream(struct scene *scene)
{
	(void)scene;
	assert_error(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
}

static void query_legacy_stream_done(struct scene *scene)
{
	(void)scene;
	cudasim_complete_all();
	assert_ok(cuStreamQuery(CU_STREAM_LEGACY));
}

static void ctx_record_and_stream_wait(struct scene *scene)
{
	ctx_record(scene);
	wait(scene);
}

static void record_and_ctx_wait(struct scene *scene)
{
	record(scene);
	ctx_wait(scene);
}

static void destroy_and_ctx_record_and_wait(struct scene *scene)
{
	assert_ok(cuStreamDestroy(scene->old));
	cudasim_complete_all();
	ctx_record_and_wait(scene);
}

static void destroy_idle_and_ctx_record_and_wait(struct scene *scene)
{
	cudasim_complete_all();
	assert_ok(cuStreamDestroy(scene->old));
	ctx_record_and_wait(scene);
}

static void only_destroy(struct scene *scene)
{
	assert_ok(cuStreamDestroy(scene->old));
}

static void synchronize_stream(struct scene *scene)
{
	assert_ok(cuStreamSynchronize(scene->old));
}

static void synchronize_other_stream(struct scene *scene)
{
	assert_ok(cuStreamSynchronize(scene->other));
}

static void synchronize_context(struct scene *scene)
{
	(void)scene;
	assert_ok(cuCtxSynchronize());
}

static void synchronize_early_event(struct scene *scene)
{
	assert_ok(cuEventSynchronize(scene->event));
}

static void query_event(struct scene *scene)
{
	record(scene);
	cudasim_complete_all();
	assert_ok(cuEventQuery(scene->event));
}

static void query_event_not_ready(struct scene *scene)
{
	record(scene);
	assert_error(cuEventQuery(scene->event), CUDA_ERROR_NOT_READY);
}

static void do_not_ask(struct scene *scene)
{
	record(scene);
	cudasim_complete_all();
}

static void query_stream(struct scene *scene)
{
	cudasim_complete_all();
	assert_ok(cuStreamQuery(scene->old));
}

static void let_time_pass(struct scene *scene)
{
	(void)scene;
	cudasim_advance(1000 * MS);
}

static void elapsed_time(struct scene *scene)
{
	CUevent begin;
	CUevent end;
	float ms;

	assert_ok(cuEventCreate(&begin, 0));
	assert_ok(cuEventCreate(&end, 0));
	assert_ok(cuEventRecord(begin, scene->old));
	assert_ok(cuEventRecord(end, scene->old));
	cudasim_complete_all();
	assert_ok(cuEventElapsedTime(&ms, begin, end));
}

static void free_other_memory(struct scene *scene)
{
	CUdeviceptr addr;

	(void)scene;
	assert_ok(cuMemAlloc(&addr, BLOCK));
	assert_ok(cuMemFree(addr));
}

static void free_other_memory_when_idle(struct scene *scene)
{
	cudasim_complete_all();
	free_other_memory(scene);
}

static void free_other_pinned_memory(struct scene *scene)
{
	void *ptr;

	(void)scene;
	assert_ok(cuMemHostAlloc(&ptr, BLOCK, 0));
	assert_ok(cuMemFreeHost(ptr));
}

/* A copy that waits is the legacy stream's, and the host knows of all that this waits for. */
static void copy_to_the_host(struct scene *scene)
{
	char bytes[16];

	assert_ok(cuMemcpyDtoH(bytes, scene->block + 2 * BLOCK, sizeof(bytes)));
}

static void copy_in_other_stream(struct scene *scene)
{
	static char bytes[16];

	assert_ok(cuMemcpyDtoHAsync(bytes, scene->block + 2 * BLOCK, sizeof(bytes), scene->other));
}

static void nothing_to_do(void *unused)
{
	(void)unused;
}

static void host_function_and_event(struct scene *scene)
{
	assert_ok(cuLaunchHostFunc(scene->old, nothing_to_do, NULL));
	record_and_wait(scene);
}

static const struct order orders[] = {
	{"streams_are_not_ordered", 0, 0, NULL, NULL, 1},
	{"non_blocking_streams_are_not_ordered", NON_BLOCKING, NON_BLOCKING, NULL, NULL, 1},
	{"stream_orders_its_own_work", 0, 0, NULL, use_same_stream, 0},
	{"event_orders_streams", 0, 0, NULL, record_and_wait, 0},
	{"event_orders_non_blocking_streams", NON_BLOCKING, NON_BLOCKING, NULL, record_and_wait, 0},
	{"event_recorded_too_early", 0, 0, record, wait, 1},
	{"event_recorded_in_another_stream", 0, 0, NULL, record_elsewhere_and_wait, 1},
	{"event_waited_for_in_another_stream", 0, 0, NULL, record_and_wait_elsewhere, 1},
	{"event_not_waited_for", 0, 0, NULL, record, 1},
	{"events_pass_order_on", 0, 0, NULL, record_wait_and_pass_on, 0},
	{"barrier_orders_a_context", NON_BLOCKING, NON_BLOCKING, NULL, ctx_record_and_wait, 0},
	{"barrier_recorded_too_early", 0, 0, ctx_record, ctx_wait, 1},
	{"context_event_without_a_wait", 0, 0, NULL, ctx_record, 1},
	{"context_event_orders_a_stream", NON_BLOCKING, 0, NULL, ctx_record_and_stream_wait, 0},
	{"context_waits_for_a_stream", 0, NON_BLOCKING, NULL, record_and_ctx_wait, 0},
	{"barrier_has_streams_that_are_gone", 0, 0, NULL, destroy_and_ctx_record_and_wait, 0},
	{"barrier_has_streams_that_were_idle", 0, 0, NULL, destroy_idle_and_ctx_record_and_wait, 0},
	{"destroying_a_stream_orders_nothing", 0, 0, NULL, only_destroy, 1},
	{"legacy_stream_comes_after_blocking_ones", 0, 0, NULL, use_legacy_stream, 0},
	{"legacy_stream_not_after_others", NON_BLOCKING, 0, NULL, use_legacy_stream, 1},
	{"blocking_stream_comes_after_the_legacy_one", 0, 0, run_in_legacy_stream, NULL, 0},
	{"non_blocking_stream_does_not", 0, NON_BLOCKING, run_in_legacy_stream, NULL, 1},
	{"legacy_work_orders_blocking_streams", 0, 0, NULL, work_in_legacy_stream, 0},
	{"legacy_work_does_not_order_before", NON_BLOCKING, 0, NULL, work_in_legacy_stream, 1},
	{"legacy_work_does_not_order_after", 0, NON_BLOCKING, NULL, work_in_legacy_stream, 1},
	{"legacy_record_orders_blocking_streams", 0, 0, NULL, record_in_legacy_stream, 0},
	{"legacy_query_done_tells_the_host", 0, 0, NULL, query_legacy_stream_done, 0},
	{"legacy_query_done_knows_no_others", NON_BLOCKING, 0, NULL, query_legacy_stream_done, 1},
	{"per_thread_stream_is_not_ordered", 0, 0, NULL, use_per_thread_stream, 1},
	{"per_thread_stream_comes_after_legacy", 0, 0, run_in_legacy_stream, use_per_thread_stream,
	 0},
	{"legacy_comes_after_per_thread_stream", 0, 0, run_in_per_thread_stream, use_legacy_stream,
	 0},
	{"synchronized_stream_is_known", NON_BLOCKING, NON_BLOCKING, NULL, synchronize_stream, 0},
	{"another_synchronized_stream_is_not", 0, 0, NULL, synchronize_other_stream, 1},
	{"synchronized_context_is_known", NON_BLOCKING, NON_BLOCKING, NULL, synchronize_context, 0},
	{"synchronized_event_is_known", 0, 0, NULL, synchronize_event, 0},
	{"synchronized_event_of_before", 0, 0, record, synchronize_early_event, 1},
	{"event_that_says_done_is_known", 0, 0, NULL, query_event, 0},
	{"event_that_says_not_ready_is_not", 0, 0, NULL, query_event_not_ready, 1},
	{"legacy_query_orders_nothing", 0, 0, NULL, query_legacy_stream, 1},
	{"event_that_nobody_asks_is_not", 0, 0, NULL, do_not_ask, 1},
	{"stream_that_says_done_is_known", 0, 0, NULL, query_stream, 0},
	{"time_orders_nothing", 0, 0, NULL, let_time_pass, 1},
	{"elapsed_time_is_known", 0, 0, NULL, elapsed_time, 0},
	{"free_of_the_driver_waits", NON_BLOCKING, NON_BLOCKING, NULL, free_other_memory, 0},
	{"free_tells_of_an_idle_device", NON_BLOCKING, 0, NULL, free_other_memory_when_idle, 0},
	{"free_of_pinned_memory_waits", NON_BLOCKING, 0, NULL, free_other_pinned_memory, 0},
	{"copy_to_the_host_waits", 0, 0, NULL, copy_to_the_host, 0},
	{"copy_to_the_host_waits_not_for_all", NON_BLOCKING, 0, NULL, copy_to_the_host, 1},
	{"copy_in_another_stream_does_not", 0, 0, NULL, copy_in_other_stream, 1},
	{"host_function_keeps_the_order", 0, 0, NULL, host_function_and_event, 0},
};

static void play_order(const struct order *order, bool ended)
{
	struct scene scene;
	uint64_t n;

	set_scene(&scene, order->old_flags, order->new_flags);
	if (order->before)
		order->before(&scene);
	work(scene.touch, scene.old, scene.block);
	cudasim_freed(at(scene.block));
	if (order->between)
		order->between(&scene);
	if (ended)
		cudasim_complete_all();
	cudasim_allocated(at(scene.block), BLOCK, 0);
	work(scene.touch, scene.new, scene.block);
	n = found();
	if (n != order->found)
		fail_msg("%s%s: found %llu, not %u", order->name, ended ? ", ended" : "",
			 (unsigned long long)n, order->found);
}

static void order_is_seen(void **state)
{
	const struct order *order = *state;
	CUcontext ctx;

	assert_ok(cuCtxCreate(&ctx, NULL, 0, 0));
	play_order(order, false);
	assert_ok(cuCtxDestroy(ctx));
	assert_ok(cuCtxCreate(&ctx, NULL, 0, 0));
	play_order(order, true);
	assert_ok(cuCtxDestroy(ctx));
	assert_int_equal(found(), 0);
}

int main(void)
{
	enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };
	struct CMUnitTest tests[ORDERS];

	memset(tests, 0, sizeof(tests));
	for (unsigned i = 0; i < ORDERS; i++) {
		tests[i].name = orders[i].name;
		tests[i].test_func = order_is_seen;
		tests[i].initial_state = (void *)&orders[i];
	}
	if (cuInit(0))
		return 1;
	return cmocka_run_group_tests_name("sim_order", tests, NULL, NULL);
}
