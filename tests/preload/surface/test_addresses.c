/* SPDX-License-Identifier: MIT */
/* What the driver says of an address in a block, and what may be done with its range. */
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define KIB UINT64_C(1024)

static const uint64_t sizes[] = {3 * MIB, 4 * KIB, 3 * MIB, 512 * KIB, 64 * KIB, 20 * MIB, 4 * KIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void check_place(CUdeviceptr addr, uint64_t bytes, CUcontext ctx)
{
	CUpointer_attribute both[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				      CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	CUdeviceptr base, start = cm_ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, addr);
	size_t size, length;
	void *answers[] = {&start, &length};

	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_CONTEXT, addr) == (uintptr_t)ctx);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) == CU_MEMORYTYPE_DEVICE);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, addr) == addr);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr) == 0);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, addr) == 0);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_MAPPED, addr) == 1);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr) == 0);
	/* Both tell of the block, and agree. */
	OK(cuMemGetAddressRange_v2(&base, &size, addr));
	CM_MUST(base == addr && size == bytes);
	CM_MUST(start == addr && cm_ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, addr) == bytes);
	OK(cuMemGetAddressRange_v2(NULL, &size, addr));
	OK(cuMemGetAddressRange_v2(&base, NULL, addr + bytes - 1));
	CM_MUST(base == addr);
	OK(cuPointerGetAttributes(2, both, answers, addr + bytes - 1));
	CM_MUST(start == addr && length == bytes);
}

CM_ROLE(place)
{
	CUcontext ctx = cm_open(0);
	CUdeviceptr block[SIZES];
	size_t i;

	for (i = 0; i < SIZES; i++) {
		block[i] = cm_get(sizes[i]);
		CM_MUST(block[i] % 512 == 0);
	}
	for (i = 0; i < SIZES; i++)
		check_place(block[i], sizes[i], ctx);
}

/* A block that lies on pages has one range, and is of its context on each page. */
CM_ROLE(range_of_pages)
{
	CUcontext ctx = cm_open(0);
	CUdeviceptr block = cm_get(5 * MIB), at, base;
	size_t size;

	for (at = block; at < block + 5 * MIB; at += MIB) {
		OK(cuMemGetAddressRange_v2(&base, &size, at));
		CM_MUST(base == block && size == 5 * MIB);
		CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_CONTEXT, at) == (uintptr_t)ctx);
	}
}

/* What is freed has no range. */
CM_ROLE(no_range)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
	CUdeviceptr block, freed, base = 7;
	size_t size = 7;
	void *answer = &size;

	cm_open(0);
	block = cm_get(3 * MIB);
	freed = cm_get(3 * MIB);
	OK(cuMemFree_v2(freed));
	CM_MUST(cuMemGetAddressRange_v2(&base, &size, freed) == CUDA_ERROR_NOT_FOUND);
	CM_MUST(base == 7 && size == 7);
	CM_MUST(cuPointerGetAttribute(&size, attribute, freed) == CUDA_ERROR_INVALID_VALUE);
	OK(cuPointerGetAttributes(1, &attribute, &answer, freed));
	CM_MUST(size == 0);
	OK(cuCtxSetCurrent(NULL));
	CM_MUST(cuMemGetAddressRange_v2(&base, &size, block) == CUDA_ERROR_INVALID_CONTEXT);
}

/* A program may fill the range that it is told: other blocks stay as they are. */
CM_ROLE(filled_range)
{
	CUdeviceptr block[SIZES], base;
	size_t i, size;

	cm_open(0);
	for (i = 0; i < SIZES; i++)
		block[i] = cm_get(sizes[i]);
	for (i = 0; i < SIZES; i++) {
		OK(cuMemGetAddressRange_v2(&base, &size, block[i] + sizes[i] / 2));
		OK(cuMemsetD32_v2(base, (unsigned)i, size / 4));
	}
	for (i = 0; i < SIZES; i++) {
		CM_MUST(cm_read_word(block[i]) == i);
		CM_MUST(cm_read_word(block[i] + sizes[i] - 4) == i);
	}
}

/* Network cards may reach it, and the card's own engine may unpack into it: each block says so
 * where the driver's memory would. */
CM_ROLE(abilities)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(5 * MIB);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, block + 3 * MIB) == 1);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, block + 3 * MIB) == 1);
	OK(cuMemFree_v2(block));
}

/* Its driver says that it can, and then can't: what it gives is memory all the same. */
CM_ROLE(no_abilities)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(5 * MIB);
	CM_MUST(cm_ask(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, block) == 0);
	OK(cuMemsetD8_v2(block, 1, 5 * MIB));
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == 0);
	OK(cuMemFree_v2(block));
}

/* It has no handle and no access of its own, and cannot be unmapped. */
CM_ROLE(not_mapped)
{
	const CUmemAccessDesc closed = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle = 77;
	unsigned long long flags = 77;
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	CM_MUST(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)block) ==
		CUDA_ERROR_INVALID_VALUE);
	CM_MUST(handle == 77);
	CM_MUST(block % (2 * MIB) == 0);
	CM_MUST(cuMemUnmap(block, 2 * MIB) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemSetAccess(block, 2 * MIB, &closed, 1) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemGetAccess(&flags, &closed.location, block) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(flags == 77);
	OK(cuMemsetD8_v2(block, 1, 3 * MIB));
	OK(cuMemFree_v2(block));
}

CM_PLAY_EVERYWHERE(an_address_is_what_it_is_natively, "place", NULL)
CM_PLAY(an_address_in_a_piece_is_what_it_is_natively, "place", "placement:split", NULL)
CM_PLAY(a_block_of_pages_has_one_range, "range_of_pages", "placement:split,expandable_segments:on",
	NULL)
CM_PLAY_EVERYWHERE(freed_memory_has_no_range, "no_range", NULL)
CM_PLAY(a_freed_piece_has_no_range, "no_range", "placement:split", NULL)
CM_PLAY(a_freed_page_has_no_range, "no_range", "placement:split,expandable_segments:on", NULL)
CM_PLAY_EVERYWHERE(a_range_may_be_filled, "filled_range", NULL)
CM_PLAY(a_range_in_pieces_may_be_filled, "filled_range", "placement:split", NULL)
CM_PLAY(a_range_of_pages_may_be_filled, "filled_range", "placement:split,expandable_segments:on",
	NULL)
CM_PLAY_EVERYWHERE(a_block_is_no_mapped_memory, "not_mapped", NULL)
CM_PLAY_EVERYWHERE(a_block_has_the_abilities_of_its_memory, "abilities", "CUDASIM=abilities:on")
CM_PLAY(a_block_of_pages_has_them_too, "abilities", "placement:split,expandable_segments:on",
	"CUDASIM=abilities:on")
CM_PLAY(a_page_that_fails_with_them_has_none, "no_abilities",
	"placement:split,expandable_segments:on", "CUDASIM=abilities:on,fail:cuMemSetAccess@1=999")
CM_PLAY(a_page_that_cannot_be_tried_has_none, "no_abilities",
	"placement:split,expandable_segments:on",
	"CUDASIM=abilities:on,fail:cuMemAddressReserve@1=2")
CM_PLAY(a_page_is_no_mapped_memory, "not_mapped", "placement:split,expandable_segments:True", NULL)
