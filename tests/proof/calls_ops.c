/* SPDX-License-Identifier: MIT */
/* What can be called, at random: see calls.h. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "tests/proof/calls.h"

#define PAGE  UINT64_C(4096)
#define PAGES 64u

static char pages[PAGES * PAGE] __attribute__((aligned(4096)));

/* Memory of the host, which a sensible program does not want in such amounts. */
static size_t host_bytes(void)
{
	const size_t bytes = calls_bytes();

	return bytes > sizeof(pages) * PAGES ? SIZE_MAX : bytes;
}

/* Where an answer goes: nowhere, now and then. */
static uint64_t *at(uint64_t *value)
{
	*value = CALLS_UNTOLD;
	return calls_are_odd && calls_one_in(12) ? NULL : value;
}

/* ---- memory that the library serves ---- */

static void do_alloc(void)
{
	const size_t bytes = calls_bytes();
	uint64_t value, *to = at(&value);

	if (calls_have_room(CALLS_DEVICE))
		calls_got(CALLS_DEVICE, HEAR(cuMemAlloc_v2((CUdeviceptr *)to, bytes)), to, bytes);
}

static enum calls_kind some_memory(void)
{
	return (enum calls_kind)(calls_one_in(2) ? CALLS_DEVICE : calls_random(CALLS_STREAM));
}

static void do_free(void)
{
	uint64_t value;

	if (calls_pick(some_memory(), &value))
		calls_gave(CALLS_DEVICE, HEAR(cuMemFree_v2(value)), value);
}

static void do_host_alloc(void)
{
	const size_t bytes = host_bytes();
	const unsigned flags = calls_flags(7);
	uint64_t value, *to = at(&value);
	int res;

	if (!calls_have_room(CALLS_HOST))
		return;
	res = calls_one_in(2) ? HEAR(cuMemAllocHost_v2((void **)to, bytes))
			      : HEAR(cuMemHostAlloc((void **)to, bytes, flags));
	calls_got(CALLS_HOST, res, to, bytes);
}

static void do_host_free(void)
{
	uint64_t value;

	if (calls_pick(calls_one_in(8) ? some_memory() : CALLS_HOST, &value))
		calls_gave(CALLS_HOST, HEAR(cuMemFreeHost((void *)(uintptr_t)value)), value);
}

static void do_info(void)
{
	uint64_t free_bytes, total, *free_to = at(&free_bytes), *total_to = at(&total);
	const int res = HEAR(cuMemGetInfo_v2(free_to, total_to));

	calls_say(" %d %d", free_bytes == CALLS_UNTOLD, total == CALLS_UNTOLD);
	if (!res && free_to && total_to && free_bytes > total)
		calls_say(" more than there is");
}

/* ---- memory that passes ---- */

static void do_register(void)
{
	const uint64_t page = calls_random(PAGES - 2) * PAGE;
	const size_t bytes = calls_are_odd && calls_one_in(8) ? 0 : PAGE * (1 + calls_random(2));
	uint64_t value = (uintptr_t)pages + page;

	if (calls_are_odd && calls_one_in(12))
		value = 0;
	if (!calls_have_room(CALLS_REGISTERED))
		return;
	calls_got(CALLS_REGISTERED,
		  HEAR(cuMemHostRegister_v2((void *)(uintptr_t)value, bytes, calls_flags(15))),
		  &value, bytes);
}

static void do_unregister(void)
{
	uint64_t value;

	if (calls_pick(calls_one_in(8) ? some_memory() : CALLS_REGISTERED, &value))
		calls_gave(CALLS_REGISTERED, HEAR(cuMemHostUnregister((void *)(uintptr_t)value)),
			   value);
}

static void do_managed(void)
{
	const size_t bytes = host_bytes();
	uint64_t value, *to = at(&value);

	if (calls_have_room(CALLS_MANAGED))
		calls_got(CALLS_MANAGED,
			  HEAR(cuMemAllocManaged((CUdeviceptr *)to, bytes, calls_flags(3))), to,
			  bytes);
}

static void do_pitch(void)
{
	const size_t width = 1 + calls_random(1 << 20), height = calls_random(4);
	uint64_t value, pitch, *to = at(&value), *pitch_to = at(&pitch);
	int res;

	if (!calls_have_room(CALLS_PITCH))
		return;
	res = HEAR(cuMemAllocPitch_v2((CUdeviceptr *)to, pitch_to, width, height,
				      (unsigned)calls_random(20)));
	calls_say(" %llu", (unsigned long long)pitch);
	calls_got(CALLS_PITCH, res, to, width * height);
}

