/* SPDX-License-Identifier: MIT */
/*
 * Which work a free waits for, over a driver that is a list of streams: what a simulated one does
 * not show. Handles come again, contexts are unknown, and several threads free at once.
 */
#include "interpose/driver/host_work.h"

#include <string.h>

#include "interpose/driver/context_registry.h"
#include "interpose/driver/current.h"
#include "tests/unit/cmocka_all.h"

#define HANDLE(number) ((void *)(uintptr_t)(number))

enum { OTHER_DEVICE = 1 };

static const CUcontext first = HANDLE(0x100), second = HANDLE(0x200);
static const CUstream stream = HANDLE(0x1000);
static uint64_t broken; /* the context with the error that the wait has found */

static struct {
	CUcontext current, of_stream;
	CUcontext gone; /* without a hook */
	CUresult query;
	unsigned created, destroyed, recorded, waits, whole;
	CUcontext recorded_in;
	bool frees_meanwhile; /* another thread frees while this one waits */
} driver;

static CUresult get_current(CUcontext *ctx)
{
	*ctx = driver.current;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext ctx)
{
	if (ctx == driver.gone)
		return CUDA_ERROR_INVALID_CONTEXT;
	driver.current = ctx;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ctx)
{
	*ctx = driver.current;
	return CUDA_SUCCESS;
}

static CUresult context_of_stream(CUstream handle, CUcontext *ctx)
{
	(void)handle;
	*ctx = driver.of_stream;
	return CUDA_SUCCESS;
}

static CUresult query_stream(CUstream handle)
{
	(void)handle;
	return driver.query;
}

static CUresult create(CUevent *event, unsigned int flags)
{
	(void)flags;
	*event = HANDLE(0x10000 + ++driver.created);
	return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
	(void)event;
	driver.destroyed++;
	return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream handle)
{
	(void)event;
	(void)handle;
	driver.recorded++;
	driver.recorded_in = driver.current;
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
	(void)event;
	return CUDA_ERROR_NOT_READY;
}

static CUresult wait_for_event(CUevent event)
{
	(void)event;
	driver.waits++;
	if (driver.frees_meanwhile) {
		driver.frees_meanwhile = false;
		assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	}
	return CUDA_SUCCESS;
}

static CUresult wait_for_context(void)
{
	driver.whole++;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

__thread unsigned int cm_hook_depth;

CUresult cm_real_missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* A driver before CUDA 12.5. */
struct cm_real cm_real = {
	.cuCtxGetCurrent = get_current,
	.cuCtxPushCurrent_v2 = push,
	.cuCtxPopCurrent_v2 = pop,
	.cuStreamGetCtx = context_of_stream,
	.cuStreamQuery = query_stream,
	.cuEventCreate = create,
	.cuEventDestroy_v2 = destroy,
	.cuEventRecord = record,
	.cuEventQuery = query_event,
	.cuEventSynchronize = wait_for_event,
	.cuCtxSynchronize = wait_for_context,
	.cuThreadExchangeStreamCaptureMode = exchange_mode,
	.cuCtxRecordEvent = (__typeof__(cuCtxRecordEvent) *)(void (*)(void))cm_real_missing,
};

static int begin(void **state)
{
	(void)state;
	memset(&driver, 0, sizeof(driver));
	driver.current = driver.of_stream = first;
	driver.query = CUDA_ERROR_NOT_READY;
	cm_host_work_forget_all();
	cm_context_forget_streams();
	cm_registry_forget_all();
	assert_true(cm_registry_add(first, 0, CM_CONTEXT_CREATED));
	assert_true(cm_registry_add(second, OTHER_DEVICE, CM_CONTEXT_CREATED));
	return 0;
}

CM_TEST_WITH(work_under_way_is_waited_for_once, begin, NULL)
{
	cm_host_work_note(stream, false);
	assert_true(cm_host_work_exists());
	assert_int_equal(cm_host_work_await(OTHER_DEVICE, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.waits, 0);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.waits, 1);
	assert_false(cm_host_work_exists());
}

/* The row is idle when the stream goes: it must not be found for the next one. */
CM_TEST_WITH(a_handle_that_comes_again_elsewhere_is_waited_for_there, begin, NULL)
{
	driver.query = CUDA_SUCCESS;
	cm_host_work_note(stream, false);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	cm_host_work_forget_stream(stream);
	cm_context_forget_streams();
	driver.query = CUDA_ERROR_NOT_READY;
	driver.of_stream = second;
	cm_host_work_note(stream, false);
	assert_int_equal(cm_host_work_await(OTHER_DEVICE, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.waits, 1);
	assert_ptr_equal(driver.recorded_in, second);
}

CM_TEST_WITH(two_frees_at_once_leave_one_event, begin, NULL)
{
	cm_host_work_note(stream, false);
	driver.frees_meanwhile = true;
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.waits, 2);
	assert_int_equal(driver.created - driver.destroyed, 1);
}

/* A kernel may be launched while another context is current. */
CM_TEST_WITH(an_event_is_of_the_context_of_its_stream, begin, NULL)
{
	cm_host_work_note(stream, false);
	cm_host_work_before_other(stream, false);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	cm_host_work_note(stream, false);
	driver.recorded = 0;
	driver.current = second;
	cm_host_work_before_other(stream, false);
	assert_int_equal(driver.recorded, 1);
	assert_ptr_equal(driver.recorded_in, first);
}

CM_TEST_WITH(a_context_that_is_not_registered_takes_no_room, begin, NULL)
{
	uintptr_t i;

	for (i = 0; i < 100; i++) {
		driver.of_stream = HANDLE(0x100000 + i);
		cm_host_work_note(HANDLE(0x200000 + i), false);
	}
	assert_false(cm_host_work_exists());
	driver.of_stream = first;
	cm_host_work_note(stream, false);
	assert_true(cm_host_work_exists());
}

/* A query that fails for itself says nothing about the work. */
CM_TEST_WITH(a_question_that_fails_is_no_answer, begin, NULL)
{
	driver.query = CUDA_ERROR_INVALID_HANDLE;
	cm_host_work_note(stream, false);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.whole, 1);
}

/* It has no capture either, which would have a free wait in another way. */
CM_TEST_WITH(a_context_that_has_gone_holds_up_no_other, begin, NULL)
{
	assert_true(cm_registry_add(HANDLE(0x300), 0, CM_CONTEXT_CREATED));
	cm_host_work_note(stream, false);
	driver.of_stream = HANDLE(0x300);
	cm_host_work_note(HANDLE(0x2000), false);
	driver.gone = first;
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_int_equal(driver.waits, 1);
}

CM_TEST_WITH(an_error_that_stays_is_returned, begin, NULL)
{
	driver.query = CUDA_ERROR_ILLEGAL_ADDRESS;
	cm_host_work_note(stream, false);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_ptr_equal((void *)(uintptr_t)broken, first);
	assert_false(cm_host_work_exists());
}

/* More streams than a context has rows for are waited for as one. */
CM_TEST_WITH(more_streams_than_rows_are_all_waited_for, begin, NULL)
{
	uintptr_t i;

	for (i = 0; i < 40; i++)
		cm_host_work_note(HANDLE(0x1000 + i), false);
	assert_int_equal(cm_host_work_await(0, &broken), CUDA_SUCCESS);
	assert_false(cm_host_work_exists());
	assert_int_equal(driver.waits + driver.whole, 32);
	assert_true(driver.whole >= 1);
}
