/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device waits for its own contexts, and for those of another device while these reach
 * it.
 */
#include "allocator/reuse/reach.h"

#include "tests/unit/fixture_case.h"

#define BLOCK (64 * MIB)

struct scene {
	struct fixture *f;
	uint64_t other; /* a context of device 1 */
	struct cm_heap *heap;
	uint64_t block; /* of device 0 */
};

static struct scene open_scene(struct fixture *f)
{
	struct scene scene = {.f = f};

	scene.other = fixture_add_context(f, 1, &scene.heap);
	scene.block = case_get(f, BLOCK);
	return scene;
}

static uint64_t copy(struct scene *scene, uint64_t ns)
{
	return fixture_launch(scene->f, scene->other, 1, scene->block, BLOCK, ns);
}

/* Work of device 1 on memory of its own. */
static uint64_t keep_busy(struct scene *scene)
{
	return fixture_launch(scene->f, scene->other, 1, 512, 0, FAKE_FOREVER);
}

static bool is_had_again(struct scene *scene)
{
	const uint64_t addr = case_get(scene->f, BLOCK);
	const bool is = addr == scene->block;

	if (!is)
		case_put(scene->f, addr);
	return is;
}

fixture_case(a_device_does_not_wait_for_another)
{
	struct scene scene = open_scene(*state);
	const uint64_t kernel = keep_busy(&scene);
	int i;

	/* Without room to let more wait. */
	scene.f->driver.limit_bytes = 1024 * MIB;
	for (i = 0; i < 30; i++) {
		(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, MS);
		case_put(scene.f, scene.block);
		assert_true(is_had_again(&scene));
	}
	assert_int_equal(scene.f->driver.called[FAKE_MEM_ALLOC], 1);
	assert_int_equal(scene.f->driver.called[FAKE_CTX_WAIT_EVENT], 30);
	assert_int_equal(scene.f->driver.called[FAKE_EVENT_RECORD], 30);
	assert_false(fake_is_done(kernel));
	fake_finish(kernel);
}

fixture_case(nor_does_its_memory_go_back_later)
{
	struct scene scene = open_scene(*state);
	const uint64_t kernel = keep_busy(&scene);
	uint64_t bytes;

	case_put(scene.f, scene.block);
	assert_int_equal(cm_cache_trim(scene.f->cache, 0, &bytes), 0);
	assert_int_equal(bytes, BLOCK);
	assert_false(fake_is_done(kernel));
	fake_finish(kernel);
}

fixture_case(a_copy_by_another_device_is_waited_for)
{
	struct scene scene = open_scene(*state);

	(void)copy(&scene, 10 * MS);
	case_put(scene.f, scene.block);
	assert_false(is_had_again(&scene));
	assert_int_equal(scene.f->driver.called[FAKE_CTX_WAIT_EVENT], 0);
	fake_advance(20 * MS);
	assert_true(is_had_again(&scene));
}

/* It goes to the driver, whose free need not wait for the other device. */
fixture_case(so_it_is_if_nobody_gets_the_memory_again)
{
	struct scene scene = open_scene(*state);
	const uint64_t work = copy(&scene, 10 * MS);
	uint64_t bytes;

	assert_int_equal(cm_cache_mark_exported(scene.f->cache, scene.block), 0);
	case_put(scene.f, scene.block);
	assert_int_equal(scene.f->driver.called[FAKE_MEM_FREE], 0);
	assert_false(fake_is_done(work));
	assert_int_equal(cm_cache_trim(scene.f->cache, 0, &bytes), 0);
	assert_true(fake_is_done(work));
	assert_int_equal(scene.f->driver.called[FAKE_MEM_FREE], 1);
	scene.block = case_get(scene.f, BLOCK);
	assert_int_equal(cm_cache_mark_exported(scene.f->cache, scene.block), 0);
	case_put(scene.f, scene.block);
	assert_int_equal(scene.f->driver.called[FAKE_MEM_FREE], 2);
}

/* A library that no hook reaches has freed the block. */
static void lose(struct scene *scene)
{
	const struct cm_driver_ops *ops = fake_driver_ops();

	assert_true(ops->gate_enter());
	assert_int_equal(ops->mem_free(scene->f->ctx, scene->block), 0);
	ops->gate_leave();
}

/* Nothing of ours waits for that work any more. */
fixture_case(what_another_has_freed_waits_for_nobody)
{
	struct scene scene = open_scene(*state);

	(void)copy(&scene, 10 * MS);
	lose(&scene);
	assert_true(is_had_again(&scene));
	assert_current(scene.f, CM_POOL_ALL, CM_STAT_SEGMENT, 1);
	assert_current(scene.f, CM_POOL_ALL, CM_STAT_ACTIVE, 1);
	fake_finish_all();
}

