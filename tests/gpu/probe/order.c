/* SPDX-License-Identifier: MIT */
/*
 * What all reuse rests on, and CUDA promises in one sentence each: an event of the context captures
 * all work so far, whatever it is and wherever it came from; and all work from then on waits for an
 * event that the context waits for. Each kind of past is tried with one future, and each kind of
 * future with one past. What is not so fails.
 */
#include <pthread.h>
#include <stdlib.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

/* Long beside all calls made meanwhile, but for a card that is busy with others. */
#define PAST_NS (20 * UINT64_C(1000000))
#define MOST_NS (10 * UINT64_C(1000000000))

enum { COUNT = 1 << 18, BYTES = COUNT * sizeof(uint32_t), SMALL = 16 };
enum { EARLY = 1 << 14 }; /* words that leave room on a card for a second kernel */

enum { OLD = 1, NEW = 2 };

static CUcontext context;
static CUevent event;
static CUstream past, future;
static CUdeviceptr block, source;
static uint32_t *pageable, *pinned;
static CUgraphExec graph; /* fills with NEW */

/* ---- what has been submitted before: it takes its time, and fills the words with OLD ---- */

static void in_stream(CUdeviceptr at, CUstream stream)
{
	device_spin(PAST_NS, stream);
	device_fill(at, OLD, COUNT, stream);
}

static void kernel(CUdeviceptr at)
{
	in_stream(at, past);
}

static void legacy_stream(CUdeviceptr at)
{
	in_stream(at, NULL);
}

/* The driver lets its work end (cuda.h, cuStreamDestroy). */
static void destroyed_stream(CUdeviceptr at)
{
	CUstream stream = device_stream();

	in_stream(at, stream);
	CHECK(cuStreamDestroy(stream));
}

static void low_priority(CUdeviceptr at)
{
	CUstream stream;
	int least, greatest;

	CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
	CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, least));
	in_stream(at, stream);
}

static void *fill_in_thread(void *arg)
{
	device_attach();
	in_stream(*(CUdeviceptr *)arg, CU_STREAM_PER_THREAD);
	return NULL;
}

/* With the thread goes its default stream. */
static void ended_thread(CUdeviceptr at)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fill_in_thread, &at) || pthread_join(thread, NULL))
		tell_failure("no thread");
}

static void let_ahead(CUdeviceptr at)
{
	device_slow_fill(at, OLD, EARLY, PAST_NS, past);
}

static CUgraphExec capture(CUdeviceptr at, uint32_t value, bool slow)
{
	CUgraphExec exec;
	CUgraph captured;

	CHECK(cuStreamBeginCapture(past, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (slow)
		device_spin(PAST_NS, past);
	device_fill(at, value, COUNT, past);
	CHECK(cuStreamEndCapture(past, &captured));
	CHECK(cuGraphInstantiateWithFlags(&exec, captured, 0));
	CHECK(cuGraphDestroy(captured));
	return exec;
}

static void graph_launch(CUdeviceptr at)
{
	CUgraphExec exec = capture(at, OLD, true);

	CHECK(cuGraphLaunch(exec, past));
	CHECK(cuGraphExecDestroy(exec));
}

/* It has let the one behind it go ahead, which is done long before. */
static void overtaken(CUdeviceptr at)
{
	device_fill(at, OLD, COUNT, past);
	device_fill(at, 0, EARLY, past);
	device_slow_fill(at, OLD, EARLY, PAST_NS, past);
	device_early_fill(source, NEW, 1, past);
}

static const struct before {
	const char *name;
	void (*submit)(CUdeviceptr at);
} earlier[] = {
	{"a kernel", kernel},
	{"a kernel in the legacy stream", legacy_stream},
	{"a kernel in a stream that is destroyed", destroyed_stream},
	{"a kernel in a stream of low priority", low_priority},
	{"a kernel in the stream of a thread that has ended", ended_thread},
	{"a graph that is destroyed", graph_launch},
	{"a kernel that the next one overtakes", overtaken},
};

/* ---- what is submitted from then on: it fills words with NEW ---- */

static CUresult new_kernel(void)
{
	device_fill(block, NEW, COUNT, future);
	return CUDA_SUCCESS;
}

/* In the stream of the past: behind a kernel that lets it go ahead. */
static CUresult early_kernel(void)
{
	device_early_fill(block, NEW, EARLY, past);
	return CUDA_SUCCESS;
}

static CUresult in_new_stream(void)
{
	device_fill(block, NEW, COUNT, device_stream());
	return CUDA_SUCCESS;
}

static CUresult in_legacy_stream(void)
{
	device_fill(block, NEW, COUNT, NULL);
	return CUDA_SUCCESS;
}

static CUresult in_stream_of_thread(void)
{
	device_fill(block, NEW, COUNT, CU_STREAM_PER_THREAD);
	return CUDA_SUCCESS;
}

static void *new_in_thread(void *arg)
{
	device_attach();
	device_fill(block, NEW, COUNT, future);
	return arg;
}

static CUresult of_another_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, new_in_thread, NULL) || pthread_join(thread, NULL)
		       ? CUDA_ERROR_OPERATING_SYSTEM
		       : CUDA_SUCCESS;
}

static CUresult launch_graph(void)
{
	return cuGraphLaunch(graph, future);
}

static CUresult set(void)
{
	return cuMemsetD32(block, NEW, COUNT);
}

static CUresult set_async(void)
{
	return cuMemsetD32Async(block, NEW, COUNT, future);
}

static CUresult copy(void)
{
	return cuMemcpyDtoD(block, source, BYTES);
}

static CUresult copy_from_host(void)
{
	return cuMemcpyHtoD(block, pageable, BYTES);
}

