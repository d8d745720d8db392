/* SPDX-License-Identifier: MIT */
/*
 * What memory costs the driver by size, whether the calls wait for work that has nothing to do with
 * it, how the driver places small allocations, and how long a context takes.
 */
#include <stdlib.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { TURNS = 32, PLACED = 64 };

/* Much longer than any of the calls takes, so that one that waits stands out. */
#define BUSY_NS (30 * UINT64_C(1000000))

static CUdeviceptr block;
static void *pinned;
static CUstream stream;

static CUresult alloc(size_t bytes)
{
	return cuMemAlloc(&block, bytes);
}

static CUresult free_block(size_t bytes)
{
	(void)bytes;
	return cuMemFree(block);
}

static CUresult host_alloc(size_t bytes)
{
	return cuMemHostAlloc(&pinned, bytes, 0);
}

static CUresult host_free(size_t bytes)
{
	(void)bytes;
	return cuMemFreeHost(pinned);
}

static const struct kind {
	const char *name, *free_name;
	CUresult (*alloc)(size_t bytes);
	CUresult (*free)(size_t bytes);
	size_t largest;
} kinds[] = {
	{"cuMemAlloc", "cuMemFree", alloc, free_block, 4 * GIB},
	{"cuMemHostAlloc", "cuMemFreeHost", host_alloc, host_free, 256 * MIB},
};

static uint64_t timed(CUresult (*call)(size_t), size_t bytes, const char *name)
{
	uint64_t from = tell_now();

	device_check(call(bytes), name);
	return tell_now() - from;
}

static void measure(const struct kind *kind, size_t bytes)
{
	uint64_t allocs[TURNS], frees[TURNS];
	int i, turns = bytes < 64 * MIB ? TURNS : 4;

	for (i = 0; i < turns; i++) {
		allocs[i] = timed(kind->alloc, bytes, kind->name);
		frees[i] = timed(kind->free, bytes, kind->free_name);
	}
	tell_times(kind->name, allocs, (size_t)turns, "%zu KiB, idle", bytes / KIB);
	tell_times(kind->free_name, frees, (size_t)turns, "%zu KiB, idle", bytes / KIB);
}

/* Of a call made while a kernel runs that never touched the memory: has the kernel ended at its
 * end? */
static void measure_busy(const char *name, CUresult (*call)(size_t), size_t bytes)
{
	uint64_t ns;
	CUresult left;

	device_spin(BUSY_NS, stream);
	ns = timed(call, bytes, name);
	left = cuStreamQuery(stream);
	CHECK(cuCtxSynchronize());
	tell_text(name, left == CUDA_ERROR_NOT_READY ? "does not wait" : "waits for the device",
		  "%zu KiB, busy", bytes / KIB);
	tell_times(name, &ns, 1, "%zu KiB, busy", bytes / KIB);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The smallest distance between blocks of one byte that live at once, and what their size is said
 * to be. */
static void tell_grain(const struct kind *kind)
{
	uint64_t at[PLACED], grain = UINT64_MAX;
	CUdeviceptr base;
	size_t bytes = 0;
	int i;

	for (i = 0; i < PLACED; i++) {
		device_check(kind->alloc(1), kind->name);
		at[i] = kind->alloc == alloc ? block : (uint64_t)(uintptr_t)pinned;
	}
	if (cuMemGetAddressRange(&base, &bytes, at[0]) == CUDA_SUCCESS)
		tell_fact("range of a block of 1 byte", (double)bytes, "bytes", "%s", kind->name);
	for (i = 0; i < PLACED; i++) {
		block = at[i];
		pinned = (void *)(uintptr_t)at[i];
		device_check(kind->free(1), kind->free_name);
	}
	qsort(at, PLACED, sizeof(at[0]), compare);
	for (i = 1; i < PLACED; i++)
		if (at[i] - at[i - 1] < grain)
			grain = at[i] - at[i - 1];
	tell_fact("grain", (double)grain, "bytes", "%s", kind->name);
}

/* What a block takes of the card. */
static void tell_taken(size_t bytes)
{
	size_t before, after, total;

	CHECK(cuMemGetInfo(&before, &total));
	CHECK(alloc(bytes));
	CHECK(cuMemGetInfo(&after, &total));
	CHECK(cuMemFree(block));
	tell_fact("taken of the card", ((double)before - (double)after) / (double)KIB, "KiB",
		  "a block of %zu KiB", bytes / KIB);
}

int main(void)
{
	static const size_t sizes[] = {512, 64 * KIB, MIB, 2 * MIB, 16 * MIB, 256 * MIB, 4 * GIB};
	static const size_t shown[] = {512, MIB, 2 * MIB, 3 * MIB, 20 * MIB};
	size_t i, j;

	device_open();
	stream = device_stream();
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i];

		for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			if (sizes[j] > kind->largest)
				break;
			measure(kind, sizes[j]);
			measure_busy(kind->name, kind->alloc, sizes[j]);
			measure_busy(kind->free_name, kind->free, sizes[j]);
		}
		tell_grain(kind);
	}
	for (i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		tell_taken(shown[i]);
	library_leave_figures();
	return 0;
}