static struct scene *losing;

/* Addresses are the process's: the driver may give them to another device. */
static int alloc_lost(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	const int err = fake_driver_ops()->mem_alloc(losing->f->ctx, bytes, ret_addr);

	losing->f->driver.memory[0].ctx = ctx;
	return err;
}

fixture_case(it_makes_way_for_memory_of_another_device)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct scene scene = open_scene(*state);
	uint64_t addr;

	lose(&scene);
	losing = &scene;
	ops.mem_alloc = alloc_lost;
	scene.f->cache->ops = &ops;
	assert_int_equal(fixture_alloc(scene.f, scene.heap, BLOCK, &addr), 0);
	scene.f->cache->ops = fake_driver_ops();
	assert_int_equal(addr, scene.block);
	assert_current(scene.f, CM_POOL_ALL, CM_STAT_SEGMENT, 0);
	assert_int_equal(cm_cache_rows_of(scene.f->cache, addr), 2);
}

/* Until an event has shown it to be done, and no longer. */
fixture_case(then_it_reaches_the_memory_no_more)
{
	struct scene scene = open_scene(*state);
	uint64_t kernel;

	(void)copy(&scene, MS);
	case_put(scene.f, case_get(scene.f, MIB));
	fake_advance(2 * MS);
	cm_cache_poll(scene.f->cache);
	cm_cache_poll(scene.f->cache);
	kernel = keep_busy(&scene);
	(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, 10 * MS);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
	assert_false(fake_is_done(kernel));
	fake_finish(kernel);
}

/* A submission that has not returned may be behind every event. */
fixture_case(a_submission_under_way_is_not_taken_for_done)
{
	struct scene scene = open_scene(*state);
	struct cm_cache *cache = scene.f->cache;
	const struct cm_submission submission = cm_cache_begin_reach(
		cache, scene.other, cm_cache_rows_of(cache, scene.block));
	uint64_t work;

	assert_int_equal(submission.named, 1);
	case_put(scene.f, case_get(scene.f, MIB));
	cm_cache_poll(cache);
	cm_cache_poll(cache);
	work = fake_copy(scene.other, 1, scene.block, BLOCK, 10 * MS);
	cm_cache_end_reach(cache, submission);
	case_put(scene.f, scene.block);
	assert_false(is_had_again(&scene));
	fake_finish(work);
	assert_true(is_had_again(&scene));
}

/* What was announced behind the event of a fence is not shown by it. */
fixture_case(a_later_submission_keeps_it_open)
{
	struct scene scene = open_scene(*state);

	(void)copy(&scene, MS);
	case_put(scene.f, case_get(scene.f, MIB));
	cm_cache_poll(scene.f->cache);
	(void)copy(&scene, 10 * MS);
	fake_advance(2 * MS);
	cm_cache_poll(scene.f->cache);
	case_put(scene.f, scene.block);
	assert_false(is_had_again(&scene));
	fake_advance(20 * MS);
	assert_true(is_had_again(&scene));
}

/* A barrier holds back its own context alone: fixture_launch complains of what comes too early. */
fixture_case(what_lies_behind_a_barrier_is_idle_before_it_is_reached)
{
	struct scene scene = open_scene(*state);
	uint64_t work;

	work = fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, 300 * MS);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
	assert_false(fake_is_done(work));
	(void)copy(&scene, MS);
	assert_true(fake_is_done(work));
}

fixture_case(its_own_memory_opens_nothing)
{
	struct scene scene = open_scene(*state);
	struct cm_cache *cache = scene.f->cache;
	const uint64_t row = cm_cache_rows_of(cache, scene.block);

	assert_int_equal(cm_cache_begin_reach(cache, scene.f->ctx, row).named, 0);
	assert_int_equal(cm_cache_begin_reach(cache, 77, row).named, 0);
	assert_int_equal(cm_cache_begin_reach(cache, scene.other, 0).named, 0);
	assert_int_equal(cm_cache_rows_of(cache, 512), 0);
	assert_int_equal(cm_cache_all_rows(cache), 3);
}

/* A context that goes takes its work along, and no event of it is left to tell. */
fixture_case(a_context_that_goes_reaches_nothing)
{
	struct scene scene = open_scene(*state);
	struct cm_heap *third;

	(void)fixture_add_context(scene.f, 2, &third);
	(void)copy(&scene, FAKE_FOREVER);
	fixture_remove_context(scene.f, scene.other);
	(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, 10 * MS);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
}

static void suspend(const struct scene *scene)
{
	cm_cache_lock_contexts(scene->f->cache);
	assert_ptr_equal(cm_cache_suspend_heap(scene->f->cache, scene->other), scene->heap);
	cm_cache_unlock_contexts(scene->f->cache);
}

