/* SPDX-License-Identifier: MIT */
/*
 * Does the ordered barrier cost concurrency? Streams with chains of short kernels that need next to
 * nothing of the card run side by side; then the same with a barrier now and then. Where one stream
 * has much longer kernels than the others, a barrier makes them wait for it.
 */
#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { STREAMS = 8, KERNELS = 200, REPETITIONS = 5 };

#define KERNEL_NS UINT64_C(20000)

static CUstream streams[STREAMS];

/* Nanoseconds from the first launch until all is done. `every`: kernels of each stream between two
 * barriers; 0: none. The first stream's kernels are `longer` times as long, and as many fewer. */
static uint64_t run(int every, bool waits, int longer)
{
	CUcontext context;
	CUevent event;
	uint64_t from, ns;
	int i, j;

	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	from = tell_now();
	for (i = 0; i < KERNELS; i++) {
		if (i % longer == 0)
			device_spin(KERNEL_NS * (uint64_t)longer, streams[0]);
		for (j = 1; j < STREAMS; j++)
			device_spin(KERNEL_NS, streams[j]);
		if (!every || i % every != every - 1)
			continue;
		CHECK(cuCtxRecordEvent(context, event));
		if (waits)
			CHECK(cuCtxWaitEvent(context, event));
	}
	CHECK(cuCtxSynchronize());
	ns = tell_now() - from;
	CHECK(cuEventDestroy(event));
	return ns;
}

static void measure(const char *name, int every, bool waits, int longer)
{
	const char *chains = longer == 1 ? "even chains" : "one stream with long kernels";
	uint64_t ns[REPETITIONS];
	int i;

	for (i = 0; i < REPETITIONS; i++)
		ns[i] = run(every, waits, longer);
	if (every)
		tell_times(name, ns, REPETITIONS, "%s, every %d kernels", chains, every);
	else
		tell_times(name, ns, REPETITIONS, "%s", chains);
}

int main(void)
{
	static const int every[] = {1, 10, 50}, longer[] = {1, 20};
	size_t i, j;

	device_open();
	for (i = 0; i < STREAMS; i++)
		streams[i] = device_stream();
	tell_fact("chains", STREAMS, "streams", "%d kernels of %d us each", KERNELS,
		  (int)(KERNEL_NS / 1000));
	(void)run(0, false, 1);
	for (j = 0; j < sizeof(longer) / sizeof(longer[0]); j++) {
		measure("without barriers", 0, false, longer[j]);
		for (i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
			measure("with an event of the context", every[i], false, longer[j]);
			measure("with barriers", every[i], true, longer[j]);
		}
	}
	library_leave_figures();
	return 0;
}
