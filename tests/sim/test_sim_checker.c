/* SPDX-License-Identifier: MIT */
/*
 * The checker's rules beyond the order of streams and graphs (test_sim_order*.c) and who owns what
 * (test_sim_owners.c): contexts, threads, allocators, the host, and what it says.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/checker_scene.h"

/* Contexts. */

in_scene(barrier_holds_its_own_context_only)
{
	struct scene *scene = *state;
	struct second second = make_second();

	use_and_free(scene);
	ctx_record_and_wait(scene);
	allocate(scene);
	work(second.touch, second.stream, scene->block);
	expect_found(1);
	assert_ok(cuCtxDestroy(second.ctx));
}

in_scene(context_waits_for_another)
{
	struct scene *scene = *state;
	struct second second = make_second();

	use_and_free(scene);
	ctx_record(scene);
	assert_ok(cuCtxWaitEvent(second.ctx, scene->event));
	allocate(scene);
	work(second.touch, second.stream, scene->block);
	expect_found(0);
	assert_ok(cuCtxDestroy(second.ctx));
}

in_scene(event_of_one_context_misses_the_other)
{
	struct scene *scene = *state;
	struct second second = make_second();

	work(second.touch, second.stream, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	ctx_record(scene);
	cudasim_complete_all();
	assert_ok(cuEventQuery(scene->event));
	use_as_new(scene);
	expect_found(1);
	assert_ok(cuCtxDestroy(second.ctx));
}

in_scene(context_that_is_broken_does_no_more)
{
	struct scene *scene = *state;
	struct second second = make_second();

	use_and_free(scene);
	cudasim_clear_failures();
	assert_int_equal(cudasim_fail("cuCtxSynchronize", 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	allocate(scene);
	assert_ok(cuCtxPushCurrent(second.ctx));
	work(second.touch, second.stream, scene->block);
	assert_ok(cuCtxPopCurrent(NULL));
	expect_found(0);
	assert_ok(cuCtxDestroy(second.ctx));
}

in_scene(context_that_is_gone_has_ended)
{
	struct scene *scene = *state;
	struct second second = make_second();

	work(second.touch, second.stream, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	assert_ok(cuCtxDestroy(second.ctx));
	use_as_new(scene);
	expect_found(0);
}

/* Threads. */

static void *synchronize_and_free_here(void *data)
{
	struct scene *scene = data;

	(void)synchronize_here(scene);
	(void)cudasim_freed(at(scene->block));
	return NULL;
}

static void *free_here(void *data)
{
	struct scene *scene = data;

	(void)cudasim_freed(at(scene->block));
	return NULL;
}

in_scene(what_another_thread_waited_for_is_not_known)
{
	struct scene *scene = *state;

	use_and_free(scene);
	in_another_thread(synchronize_here, scene);
	use_as_new(scene);
	expect_found(1);
}

static void *use_as_new_here(void *data)
{
	struct scene *scene = data;

	if (cuCtxSetCurrent(scene->ctx))
		abort();
	use_as_new(scene);
	return NULL;
}

in_scene(dead_thread_leaves_no_knowledge)
{
	struct scene *scene = *state;

	use_and_free(scene);
	in_another_thread(synchronize_here, scene);
	in_another_thread(use_as_new_here, scene);
	expect_found(1);
}

/* Somebody has made it, and nobody knows less. */
in_scene(new_thread_knows_what_all_know)
{
	struct scene *scene = *state;

	use_and_free(scene);
	(void)synchronize_here(scene);
	in_another_thread(use_as_new_here, scene);
	expect_found(0);
}

in_scene(memory_brings_what_its_freeing_thread_knew)
{
	struct scene *scene = *state;

	work(scene->touch, scene->old, scene->block);
	in_another_thread(synchronize_and_free_here, scene);
	use_as_new(scene);
	expect_found(0);
}

in_scene(memory_freed_by_another_thread_knows_nothing_else)
{
	struct scene *scene = *state;

	work(scene->touch, scene->old, scene->block);
	in_another_thread(free_here, scene);
	use_as_new(scene);
	expect_found(1);
}

/* The knowledge comes with that memory, not to its new owner. */
in_scene(other_memory_does_not_bring_it)
{
	struct scene *scene = *state;

	cudasim_allocated(at(scene->block + BLOCK), BLOCK, 0);
	work(scene->touch, scene->old, scene->block + BLOCK);
	assert_int_equal(cudasim_freed(at(scene->block + BLOCK)), 1);
	in_another_thread(synchronize_and_free_here, scene);
	allocate(scene);
	cudasim_allocated(at(scene->block + BLOCK), BLOCK, 0);
	work(scene->touch, scene->new, scene->block + BLOCK);
	expect_found(1);
}

static void *destroy_here(void *ctx)
{
	if (cuCtxDestroy(ctx))
		abort();
	return NULL;
}

/* An allocator lost the events that would have told it, and knows why. */
in_scene(allocators_know_of_contexts_that_are_gone)
{
	struct scene *scene = *state;
	struct second second = make_second();
	pthread_t thread;

	work(second.touch, second.stream, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	assert_int_equal(pthread_create(&thread, NULL, destroy_here, second.ctx), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	use_as_new(scene);
	expect_found(0);
}

/* Allocators. */

static void *query_for_allocator(void *data)
{
	struct scene *scene = data;

	cudasim_allocator_enter();
	if (cuEventQuery(scene->event))
		abort();
	cudasim_allocator_leave();
	return NULL;
}

static void tell_allocator_and_reuse(struct scene *scene, unsigned faults)
{
	cudasim_complete_all();
	in_another_thread(query_for_allocator, scene);
	use_as_new(scene);
	expect_found(faults);
}

in_scene(what_the_allocator_is_told_holds_for_all)
{
	struct scene *scene = *state;

	use_and_free(scene);
	ctx_record(scene);
	tell_allocator_and_reuse(scene, 0);
}

in_scene(what_the_allocator_was_told_too_early_does_not)
{
	struct scene *scene = *state;

	ctx_record(scene);
	use_and_free(scene);
	tell_allocator_and_reuse(scene, 1);
}

in_scene(what_the_allocator_is_told_later_does_not)
{
	struct scene *scene = *state;

	use_and_free(scene);
	ctx_record(scene);
	allocate(scene);
	cudasim_complete_all();
	(void)query_for_allocator(scene);
	work(scene->touch, scene->new, scene->block);
	expect_found(1);
}

in_scene(unless_it_says_so)
{
	struct scene *scene = *state;

	use_and_free(scene);
	ctx_record(scene);
	allocate(scene);
	cudasim_complete_all();
	(void)query_for_allocator(scene);
	cudasim_allocator_settles();
	work(scene->touch, scene->new, scene->block);
	expect_found(0);
}

/* The host. */

in_scene(hand_out_of_pinned_memory_is_an_access)
{
	struct scene *scene = *state;

	use_and_free(scene);
	cudasim_allocated(at(scene->block), BLOCK, 1);
	expect_found(1);
}

in_scene(barrier_does_not_hold_the_host)
{
	struct scene *scene = *state;

	use_and_free(scene);
	ctx_record_and_wait(scene);
	cudasim_allocated(at(scene->block), BLOCK, 1);
	expect_found(1);
}

in_scene(host_that_has_waited_may_touch_it)
{
	struct scene *scene = *state;

	use_and_free(scene);
	synchronize_event(scene);
	cudasim_allocated(at(scene->block), BLOCK, 1);
	cudasim_host_write(at(scene->block), BLOCK);
	expect_found(0);
}

in_scene(declared_access_is_checked)
{
	struct scene *scene = *state;

	use_and_free(scene);
	ctx_record_and_wait(scene);
	allocate(scene);
	expect_found(0);
	cudasim_host_read(at(scene->block + BLOCK / 2), 1);
	expect_found(1);
}

static void touch_block(void *scene)
{
	cudasim_host_write(at(((struct scene *)scene)->block), BLOCK);
}

in_scene(host_function_is_in_its_stream)
{
	struct scene *scene = *state;

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuLaunchHostFunc(scene->old, touch_block, scene));
	assert_ok(cuStreamSynchronize(scene->old));
	expect_found(0);
}

in_scene(host_function_of_another_stream_is_not)
{
	struct scene *scene = *state;

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuLaunchHostFunc(scene->new, touch_block, scene));
	assert_ok(cuStreamSynchronize(scene->new));
	expect_found(1);
}

in_scene(report_has_it_all)
{
	static const char *const words[] = {
		"old owner's: kernel 'touch', which writes it, in non-blocking stream",
		"new owner's: fill, which writes it",
		"submitted by thread",
		"allocated by thread",
		"given back by thread",
		"4096 bytes, from the allocator",
		"test_sim_checker+0x",
		"missing: nothing makes the second wait for the first",
	};
	struct scene *scene = *state;
	char text[8192];
	char addr[32];

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuMemsetD8Async(scene->block, 0, 512, scene->new));
	expect_found(1);
	assert_true(cudasim_violation(cudasim_violations() - 1, text, sizeof(text)) > 500);
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strstr(text, words[i]))
			fail_msg("not there: %s", words[i]);
	}
	snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)scene->block);
	assert_non_null(strstr(text, addr));
	assert_int_equal(cudasim_violation(cudasim_violations(), text, sizeof(text)), 0);
}

/* Streams come and go; clocks are given out again once everybody knows what was done in them. */
in_scene(clocks_stay_few)
{
	struct scene *scene = *state;
	struct cudasim_checked before;
	struct cudasim_checked after;

	cudasim_checked(&before);
	for (unsigned i = 0; i < 1000; i++) {
		CUstream stream = make_stream(NON_BLOCKING);

		work(scene->touch, stream, scene->block);
		assert_ok(cuStreamSynchronize(stream));
		assert_ok(cuStreamDestroy(stream));
	}
	cudasim_checked(&after);
	assert_true(after.lines <= before.lines + 1);
	assert_int_equal(after.forgotten, before.forgotten);
	/* Nobody waits for these. */
	for (unsigned i = 0; i < 1000; i++) {
		CUstream stream = make_stream(NON_BLOCKING);

		work(scene->touch, stream, scene->block);
		assert_ok(cuStreamDestroy(stream));
	}
	cudasim_checked(&after);
	assert_true(after.lines < 300);
	assert_true(after.forgotten > 0);
	expect_found(0);
}