static void resume(const struct scene *scene)
{
	cm_cache_lock_contexts(scene->f->cache);
	cm_cache_resume_heap(scene->heap);
	cm_cache_unlock_contexts(scene->f->cache);
}

/* By barrier and, without events of a context, by waiting. */
CM_TEST(a_context_that_is_ending_holds_up_no_other_device)
{
	struct scene scene;
	uint64_t kernel;
	int i, old;

	for (old = 0; old < 2; old++) {
		scene = open_scene(case_open(&(struct fixture_params){.old_driver = old}));
		kernel = keep_busy(&scene);
		suspend(&scene);
		scene.f->driver.limit_bytes = 1024 * MIB;
		for (i = 0; i < 30; i++) {
			(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, MS);
			case_put(scene.f, scene.block);
			assert_true(is_had_again(&scene));
		}
		assert_int_equal(scene.f->driver.called[FAKE_MEM_ALLOC], 1);
		assert_false(fake_is_done(kernel));
		resume(&scene);
		fake_finish(kernel);
		case_close(scene.f);
	}
}

/* An event that was recorded before may be done; the context does not tell. */
CM_TEST(but_one_that_its_work_reaches)
{
	struct scene scene;
	uint64_t work;
	int old, closed;

	for (old = 0; old < 2; old++)
		for (closed = 0; closed < 2; closed++) {
			scene = open_scene(case_open(&(struct fixture_params){.old_driver = old}));
			work = copy(&scene, FAKE_FOREVER);
			case_put(scene.f, scene.block);
			if (closed)
				cm_cache_poll(scene.f->cache);
			suspend(&scene);
			assert_false(is_had_again(&scene));
			cm_cache_poll(scene.f->cache);
			assert_false(is_had_again(&scene));
			fake_finish(work);
			resume(&scene);
			cm_cache_poll(scene.f->cache);
			assert_true(is_had_again(&scene));
			case_close(scene.f);
		}
}

/* It may have copied from and to anything before it was met. */
fixture_case(a_context_that_was_found_reaches_all)
{
	struct fixture *f = *state;
	const uint64_t block = case_get(f, BLOCK), ctx = fake_context_create(1);
	const struct cm_context_info info = {.ctx = ctx,
					     .ordinal = 1,
					     .can = CM_CAN_CTX_EVENTS,
					     .total_bytes = GIB,
					     .free_bytes = GIB,
					     .is_found = true};
	struct cm_heap *heap;

	(void)fake_copy(ctx, 1, block, BLOCK, 10 * MS);
	assert_int_equal(cm_cache_add_heap(f->cache, &info, &heap), 0);
	case_put(f, block);
	assert_int_not_equal(case_get(f, BLOCK), block);
	fake_advance(20 * MS);
	assert_int_equal(case_get(f, BLOCK), block);
}

/* Kernels of another device do not make an epoch one that no barrier may be laid behind. */
fixture_case(work_is_counted_for_its_device)
{
	struct scene scene = open_scene(*state);

	(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, 10 * MS);
	case_put(scene.f, scene.block);
	(void)fixture_launch(scene.f, scene.other, 1, 512, 0, MS);
	assert_true(is_had_again(&scene));
	(void)fixture_launch(scene.f, scene.f->ctx, 1, scene.block, BLOCK, 10 * MS);
	case_put(scene.f, scene.block);
	cm_cache_note_work(scene.f->cache, 0);
	assert_false(is_had_again(&scene));
	fake_finish_all();
}

/* Without events of contexts: of the devices that reach the memory, and no others. */
CM_TEST(a_wait_is_for_who_reaches_the_memory)
{
	struct scene scene;
	uint64_t work, bytes;

	scene = open_scene(case_open(&(struct fixture_params){.old_driver = true}));
	work = keep_busy(&scene);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
	assert_false(fake_is_done(work));
	fake_finish(work);
	work = copy(&scene, 10 * MS);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
	assert_true(fake_is_done(work));
	work = keep_busy(&scene);
	case_put(scene.f, scene.block);
	assert_true(is_had_again(&scene));
	assert_false(fake_is_done(work));
	fake_finish(work);
	work = copy(&scene, 10 * MS);
	assert_int_equal(cm_cache_mark_exported(scene.f->cache, scene.block), 0);
	case_put(scene.f, scene.block);
	assert_int_equal(scene.f->driver.called[FAKE_MEM_FREE], 0);
	case_put(scene.f, case_get(scene.f, BLOCK));
	assert_true(fake_is_done(work));
	assert_int_equal(cm_cache_trim(scene.f->cache, 0, &bytes), 0);
	assert_int_equal(scene.f->driver.called[FAKE_MEM_FREE], 2);
	case_close(scene.f);
}
