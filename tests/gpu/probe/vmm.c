/* SPDX-License-Identifier: MIT */
/*
 * What it costs to map and unmap physical memory, by the size of its pieces, and whether that
 * waits: what a heap backed by pages of its own would pay.
 */
#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { TURNS = 16 };

#define BUSY_NS (30 * UINT64_C(1000000))

static CUmemAllocationProp prop;
static CUmemAccessDesc access;
static CUstream stream;

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };
static const char *const names[STEPS] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
					 "cuMemRelease"};

static CUresult step(enum step which, CUdeviceptr at, size_t bytes,
		     CUmemGenericAllocationHandle *handle)
{
	switch (which) {
	case CREATE:
		return cuMemCreate(handle, bytes, &prop, 0);
	case MAP:
		return cuMemMap(at, bytes, 0, *handle, 0);
	case ACCESS:
		return cuMemSetAccess(at, bytes, &access, 1);
	case UNMAP:
		return cuMemUnmap(at, bytes);
	case RELEASE:
	case STEPS:
		break;
	}
	return cuMemRelease(*handle);
}

static void measure(size_t bytes, bool busy)
{
	uint64_t ns[STEPS][TURNS];
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	bool waits[STEPS] = {false};
	int i, which, turns = busy ? 1 : TURNS;

	CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
	for (i = 0; i < turns; i++)
		for (which = 0; which < STEPS; which++) {
			uint64_t from;

			if (busy)
				device_spin(BUSY_NS, stream);
			from = tell_now();
			device_check(step((enum step)which, at, bytes, &handle), names[which]);
			ns[which][i] = tell_now() - from;
			waits[which] = busy && cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
			CHECK(cuCtxSynchronize());
		}
	CHECK(cuMemAddressFree(at, bytes));
	for (which = 0; which < STEPS; which++) {
		tell_times(names[which], ns[which], (size_t)turns, "%zu MiB, %s", bytes / MIB,
			   busy ? "busy" : "idle");
		if (busy)
			tell_text(names[which],
				  waits[which] ? "waits for the device" : "does not wait",
				  "%zu MiB, busy", bytes / MIB);
	}
}

int main(void)
{
	static const size_t sizes[] = {2 * MIB, 32 * MIB, 512 * MIB};
	size_t least = 0, best = 0, i;
	int supported = 0;

	device_open();
	CHECK(cuDeviceGetAttribute(&supported,
				   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				   device_first()));
	if (!supported)
		tell_skipped("the device does not map memory");
	stream = device_stream();
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device_first();
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(cuMemGetAllocationGranularity(&best, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	tell_fact("granularity", (double)least, "bytes", "minimum");
	tell_fact("granularity", (double)best, "bytes", "recommended");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure(sizes[i], false);
		measure(sizes[i], true);
	}
	library_leave_figures();
	return 0;
}
