/* SPDX-License-Identifier: MIT */
/* Virtual memory management beside cached blocks: it passes, and works as without the library. */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { PIECES = 8, TURNS = 10 };

static uint64_t wrong;

static void turn(size_t grain, const CUmemAllocationProp *prop)
{
	const CUmemAccessDesc access = {prop->location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handles[PIECES];
	size_t words = grain / sizeof(uint32_t);
	CUdeviceptr at;
	uint32_t i;

	CHECK(cuMemAddressReserve(&at, grain * PIECES, 0, 0, 0));
	for (i = 0; i < PIECES; i++) {
		CHECK(cuMemCreate(&handles[i], grain, prop, 0));
		CHECK(cuMemMap(at + grain * i, grain, 0, handles[i], 0));
	}
	CHECK(cuMemSetAccess(at, grain * PIECES, &access, 1));
	for (i = 0; i < PIECES; i++) {
		CUdeviceptr block = device_alloc(grain);

		device_fill(block, i, words, NULL);
		device_copy(at + grain * i, block, words, NULL);
		device_free(block);
	}
	for (i = 0; i < PIECES; i++)
		wrong += device_wrong(at + grain * i, i, words, NULL);
	CHECK(cuMemUnmap(at, grain * PIECES));
	for (i = 0; i < PIECES; i++)
		CHECK(cuMemRelease(handles[i]));
	CHECK(cuMemAddressFree(at, grain * PIECES));
}

int main(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	size_t grain;
	int i;

	device_open();
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device_first();
	CHECK(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	for (i = 0; i < TURNS; i++)
		turn(grain, &prop);
	printf("turns: %d\nwrong: %llu\n", TURNS, (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
