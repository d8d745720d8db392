/* SPDX-License-Identifier: MIT */
/* What the driver answers to requests that are odd or wrong, and what it tells about a block. */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

static void tell(const char *what, CUresult result)
{
	printf("%s: %s\n", what, device_error(result));
}

static void allocs(void)
{
	size_t left, total;
	CUdeviceptr at;

	CHECK(cuMemGetInfo(&left, &total));
	printf("free is not above total: %d\n", left <= total);
	tell("cuMemGetInfo without free", cuMemGetInfo(NULL, &total));
	tell("cuMemAlloc of nothing", cuMemAlloc(&at, 0));
	tell("cuMemAlloc to nowhere", cuMemAlloc(NULL, 100));
	tell("cuMemAlloc of more than the card has", cuMemAlloc(&at, total + 1));
	tell("cuMemAlloc of nearly everything", cuMemAlloc(&at, SIZE_MAX));
	tell("cuMemAlloc after that", cuMemAlloc(&at, 100));
	tell("cuMemFree of it", cuMemFree(at));
}

static void frees(void)
{
	CUdeviceptr at = device_alloc(MIB);
	int here = 0;

	tell("cuMemFree inside a block", cuMemFree(at + 512));
	tell("cuMemFree of the block", cuMemFree(at));
	tell("cuMemFree of it again", cuMemFree(at));
	tell("cuMemFree of an address of the host", cuMemFree((CUdeviceptr)(uintptr_t)&here));
	tell("cuMemFree of a wild address", cuMemFree(0x12345));
	tell("cuMemFreeHost of what is not pinned", cuMemFreeHost(&here));
}

static void attributes(CUdeviceptr at, const char *which)
{
	CUmemorytype type = 0;
	CUcontext context, current;
	int ordinal = -1;
	unsigned managed = 2;
	CUdeviceptr pointer = 0;

	CHECK(cuCtxGetCurrent(&current));
	tell("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	tell("context", cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
	tell("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
	tell("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
	tell("address", cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
	printf("%s: type %d, context is current %d, device %d, managed %u, address is its own %d, "
	       "aligned to 256 %d\n",
	       which, (int)type, context == current, ordinal, managed, pointer == at,
	       at % 256 == 0);
}

static void no_context(void)
{
	CUcontext current;
	CUdeviceptr at;
	size_t left, total;

	CHECK(cuCtxPopCurrent(&current));
	tell("cuMemAlloc without a context", cuMemAlloc(&at, 100));
	tell("cuMemGetInfo without a context", cuMemGetInfo(&left, &total));
	CHECK(cuCtxPushCurrent(current));
}

int main(void)
{
	CUdeviceptr small, large;

	device_open();
	allocs();
	frees();
	small = device_alloc(100);
	large = device_alloc(30 * MIB);
	attributes(small, "a block of 100 bytes");
	attributes(large, "a block of 30 MiB");
	device_free(small);
	device_free(large);
	no_context();
	library_leave_figures();
	return 0;
}
