/* SPDX-License-Identifier: MIT */
/* Start, contexts, look-ups, planned failures, peers. */
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

/* The test is linked to current names; these are the ones that a look-up must tell apart. */
struct lookup {
	const char *symbol;
	int version;
	unsigned flags;
	const char *exported; /* NULL: none */
};

CM_TEST(nothing_works_before_the_start)
{
	CUcontext ctx;
	int version = 0;
	int count;

	assert_error(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	assert_error(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
	assert_ok(cuDriverGetVersion(&version));
	assert_int_equal(version, CUDASIM_VERSION);
	assert_error(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

CM_TEST(names_and_versions_lead_to_the_right_form)
{
	const unsigned per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct lookup lookups[] = {
		{"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
		{"cuMemAlloc", 13000, per_thread, "cuMemAlloc_v2"},
		{"cuMemAlloc", 2000, 0, NULL},
		{"cuCtxGetDevice", 12090, 0, "cuCtxGetDevice"},
		{"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"},
		{"cuLaunchHostFunc", 13000, 0, "cuLaunchHostFunc"},
		{"cuLaunchHostFunc", 13010, per_thread, "cuLaunchHostFunc_v2_ptsz"},
		{"cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture"},
		{"cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"},
		{"cuStreamBeginCapture", 10010, per_thread, "cuStreamBeginCapture_v2_ptsz"},
		{"cuMemcpyHtoD", 3020, per_thread, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, per_thread, "cuMemcpyHtoD_v2_ptds"},
		{"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
		{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
		{"cuCtxRecordEvent", 12040, 0, NULL},
		{"cuCtxRecordEvent", 12050, 0, "cuCtxRecordEvent"},
		{"cuMemAlloc_v2", 13000, 0, NULL},
	};

	for (unsigned i = 0; i < sizeof(lookups) / sizeof(lookups[0]); i++) {
		const struct lookup *lookup = &lookups[i];
		void *found = state;

		assert_ok(cuGetProcAddress(lookup->symbol, &found, lookup->version, lookup->flags,
					   NULL));
		if (found != (lookup->exported ? dlsym(RTLD_DEFAULT, lookup->exported) : NULL))
			fail_msg("%s %d %u", lookup->symbol, lookup->version, lookup->flags);
	}
}

CM_TEST(lookups_tell_why_they_fail)
{
	CUdriverProcAddressQueryResult status;
	void *found;

	assert_error(cuGetProcAddress("", &found, 0, 0, &status), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuGetProcAddress(NULL, &found, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuGetProcAddress("cuInit", &found, 14000, 0, &status),
		     CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuGetProcAddress("cuNothing", &found, 13000, 0, &status));
	assert_null(found);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_ok(cuGetProcAddress("cuMemAlloc", &found, 2000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

/* Programs that look up all that they know find it, and are told when they call it. */
with_context(what_the_device_has_not_says_so)
{
	static const char *const names[] = {
#define CALL(name, base, version, flags, params, args)                       #name,
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args) #name, #name #suffix,
#include "tests/sim/driver/absent.def"
#undef CALL
#undef PAIR
	};
	const CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	const CUexternalSemaphore semaphore = NULL;
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {0};
	CUtexObject texture = 5;
	CUlinkState link = NULL;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!dlsym(RTLD_DEFAULT, names[i]))
			fail_msg("%s", names[i]);
	assert_error(cuTexObjectCreate(&texture, &resource, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(texture, 5);
	assert_error(cuLinkCreate(0, NULL, NULL, &link), CUDA_ERROR_NOT_SUPPORTED);
	assert_null(link);
	assert_error(cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, NULL),
		     CUDA_ERROR_NOT_SUPPORTED);
}

CM_TEST(with_no_context_even_that_is_not_said)
{
	assert_error(cuDestroyExternalMemory(NULL), CUDA_ERROR_INVALID_CONTEXT);
}

with_context(devices_are_as_planned)
{
	char name[64];
	CUdevice device;
	size_t bytes;
	int count;

	assert_ok(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	assert_ok(cuDeviceGet(&device, 1));
	assert_error(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_ok(cuDeviceGetName(name, sizeof(name), device));
	assert_string_equal(name, "Simulated CUDA device");
	assert_ok(cuDeviceTotalMem(&bytes, device));
	assert_int_equal(bytes, 512 * MIB);
}

with_context(a_stack_of_contexts_is_a_stack)
{
	CUcontext first = *state;
	CUcontext second;
	CUcontext current;

	assert_ok(cuCtxCreate(&second, NULL, 0, 1));
	assert_ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, second);
	assert_ok(cuCtxPopCurrent(&current));
	assert_ptr_equal(current, second);
	assert_ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, first);
	assert_ok(cuCtxPushCurrent(second));
	assert_ok(cuCtxDestroy(second));
	assert_ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, first);
	assert_error(cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
	assert_error(cuCtxDestroy(second), CUDA_ERROR_INVALID_CONTEXT);
}

with_context(a_handle_may_return_but_its_number_does_not)
{
	unsigned long long first;
	unsigned long long second;
	CUdeviceptr addr;
	CUcontext ctx;
	CUcontext again;

	assert_ok(cuCtxCreate(&ctx, NULL, 0, 0));
	assert_ok(cuCtxGetId(ctx, &first));
	assert_ok(cuCtxPushCurrent(ctx));
	assert_ok(cuCtxDestroy(ctx));
	/* Still below on the stack, and gone. */
	assert_error(cuMemAlloc(&addr, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_ok(cuCtxCreate(&again, NULL, 0, 0));
	assert_ptr_equal(again, ctx);
	assert_ok(cuCtxGetId(again, &second));
	assert_int_not_equal(first, second);
	assert_ok(cuCtxPopCurrent(&again));
	assert_error(cuMemAlloc(&addr, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_ok(cuCtxDestroy(again));
	assert_ok(cuCtxPopCurrent(NULL));
}

with_context(primary_contexts_are_counted)
{
	CUcontext first;
	CUcontext second;
	CUdeviceptr addr;
	unsigned flags;
	int active;

	assert_error(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
	assert_ok(cuDevicePrimaryCtxRetain(&first, 1));
	assert_ok(cuDevicePrimaryCtxRetain(&second, 1));
	assert_ptr_equal(first, second);
	assert_error(cuCtxDestroy(first), CUDA_ERROR_INVALID_CONTEXT);
	assert_ok(cuCtxPushCurrent(first));
	assert_ok(cuMemAlloc(&addr, MIB));
	assert_ok(cuDevicePrimaryCtxRelease(1));
	assert_int_equal(cudasim_live_allocations(1), 1);
	assert_ok(cuDevicePrimaryCtxReset(1));
	assert_int_equal(cudasim_live_allocations(1), 0);
	assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_int_equal(active, 0);
	assert_error(cuMemAlloc(&addr, MIB), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_ok(cuDevicePrimaryCtxRelease(1));
	assert_ok(cuCtxPopCurrent(NULL));
}

with_context(the_nth_call_fails_once)
{
	CUdeviceptr addr;

	assert_int_equal(cudasim_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cudasim_fail("cuNothing", 1, CUDA_ERROR_UNKNOWN), -1);
	assert_ok(cuMemAlloc(&addr, 1));
	assert_error(cuMemAlloc(&addr, 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_ok(cuMemAlloc(&addr, 1));
	assert_int_equal(cudasim_fail(NULL, 1, CUDA_ERROR_UNKNOWN), 0);
	assert_error(cuMemFree(addr), CUDA_ERROR_UNKNOWN);
	assert_ok(cuMemFree(addr));
}

with_context(some_failures_stay)
{
	CUdeviceptr addr;
	CUcontext other;

	assert_int_equal(cudasim_fail("cuMemAlloc", 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	assert_error(cuMemAlloc(&addr, 1), CUDA_ERROR_LAUNCH_FAILED);
	assert_error(cuMemAlloc(&addr, 1), CUDA_ERROR_LAUNCH_FAILED);
	assert_ok(cuCtxCreate(&other, NULL, 0, 0));
	assert_ok(cuMemAlloc(&addr, 1));
	assert_ok(cuCtxDestroy(other));
}

with_context(calls_are_counted_with_their_time)
{
	struct cudasim_counter counters[1024];
	unsigned count = cudasim_counters(counters, 1024);
	uint64_t before = cudasim_calls("cuMemGetInfo_v2");
	size_t left;
	unsigned i;

	assert_int_equal(cudasim_plan("cuMemGetInfo:3us"), 0);
	assert_int_equal(cudasim_plan("cuMemGetInfo:3 parsecs"), -1);
	assert_ok(cuMemGetInfo(&left, NULL));
	assert_int_equal(cudasim_plan("cuMemGetInfo:0"), 0);
	assert_int_equal(cudasim_calls("cuMemGetInfo_v2"), before + 1);
	assert_int_equal(cudasim_counters(counters, 1024), count);
	for (i = 0; strcmp(counters[i].name, "cuMemGetInfo_v2"); i++)
		;
	assert_true(counters[i].ns >= 3 * US);
}

static const char COPY[] = "cudasim-module\nkernel copy\n params ptr ptr u64\n time 1us\n"
			   " reads p1 p2\n writes p0 p2\n do copy p0 p1 p2\nend\n";

with_context(kernels_reach_peers_only_when_allowed)
{
	CUfunction copy;
	CUcontext first = *state;
	CUcontext second;
	CUdeviceptr here;
	CUdeviceptr there;
	uint64_t bytes = 4;
	void *params[] = {&here, &there, &bytes};
	int can;

	assert_ok(cuDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	assert_ok(cuMemAlloc(&here, 4));
	copy = load_kernel(COPY, "copy");
	assert_ok(cuCtxCreate(&second, NULL, 0, 1));
	assert_ok(cuMemAlloc(&there, 4));
	assert_ok(cuMemsetD32(there, 77, 1));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuCtxSetCurrent(first));
	assert_ok(cuCtxEnablePeerAccess(second, 0));
	assert_error(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	launch(copy, NULL, params);
	assert_ok(cuCtxSynchronize());
	assert_int_equal(*(uint32_t *)here, 77);
	assert_ok(cuCtxDisablePeerAccess(second));
	assert_error(cuCtxDisablePeerAccess(second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	/* The driver's own copies find their way, kernels do not. */
	assert_ok(cuMemcpyPeer(here, first, there, second, 4));
	assert_ok(cuCtxSynchronize());
	launch(copy, NULL, params);
	assert_error(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_ok(cuCtxDestroy(second));
}

with_context(a_forked_child_has_no_device)
{
	CUdeviceptr addr;
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(cuMemAlloc(&addr, 1) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void note_call(void *calls)
{
	*(uint64_t *)calls = cudasim_calls("cuCtxGetId") + 1;
}

with_context(a_call_can_be_held_up)
{
	const uint64_t before = cudasim_calls("cuCtxGetId");
	unsigned long long id;
	uint64_t at = 0;

	cudasim_interrupt(2, note_call, &at);
	assert_ok(cuCtxGetId(*state, &id));
	assert_int_equal(at, 0);
	assert_ok(cuCtxGetId(*state, &id));
	assert_int_equal(at, before + 2);
	at = 0;
	assert_ok(cuCtxGetId(*state, &id));
	cudasim_interrupt(1, note_call, &at);
	cudasim_interrupt(0, NULL, NULL);
	assert_ok(cuCtxGetId(*state, &id));
	assert_int_equal(at, 0);
}

int main(void)
{
	setenv("CUDASIM", "memory:512M,devices:2", 1);
	return cm_run_tests(NULL, NULL);
}