/* Which a driver may write by itself, past all engines. */
static CUresult copy_little_from_host(void)
{
	return cuMemcpyHtoD(block, pageable, SMALL * sizeof(uint32_t));
}

static CUresult copy_from_pinned(void)
{
	return cuMemcpyHtoD(block, pinned, BYTES);
}

static CUresult copy_from_pinned_async(void)
{
	return cuMemcpyHtoDAsync(block, pinned, BYTES, future);
}

static CUresult write_value(void)
{
	return cuStreamWriteValue32(future, block, NEW, 0);
}

static const struct after {
	const char *name;
	CUresult (*submit)(void);
	size_t count; /* of the words that it fills */
} later[] = {
	{"a kernel", new_kernel, COUNT},
	{"a kernel in a new stream", in_new_stream, COUNT},
	{"a kernel in the legacy stream", in_legacy_stream, COUNT},
	{"a kernel in the stream of its thread", in_stream_of_thread, COUNT},
	{"a kernel of another thread", of_another_thread, COUNT},
	{"cuGraphLaunch", launch_graph, COUNT},
	{"cuMemsetD32", set, COUNT},
	{"cuMemsetD32Async", set_async, COUNT},
	{"cuMemcpyDtoD", copy, COUNT},
	{"cuMemcpyHtoD", copy_from_host, COUNT},
	{"cuMemcpyHtoD of 64 bytes", copy_little_from_host, SMALL},
	{"cuMemcpyHtoD, pinned", copy_from_pinned, COUNT},
	{"cuMemcpyHtoDAsync, pinned", copy_from_pinned_async, COUNT},
	{"cuStreamWriteValue32", write_value, 1},
};

/* ---- the two together ---- */

static void lay_barrier(void)
{
	CHECK(cuCtxRecordEvent(context, event));
	CHECK(cuCtxWaitEvent(context, event));
}

static bool captures(const struct before *before)
{
	const uint64_t end = tell_now() + MOST_NS;
	CUresult result;
	bool done;

	CHECK(cuMemsetD32(block, 0, COUNT));
	CHECK(cuCtxSynchronize());
	before->submit(block);
	CHECK(cuCtxRecordEvent(context, event));
	while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY && tell_now() < end)
		;
	device_check(result, "cuEventQuery");
	done = !device_wrong(block, OLD, COUNT, future);
	tell_text("an event of the context captures", done ? "yes" : "no", "%s", before->name);
	return done;
}

static bool waits(const struct before *before, const struct after *after)
{
	uint64_t wrong;
	CUresult left;

	CHECK(cuMemsetD32(block, 0, COUNT));
	CHECK(cuCtxSynchronize());
	before->submit(block);
	lay_barrier();
	device_check(after->submit(), after->name);
	left = cuEventQuery(event);
	CHECK(cuCtxSynchronize());
	wrong = device_wrong(block, NEW, after->count, future);
	tell_text("waits for what the context waits for", wrong ? "no" : "yes", "%s, behind %s",
		  after->name, before->name);
	tell_text("and so does the host", left == CUDA_ERROR_NOT_READY ? "no" : "yes",
		  "%s, behind %s", after->name, before->name);
	return !wrong;
}

/* A copy to the host finds what the work before the barrier has written. */
static bool reads(void)
{
	uint32_t found[SMALL] = {0};

	CHECK(cuMemsetD32(block, 0, COUNT));
	CHECK(cuCtxSynchronize());
	kernel(block);
	lay_barrier();
	CHECK(cuMemcpyDtoH(found, block, sizeof(found)));
	CHECK(cuCtxSynchronize());
	tell_text("waits for what the context waits for", found[0] == OLD ? "yes" : "no", "%s",
		  "cuMemcpyDtoH of 64 bytes, behind a kernel");
	return found[0] == OLD;
}

/* As far as the card can, a kernel does begin early where nothing holds it back: else what is found
 * of such kernels means nothing. */
static void tell_early(void)
{
	device_slow_fill(block, OLD, EARLY, PAST_NS, past);
	device_early_fill(block, NEW, EARLY, past);
	CHECK(cuCtxSynchronize());
	tell_text("a kernel begins before the one in front has ended",
		  device_wrong(block, NEW, EARLY, future) ? "yes" : "no", "where it may");
}

/* The kernel in front has let it go ahead; the barrier between them has not. */
static bool early_waits(void)
{
	const struct before before = {"a kernel that the next one may overtake", let_ahead};
	const struct after after = {"a kernel that may begin early", early_kernel, EARLY};

	return waits(&before, &after);
}

static void open_all(void)
{
	int i;

	device_open();
	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	if (cuCtxRecordEvent(context, event) == CUDA_ERROR_NOT_SUPPORTED)
		tell_skipped("no cuCtxRecordEvent in this driver");
	past = device_stream();
	future = device_stream();
	block = device_alloc(BYTES);
	source = device_alloc(BYTES);
	device_fill(source, NEW, COUNT, NULL);
	pageable = malloc(BYTES);
	CHECK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
	if (!pageable)
		tell_failure("no memory");
	for (i = 0; i < COUNT; i++)
		pageable[i] = pinned[i] = NEW;
	graph = capture(block, NEW, false);
	CHECK(cuCtxSynchronize());
}

int main(void)
{
	size_t i;
	int bad = 0;

	open_all();
	for (i = 0; i < sizeof(earlier) / sizeof(earlier[0]); i++) {
		bad += !captures(&earlier[i]);
		bad += !waits(&earlier[i], &later[0]);
	}
	for (i = 1; i < sizeof(later) / sizeof(later[0]); i++)
		bad += !waits(&earlier[0], &later[i]);
	bad += !reads();
	tell_early();
	bad += !early_waits();
	free(pageable);
	library_leave_figures();
	return bad != 0;
}
