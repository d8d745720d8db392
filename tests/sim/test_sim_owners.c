/* SPDX-License-Identifier: MIT */
/*
 * Who owns what in the eyes of the checker, and what an owner inherits: blocks that are cut and
 * merged, frees that fail, memory that has two owners, and the driver's own allocations.
 */
#include <string.h>

#include "tests/sim/checker_scene.h"

in_scene(reading_counts_as_writing)
{
	struct scene *scene = *state;

	work(scene->look, scene->old, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	allocate(scene);
	work(scene->look, scene->new, scene->block);
	expect_found(1);
}

in_scene(owner_may_race_with_itself)
{
	struct scene *scene = *state;

	work(scene->touch, scene->old, scene->block);
	work(scene->touch, scene->new, scene->block);
	expect_found(0);
}

in_scene(piece_of_a_block_inherits)
{
	struct scene *scene = *state;
	CUdeviceptr behind = scene->block + BLOCK / 2;

	use_and_free(scene);
	cudasim_allocated(at(behind), 512, 0);
	assert_ok(cuMemsetD8Async(behind, 0, 512, scene->new));
	expect_found(1);
	/* What is left of it has not been allocated, and still waits for its turn. */
	cudasim_allocated(at(scene->block), 512, 0);
	assert_ok(cuMemsetD8Async(scene->block, 0, 512, scene->new));
	expect_found(1);
	cudasim_allocated(at(behind + 512), 512, 0);
	assert_ok(cuMemsetD8Async(behind + 512, 0, 512, scene->old));
	expect_found(0);
}

in_scene(merged_block_inherits_from_all)
{
	struct scene *scene = *state;

	cudasim_allocated(at(scene->block + BLOCK), BLOCK, 0);
	use_and_free(scene);
	work(scene->touch, scene->other, scene->block + BLOCK);
	assert_int_equal(cudasim_freed(at(scene->block + BLOCK)), 1);
	cudasim_allocated(at(scene->block), 2 * BLOCK, 0);
	assert_ok(cuMemsetD8Async(scene->block, 0, 1, scene->new));
	expect_found(2);
}

in_scene(idle_owner_passes_on)
{
	struct scene *scene = *state;

	use_and_free(scene);
	for (unsigned i = 0; i < 10; i++) {
		allocate(scene);
		assert_int_equal(cudasim_freed(at(scene->block)), 1);
	}
	use_as_new(scene);
	expect_found(1);
}

in_scene(two_owners_at_a_time)
{
	struct scene *scene = *state;
	char text[4096];

	cudasim_allocated(at(scene->block + BLOCK / 2), 512, 0);
	expect_found(1);
	(void)cudasim_violation(cudasim_violations() - 1, text, sizeof(text));
	assert_non_null(strstr(text, "has an owner"));
}

in_scene(give_back_with_an_owner)
{
	struct scene *scene = *state;
	char text[4096];

	cudasim_allocator_enter();
	assert_ok(cuMemFree(scene->block));
	cudasim_allocator_leave();
	expect_found(1);
	(void)cudasim_violation(cudasim_violations() - 1, text, sizeof(text));
	assert_non_null(strstr(text, "given back to the driver"));
}

in_scene(failed_free_leaves_the_owner)
{
	struct scene *scene = *state;

	work(scene->touch, scene->old, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	assert_int_equal(cudasim_freed(at(scene->block)), 0);
	cudasim_not_freed(at(scene->block));
	work(scene->touch, scene->new, scene->block);
	assert_int_equal(cudasim_freed(at(scene->block + 512)), 0);
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	expect_found(0);
}

in_scene(use_after_the_free_is_the_programs_affair)
{
	struct scene *scene = *state;
	struct cudasim_checked before;
	struct cudasim_checked after;

	use_and_free(scene);
	cudasim_checked(&before);
	work(scene->touch, scene->new, scene->block);
	cudasim_checked(&after);
	assert_int_equal(after.strays, before.strays + 1);
	expect_found(0);
}

/* What an allocator keeps in stock belongs to nobody. */
in_scene(allocators_stock_has_no_owner)
{
	struct scene *scene = *state;
	struct cudasim_checked before;
	struct cudasim_checked after;
	CUdeviceptr stock;

	cudasim_allocator_enter();
	assert_ok(cuMemAlloc(&stock, 4 * MIB));
	cudasim_allocator_leave();
	cudasim_allocated(at(stock), BLOCK, 0);
	cudasim_checked(&before);
	work(scene->touch, scene->old, stock);
	work(scene->touch, scene->old, stock + BLOCK);
	cudasim_checked(&after);
	assert_int_equal(after.accesses, before.accesses + 1);
	assert_int_equal(after.strays, before.strays + 1);
}

/* Unmapping waits for nothing, so an allocator has to know that all is over. */
static void unmap_under_work(struct scene *scene, bool told)
{
	const size_t page = 2 * MIB;
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr addr;

	cudasim_allocator_enter();
	assert_ok(cuMemAddressReserve(&addr, page, 0, 0, 0));
	assert_ok(cuMemCreate(&handle, page, &prop, 0));
	assert_ok(cuMemMap(addr, page, 0, handle, 0));
	assert_ok(cuMemSetAccess(addr, page, &access, 1));
	cudasim_allocator_leave();
	cudasim_allocated(at(addr), BLOCK, 0);
	work(scene->touch, scene->old, addr);
	assert_int_equal(cudasim_freed(at(addr)), 1);
	cudasim_complete_all();
	cudasim_allocator_enter();
	if (told)
		assert_ok(cuCtxSynchronize());
	assert_ok(cuMemUnmap(addr, page));
	cudasim_allocator_leave();
	assert_ok(cuMemRelease(handle));
	assert_ok(cuMemAddressFree(addr, page));
}

in_scene(pages_go_when_all_is_over)
{
	unmap_under_work(*state, true);
	expect_found(0);
}

in_scene(pages_do_not_go_before)
{
	unmap_under_work(*state, false);
	expect_found(1);
}

/* The driver's own allocations, which need nobody to tell of them. */

in_scene(driver_reuses_after_its_free)
{
	struct scene *scene = *state;
	CUdeviceptr addr = 0;
	CUdeviceptr again;

	assert_ok(cuMemAlloc(&addr, 4 * MIB));
	work(scene->touch, scene->old, addr);
	assert_ok(cuMemFree(addr));
	assert_ok(cuMemAlloc(&again, 4 * MIB));
	assert_int_equal(again, addr);
	work(scene->touch, scene->new, again);
	expect_found(0);
}

/* Freed in one stream while another uses it: the program's mistake, and seen. */
static void stream_ordered_free_knows_its_stream(void **state, bool same, unsigned n)
{
	struct scene *scene = *state;
	CUdeviceptr addr = 0;
	CUdeviceptr again;

	assert_ok(cuMemAllocAsync(&addr, 4 * MIB, scene->other));
	work(scene->touch, scene->old, addr);
	cudasim_complete_all();
	assert_ok(cuMemFreeAsync(addr, same ? scene->old : scene->other));
	cudasim_complete_all();
	assert_ok(cuMemAlloc(&again, 4 * MIB));
	assert_int_equal(again, addr);
	work(scene->touch, scene->new, again);
	expect_found(n);
}

in_scene(memory_freed_in_its_stream_is_free)
{
	stream_ordered_free_knows_its_stream(state, true, 0);
}

in_scene(memory_freed_in_another_stream_is_not)
{
	stream_ordered_free_knows_its_stream(state, false, 1);
}

static void *synchronize_and_let_end_here(void *data)
{
	(void)synchronize_here(data);
	cudasim_complete_all();
	return NULL;
}

/* The free takes effect while a thread lets time pass: what that one knows has nothing to do with
 * it. */
in_scene(free_in_a_stream_knows_no_thread)
{
	struct scene *scene = *state;
	CUdeviceptr addr;
	CUdeviceptr again;

	assert_ok(cuMemAllocAsync(&addr, 4 * MIB, scene->other));
	work(scene->touch, scene->old, addr);
	cudasim_complete_all();
	assert_ok(cuMemFreeAsync(addr, scene->other));
	in_another_thread(synchronize_and_let_end_here, scene);
	assert_ok(cuMemAlloc(&again, 4 * MIB));
	assert_int_equal(again, addr);
	work(scene->touch, scene->new, again);
	expect_found(1);
}

in_scene(new_context_may_have_old_memory)
{
	struct scene *scene = *state;
	struct second second = make_second();
	CUdeviceptr addr;
	CUdeviceptr again;

	assert_ok(cuCtxPushCurrent(second.ctx));
	assert_ok(cuMemAlloc(&addr, 4 * MIB));
	work(second.touch, second.stream, addr);
	assert_ok(cuCtxDestroy(second.ctx));
	assert_ok(cuMemAlloc(&again, 4 * MIB));
	assert_int_equal(again, addr);
	work(scene->touch, scene->new, again);
	expect_found(0);
}