static void do_array(void)
{
	const enum calls_kind kind = calls_one_in(2) ? CALLS_ARRAY : CALLS_MIPMAP;
	const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = calls_random(200),
					       .Height = calls_random(100),
					       .Depth = calls_random(4),
					       .Format = (CUarray_format)calls_random(40),
					       .NumChannels = (unsigned)calls_random(6),
					       .Flags = (unsigned)calls_random(4)};
	const CUDA_ARRAY3D_DESCRIPTOR *from = calls_one_in(20) ? NULL : &shape;
	uint64_t value, *to = at(&value);
	int res;

	if (!calls_have_room(kind))
		return;
	res = kind == CALLS_ARRAY ? HEAR(cuArray3DCreate_v2((CUarray *)to, from))
				  : HEAR(cuMipmappedArrayCreate((CUmipmappedArray *)to, from,
								(unsigned)calls_random(12)));
	calls_got(kind, res, to, 0);
}

static void do_array_destroy(void)
{
	const enum calls_kind kind = calls_one_in(2) ? CALLS_ARRAY : CALLS_MIPMAP;
	uint64_t value;
	int res;

	if (!calls_pick(kind, &value))
		return;
	res = kind == CALLS_ARRAY
		      ? HEAR(cuArrayDestroy((CUarray)(uintptr_t)value))
		      : HEAR(cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)value));
	calls_gave(kind, res, value);
}

/* What is made inside a capture is a graph's. */
static void do_async(void)
{
	const size_t bytes = calls_bytes();
	uint64_t value, *to = at(&value);
	CUstream stream;
	int res;

	if (!calls_have_room(CALLS_ASYNC) || !calls_pick_stream(&stream) || calls_have_captured)
		return;
	res = calls_one_in(2) ? HEAR(cuMemAllocAsync((CUdeviceptr *)to, bytes, stream))
			      : HEAR(cuMemAllocAsync_ptsz((CUdeviceptr *)to, bytes, stream));
	calls_got(CALLS_ASYNC, res, to, bytes);
}

/* In the legacy stream a refused one spoils captures natively, and not where the library refuses
 * it. */
static void do_async_free(void)
{
	CUstream stream;
	uint64_t value;
	int res;

	if (!calls_pick(some_memory(), &value) || !calls_pick_stream(&stream) ||
	    (calls_have_captured && (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD))
		return;
	res = calls_one_in(2) ? HEAR(cuMemFreeAsync(value, stream))
			      : HEAR(cuMemFreeAsync_ptsz(value, stream));
	calls_gave(CALLS_ASYNC, res, value);
}

static void do_create(void)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)calls_random(3)}};
	const size_t bytes = calls_one_in(8) ? calls_bytes() : UINT64_C(2) << 20;
	uint64_t value, *to = at(&value);

	if (calls_have_room(CALLS_HANDLE))
		calls_got(CALLS_HANDLE,
			  HEAR(cuMemCreate((CUmemGenericAllocationHandle *)to, bytes,
					   calls_one_in(20) ? NULL : &prop, 0)),
			  to, 0);
}

static void do_release(void)
{
	uint64_t value;

	if (calls_pick(CALLS_HANDLE, &value))
		calls_gave(CALLS_HANDLE, HEAR(cuMemRelease(value)), value);
}

/* ---- questions ---- */

/* Of what was freed the library may still know more than the driver: no stale ones. */
static void do_ask(void)
{
	static const CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MAPPED};
	const CUpointer_attribute attribute = attributes[calls_random(4)];
	uint64_t value, answer = CALLS_UNTOLD;

	calls_are_odd = false;
	if (!calls_pick(some_memory(), &value))
		return;
	(void)HEAR(cuPointerGetAttribute(&answer, attribute, value));
	calls_say(" %u", (unsigned)answer);
	(void)HEAR(cuPointerGetAttribute(NULL, attribute, value));
	(void)HEAR(cuMemGetAddressRange_v2(NULL, NULL, value));
}

/* ---- streams, captures, contexts ---- */

static void do_stream(void)
{
	uint64_t value, *to = at(&value);
	CUstream stream;

	if (calls_one_in(2)) {
		if (calls_have_room(CALLS_STREAM))
			calls_got(CALLS_STREAM,
				  HEAR(cuStreamCreate((CUstream *)to, calls_flags(1))), to, 0);
	} else if (calls_pick_stream(&stream)) {
		calls_gave(CALLS_STREAM, HEAR(cuStreamDestroy_v2(stream)), (uintptr_t)stream);
	}
}

static void do_begin(void)
{
	const CUstreamCaptureMode mode = (CUstreamCaptureMode)calls_random(4);
	CUstream stream;
	int res;

	if (!calls_pick_stream(&stream))
		return;
	res = calls_one_in(2) ? HEAR(cuStreamBeginCapture_v2(stream, mode))
			      : HEAR(cuStreamBeginCapture_v2_ptsz(stream, mode));
	calls_have_captured |= !res;
}

