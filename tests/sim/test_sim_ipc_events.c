/* SPDX-License-Identifier: MIT */
/*
 * Events between two real processes. The other one is made before the driver is started, does what
 * it is told, and answers what the driver answered.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "other_process.h"
#include "sim_test.h"

static const char KERNELS[] = "cudasim-module\n"
			      "kernel until_set\n"
			      " params ptr\n reads p0 4\n until p0\n"
			      "end\n";

enum deed {
	OPEN,
	QUERY,
	WAIT,
	ORDER,  /* its stream waits for the event */
	FETCH,  /* a word of the memory, behind that */
	RECORD, /* the word written, and the event recorded */
	DESTROY,
};

struct order {
	enum deed deed;
	CUipcEventHandle event;
	CUipcMemHandle memory;
	uint32_t word;
};

struct answer {
	CUresult result;
	uint32_t word;
};

static int other; /* a socket to the other process */

/* What the other process has opened. */
static struct {
	CUdeviceptr addr;
	CUevent event;
	CUstream stream;
} opened;

static CUresult open_both(const struct order *order)
{
	CUresult result = cuIpcOpenEventHandle(&opened.event, order->event);

	if (result == CUDA_SUCCESS)
		result = cuIpcOpenMemHandle(&opened.addr, order->memory,
					    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	return result;
}

static CUresult close_both(void)
{
	CUresult result = cuEventDestroy(opened.event);

	return result == CUDA_SUCCESS ? cuIpcCloseMemHandle(opened.addr) : result;
}

static CUresult fetch(uint32_t *ret_word)
{
	CUresult result = cuMemcpyDtoHAsync(ret_word, opened.addr, 4, opened.stream);

	return result == CUDA_SUCCESS ? cuStreamSynchronize(opened.stream) : result;
}

static CUresult record(uint32_t word)
{
	CUresult result = cuMemsetD32Async(opened.addr, word, 1, opened.stream);

	return result == CUDA_SUCCESS ? cuEventRecord(opened.event, opened.stream) : result;
}

static struct answer obey(const struct order *order)
{
	struct answer answer = {CUDA_ERROR_UNKNOWN, 0};

	switch (order->deed) {
	case OPEN:
		answer.result = open_both(order);
		break;
	case QUERY:
		answer.result = cuEventQuery(opened.event);
		break;
	case WAIT:
		answer.result = cuEventSynchronize(opened.event);
		break;
	case ORDER:
		answer.result = cuStreamWaitEvent(opened.stream, opened.event, 0);
		break;
	case FETCH:
		answer.result = fetch(&answer.word);
		break;
	case RECORD:
		answer.result = record(order->word);
		break;
	case DESTROY:
		answer.result = close_both();
		break;
	}
	return answer;
}

static int serve(int parent)
{
	struct order order;
	CUcontext ctx;

	if (cuInit(0) || cuCtxCreate(&ctx, NULL, 0, 0) ||
	    cuStreamCreate(&opened.stream, CU_STREAM_NON_BLOCKING))
		return 1;
	while (read(parent, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		struct answer answer = obey(&order);

		if (write(parent, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			return 1;
	}
	return 0;
}

static void tell(const struct order *order)
{
	assert_int_equal(write(other, order, sizeof(*order)), sizeof(*order));
}

static struct answer hear(void)
{
	struct answer answer;

	assert_int_equal(read(other, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static CUresult ask(enum deed deed)
{
	const struct order order = {.deed = deed};

	tell(&order);
	return hear().result;
}

/* What both processes work on, and work that ends when the host says so. */
struct scene {
	CUdeviceptr addr;
	CUevent event;
	CUstream stream;
	uint32_t *flag; /* for the kernel */
	CUfunction kernel;
};

static void launch_until_set(struct scene *scene)
{
	CUdeviceptr flag = (CUdeviceptr)(uintptr_t)scene->flag;
	void *params[] = {&flag};

	*scene->flag = 0;
	launch(scene->kernel, scene->stream, params);
}

static void set(struct scene *scene)
{
	__atomic_store_n(scene->flag, 1, __ATOMIC_RELEASE);
}

static void enter(struct scene *scene)
{
	*scene = (struct scene){.kernel = load_kernel(KERNELS, "until_set")};
	assert_ok(cuMemAlloc(&scene->addr, MIB));
	assert_ok(cuMemsetD32(scene->addr, 1, 1));
	assert_ok(cuEventCreate(&scene->event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	assert_ok(cuStreamCreate(&scene->stream, CU_STREAM_NON_BLOCKING));
	assert_ok(cuMemHostAlloc((void **)&scene->flag, 4, 0));
	assert_ok(cuCtxSynchronize());
}

static void hand_over(const struct scene *scene)
{
	struct order order = {.deed = OPEN};

	assert_ok(cuIpcGetEventHandle(&order.event, scene->event));
	assert_ok(cuIpcGetMemHandle(&order.memory, scene->addr));
	tell(&order);
	assert_ok(hear().result);
}

static void leave(struct scene *scene)
{
	assert_ok(ask(DESTROY));
	assert_ok(cuEventDestroy(scene->event));
	assert_ok(cuMemFree(scene->addr));
	assert_ok(cuMemFreeHost(scene->flag));
}

/* Work, a copy that must not be seen before, and the event behind both. */
static void write_and_record(struct scene *scene, uint32_t word)
{
	launch_until_set(scene);
	assert_ok(cuMemsetD32Async(scene->addr, word, 1, scene->stream));
	assert_ok(cuEventRecord(scene->event, scene->stream));
}

with_context(an_event_without_a_record_is_complete)
{
	struct scene scene;

	enter(&scene);
	hand_over(&scene);
	assert_ok(ask(QUERY));
	assert_ok(ask(WAIT));
	leave(&scene);
}

with_context(the_other_process_sees_when_a_record_is_complete)
{
	const struct order wait = {.deed = WAIT};
	struct scene scene;

	enter(&scene);
	hand_over(&scene);
	write_and_record(&scene, 2);
	assert_int_equal(ask(QUERY), CUDA_ERROR_NOT_READY);
	tell(&wait);
	set(&scene); /* and no call of this process from here on */
	assert_ok(hear().result);
	assert_ok(ask(QUERY));
	assert_int_equal(*(uint32_t *)scene.addr, 2);
	leave(&scene);
}

with_context(a_record_before_the_handle_counts)
{
	struct scene scene;

	enter(&scene);
	write_and_record(&scene, 2);
	hand_over(&scene);
	assert_int_equal(ask(QUERY), CUDA_ERROR_NOT_READY);
	set(&scene);
	assert_ok(ask(WAIT));
	leave(&scene);
}

with_context(a_stream_waits_for_the_record_of_the_other_process)
{
	const struct order fetch_it = {.deed = FETCH};
	struct answer answer;
	struct scene scene;

	enter(&scene);
	hand_over(&scene);
	write_and_record(&scene, 3);
	assert_ok(ask(ORDER));
	tell(&fetch_it);
	usleep(20000); /* it would have fetched by then */
	assert_int_equal(*(uint32_t *)scene.addr, 1);
	set(&scene);
	answer = hear();
	assert_ok(answer.result);
	assert_int_equal(answer.word, 3);
	leave(&scene);
}

/* A wait is for the record that was the last one when it was called. */
with_context(a_later_record_does_not_prolong_a_wait)
{
	struct scene scene;

	enter(&scene);
	hand_over(&scene);
	assert_ok(cuEventRecord(scene.event, scene.stream));
	assert_ok(ask(ORDER));
	write_and_record(&scene, 2);
	assert_ok(ask(FETCH)); /* behind the first record alone */
	assert_int_equal(ask(QUERY), CUDA_ERROR_NOT_READY);
	set(&scene);
	assert_ok(ask(WAIT));
	leave(&scene);
}

with_context(either_process_may_record)
{
	const struct order record_it = {.deed = RECORD, .word = 7};
	struct scene scene;
	uint32_t word = 0;

	enter(&scene);
	hand_over(&scene);
	write_and_record(&scene, 2);
	set(&scene);
	assert_ok(cuEventSynchronize(scene.event));
	tell(&record_it);
	assert_ok(hear().result);
	assert_ok(cuStreamWaitEvent(scene.stream, scene.event, 0));
	assert_ok(cuMemcpyDtoHAsync(&word, scene.addr, 4, scene.stream));
	assert_ok(cuStreamSynchronize(scene.stream));
	assert_int_equal(word, 7);
	assert_ok(cuEventQuery(scene.event));
	leave(&scene);
}

/* The event of a context does the same. */
with_context(a_record_of_a_context_is_seen)
{
	struct scene scene;
	CUcontext ctx;

	enter(&scene);
	hand_over(&scene);
	launch_until_set(&scene);
	assert_ok(cuCtxGetCurrent(&ctx));
	assert_ok(cuCtxRecordEvent(ctx, scene.event));
	assert_int_equal(ask(QUERY), CUDA_ERROR_NOT_READY);
	set(&scene);
	assert_ok(ask(WAIT));
	leave(&scene);
}

with_context(other_events_and_handles_are_refused)
{
	struct order order = {.deed = OPEN};
	CUipcMemHandle memory;
	CUevent plain;
	CUevent again;
	struct scene scene;

	enter(&scene);
	assert_ok(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	assert_error(cuIpcGetEventHandle(&order.event, plain), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuIpcGetEventHandle(&order.event, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuIpcGetEventHandle(NULL, scene.event), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuIpcGetEventHandle(&order.event, scene.event));
	assert_error(cuIpcOpenEventHandle(&again, order.event), CUDA_ERROR_INVALID_CONTEXT);
	assert_error(cuIpcOpenEventHandle(NULL, order.event), CUDA_ERROR_INVALID_VALUE);

	assert_ok(cuEventDestroy(scene.event));
	tell(&order);
	assert_error(hear().result, CUDA_ERROR_INVALID_HANDLE);
	memset(&order.event, 7, sizeof(order.event));
	tell(&order);
	assert_error(hear().result, CUDA_ERROR_INVALID_HANDLE);
	assert_ok(cuIpcGetMemHandle(&memory, scene.addr));
	memcpy(&order.event, &memory, sizeof(order.event));
	tell(&order);
	assert_error(hear().result, CUDA_ERROR_INVALID_HANDLE);
}

/* A row that is used again knows nothing of the event before. */
with_context(an_event_after_a_shared_one_starts_afresh)
{
	struct scene scene;

	for (int i = 0; i < 3; i++) {
		enter(&scene);
		hand_over(&scene);
		assert_ok(ask(QUERY));
		write_and_record(&scene, 2);
		assert_int_equal(ask(QUERY), CUDA_ERROR_NOT_READY);
		set(&scene);
		assert_ok(ask(WAIT));
		leave(&scene);
	}
}

int main(void)
{
	const pid_t child = start_other(serve, &other);
	const int failed = cm_run_tests(NULL, NULL);

	return end_other(child, other) || failed;
}