static void end(CUstream stream, bool per_thread)
{
	CUgraph graph = NULL;

	(void)(per_thread ? HEAR(cuStreamEndCapture_ptsz(stream, &graph))
			  : HEAR(cuStreamEndCapture(stream, &graph)));
	if (graph)
		(void)cuGraphDestroy(graph);
}

static void do_end(void)
{
	unsigned i;

	for (i = 0; i < CALLS_SLOTS; i++)
		if (calls_slot[CALLS_STREAM][i].live && !calls_one_in(3))
			end((CUstream)(uintptr_t)calls_slot[CALLS_STREAM][i].value,
			    calls_one_in(2));
	end(CU_STREAM_PER_THREAD, false);
	end(NULL, true);
	end(NULL, false);
}

static void do_context(void)
{
	const CUdevice device = (CUdevice)calls_random(calls_are_odd ? 3 : 2);
	CUcontext none = NULL;
	uint64_t value;

	switch (calls_random(9)) {
	case 0:
		if (calls_have_room(CALLS_CONTEXT) && !HEAR(cuCtxCreate_v2(&none, 0, device)))
			calls_say(" %d", calls_context());
		break;
	case 1:
		if (calls_pick(CALLS_CONTEXT, &value))
			(void)HEAR(cuCtxDestroy_v2((CUcontext)(uintptr_t)value));
		break;
	case 2:
	case 3:
		if (!HEAR(cuDevicePrimaryCtxRetain(&none, device)))
			(void)HEAR(cuCtxSetCurrent(none));
		break;
	case 4:
		(void)HEAR(cuDevicePrimaryCtxRelease_v2(device));
		break;
	case 5:
		if (calls_one_in(4))
			(void)HEAR(cuDevicePrimaryCtxReset_v2(device));
		break;
	case 6:
		(void)HEAR(cuCtxPopCurrent_v2(&none));
		break;
	default:
		if (calls_pick(CALLS_CONTEXT, &value))
			(void)HEAR(cuCtxPushCurrent_v2((CUcontext)(uintptr_t)value));
	}
}

static void do_synchronize(void)
{
	(void)HEAR(cuCtxSynchronize());
}

/* ---- the runtime, and the error that it keeps ---- */

/* Taken at once: a call that is left out in one of two runs leaves none. */
static void say_last_error(void)
{
	const cudaError_t last = cudaPeekAtLastError();

	calls_say(" last %d %d", (int)last, (int)cudaGetLastError() == (int)last);
}

static void do_runtime_alloc(void)
{
	const size_t bytes = calls_bytes();
	uint64_t value, *to = at(&value);

	if (calls_have_room(CALLS_DEVICE))
		calls_got(CALLS_DEVICE, HEAR(cudaMalloc((void **)to, bytes)), to, bytes);
	say_last_error();
}

static void do_runtime_free(void)
{
	uint64_t value;

	if (calls_pick(some_memory(), &value))
		calls_gave(CALLS_DEVICE, HEAR(cudaFree((void *)(uintptr_t)value)), value);
	else
		(void)cudaFree(NULL); /* makes the device's context current, too */
	say_last_error();
}

static void do_runtime_host(void)
{
	const size_t bytes = host_bytes();
	uint64_t value, *to = at(&value);

	if (calls_one_in(2)) {
		if (calls_have_room(CALLS_HOST))
			calls_got(CALLS_HOST,
				  HEAR(cudaHostAlloc((void **)to, bytes, calls_flags(7))), to,
				  bytes);
	} else if (calls_pick(CALLS_HOST, &value)) {
		calls_gave(CALLS_HOST, HEAR(cudaFreeHost((void *)(uintptr_t)value)), value);
	} else {
		(void)cudaFree(NULL);
	}
	say_last_error();
}

const struct calls_op calls_ops[] = {
	{"alloc", do_alloc, 14},
	{"free", do_free, 12},
	{"host_alloc", do_host_alloc, 8},
	{"host_free", do_host_free, 6},
	{"info", do_info, 3},
	{"register", do_register, 4},
	{"unregister", do_unregister, 4},
	{"managed", do_managed, 4},
	{"pitch", do_pitch, 4},
	{"array", do_array, 4},
	{"array_destroy", do_array_destroy, 4},
	{"async", do_async, 6},
	{"async_free", do_async_free, 6},
	{"create", do_create, 3},
	{"release", do_release, 3},
	{"ask", do_ask, 8},
	{"stream", do_stream, 5},
	{"begin", do_begin, 4},
	{"end", do_end, 5},
	{"context", do_context, 12},
	{"synchronize", do_synchronize, 2},
	{"runtime_alloc", do_runtime_alloc, 8},
	{"runtime_free", do_runtime_free, 8},
	{"runtime_host", do_runtime_host, 4},
};
const size_t calls_op_count = sizeof(calls_ops) / sizeof(calls_ops[0]);
