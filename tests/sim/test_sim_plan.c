/* SPDX-License-Identifier: MIT */
/* Machines of different plans: each case is a process of its own, as the plan is read once. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_test.h"

/* In the child: what must hold; the line of what does not is its exit status. */
#define MUST(condition)                        \
	do {                                   \
		if (!(condition))              \
			return __LINE__ % 256; \
	} while (0)

static void run(const char *plan, int (*body)(void))
{
	int status = -1;
	pid_t child;

	setenv("CUDASIM", plan, 1);
	child = fork();
	if (child == 0)
		exit(body());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		fail_msg("plan '%s': line %d", plan, WEXITSTATUS(status));
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The primary context: how others are made depends on the driver's version. */
static CUresult start(void)
{
	CUcontext ctx;
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuDevicePrimaryCtxRetain(&ctx, 0);
	return result == CUDA_SUCCESS ? cuCtxSetCurrent(ctx) : result;
}

static int an_old_driver(void)
{
	CUdriverProcAddressQueryResult status;
	CUcontext ctx;
	CUevent event;
	void *found;
	int version;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 12040);
	MUST(cuGetProcAddress("cuCtxRecordEvent", &found, 12040, 0, &status) == CUDA_SUCCESS);
	MUST(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	MUST(cuGetProcAddress("cuCtxRecordEvent", &found, 12050, 0, NULL) ==
	     CUDA_ERROR_INVALID_VALUE);
	MUST(cuEventCreate(&event, 0) == CUDA_SUCCESS && cuCtxGetCurrent(&ctx) == CUDA_SUCCESS);
	MUST(cuCtxRecordEvent(ctx, event) == CUDA_ERROR_NOT_SUPPORTED);
	MUST(cudaFree(NULL) == cudaErrorInsufficientDriver);
	MUST(cudaDriverGetVersion(&version) == cudaSuccess && version == 12040);
	return 0;
}

static void old_drivers_lack_new_functions(void **state)
{
	(void)state;
	run("version:12040", an_old_driver);
}

static int an_empty_machine(void)
{
	MUST(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	MUST(cudaFree(NULL) == cudaErrorNoDevice);
	return 0;
}

static void a_machine_may_have_no_device(void **state)
{
	(void)state;
	run("devices:0", an_empty_machine);
}

static int a_planned_failure(void)
{
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 1) == CUDA_ERROR_UNKNOWN);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	return 0;
}

static void failures_can_be_planned(void **state)
{
	(void)state;
	run("fail:cuMemAlloc@2=999", a_planned_failure);
	run("failall:5=999", a_planned_failure);
}

static int real_latency(void)
{
	const uint64_t begin = monotonic_ns();
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(monotonic_ns() - begin >= 2 * MS);
	return 0;
}

static int real_work(void)
{
	CUmodule module;
	CUfunction kernel;
	uint64_t begin;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuModuleLoadData(&module, "cudasim-module\nkernel k\nend\n") == CUDA_SUCCESS);
	MUST(cuModuleGetFunction(&kernel, module, "k") == CUDA_SUCCESS);
	begin = monotonic_ns();
	MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
	MUST(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
	MUST(cuCtxSynchronize() == CUDA_SUCCESS);
	MUST(monotonic_ns() - begin >= 20 * MS);
	return 0;
}

static void time_can_be_real(void **state)
{
	(void)state;
	run("time:real,cuMemAlloc:2ms", real_latency);
	run("time:real,kernel:20ms", real_work);
}

static int virtual_latency(void)
{
	CUdeviceptr addr;
	uint64_t begin;

	MUST(start() == CUDA_SUCCESS);
	begin = cudasim_now();
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cudasim_now() - begin == 3600000000000u);
	MUST(cuMemFree(addr) == CUDA_SUCCESS);
	MUST(cudasim_now() - begin == 3600000001000u);
	return 0;
}

static void virtual_time_costs_none(void **state)
{
	(void)state;
	run("latency:1us,cuMemAlloc:3600s", virtual_latency);
}

static int wrong_words(void)
{
	static const char *const words[] = {"",
					    "memory",
					    "memory:",
					    "memory:1X",
					    "devices:17",
					    "version:12",
					    "nothing:1",
					    "time:soon",
					    "fail:cuMemAlloc",
					    "fail:cuMemAlloc@0",
					    "guard:maybe",
					    "memory:99999999999999999999",
					    "fail:cuMemAlloc@1=0"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		MUST(cudasim_plan(words[i]) == -1);
	MUST(start() == CUDA_SUCCESS);
	return 0;
}

static void wrong_words_change_nothing(void **state)
{
	(void)state;
	run("", wrong_words);
}

static int a_large_card(void)
{
	CUdeviceptr addr[4];
	CUdeviceptr more;

	MUST(start() == CUDA_SUCCESS);
	for (unsigned i = 0; i < 4; i++) {
		MUST(cuMemAlloc(&addr[i], 20 * GIB) == CUDA_SUCCESS);
		MUST(cuMemsetD32(addr[i] + 20 * GIB - 4, i, 1) == CUDA_SUCCESS);
	}
	MUST(cuCtxSynchronize() == CUDA_SUCCESS);
	MUST(*(uint32_t *)(addr[3] + 20 * GIB - 4) == 3);
	MUST(cuMemAlloc(&more, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

static void a_card_may_be_larger_than_the_machine(void **state)
{
	(void)state;
	run("memory:80G", a_large_card);
}

static const char *dead_path;

/* Runs after the driver's own exit handler, which was registered later. */
static void use_dead_driver(void)
{
	CUdeviceptr addr;
	FILE *file = fopen(dead_path, "w");

	if (!file)
		return;
	fprintf(file, "%d", (int)cuMemAlloc(&addr, 1));
	(void)fclose(file);
}

static int an_exit(void)
{
	MUST(atexit(use_dead_driver) == 0);
	MUST(start() == CUDA_SUCCESS);
	return 0;
}

/* The first line of a file that begins with these words; false when there is none. */
static bool find_line(const char *path, const char *words, char *ret_line, int room)
{
	FILE *file = fopen(path, "r");
	bool found = false;

	while (file && !found && fgets(ret_line, room, file))
		found = strncmp(ret_line, words, strlen(words)) == 0;
	if (file)
		(void)fclose(file);
	return found;
}

static void calls_after_the_end_are_told_so(void **state)
{
	char path[] = "sim_plan_XXXXXX";
	char line[64] = "";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	dead_path = path;
	run("", an_exit);
	assert_true(find_line(path, "", line, sizeof(line)));
	assert_string_equal(line, "4");
	run("teardown:off", an_exit);
	assert_true(find_line(path, "", line, sizeof(line)));
	assert_string_equal(line, "0");
	unlink(path);
}

static int some_calls(void)
{
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	for (unsigned i = 0; i < 3; i++)
		MUST(cuMemAlloc(&addr, 5 * MIB) == CUDA_SUCCESS);
	return 0;
}

static void a_report_is_left_behind(void **state)
{
	char path[] = "sim_plan_XXXXXX";
	char line[128];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	setenv("CUDASIM_REPORT", path, 1);
	run("cuMemAlloc:2us", some_calls);
	unsetenv("CUDASIM_REPORT");
	assert_true(find_line(path, "cuMemAlloc_v2", line, sizeof(line)));
	assert_string_equal(line, "cuMemAlloc_v2 3 6000\n");
	assert_true(find_line(path, "device 0", line, sizeof(line)));
	assert_string_equal(line, "device 0 peak_bytes 18874368 used_bytes 18874368\n");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_drivers_lack_new_functions),
		cmocka_unit_test(a_machine_may_have_no_device),
		cmocka_unit_test(failures_can_be_planned),
		cmocka_unit_test(time_can_be_real),
		cmocka_unit_test(virtual_time_costs_none),
		cmocka_unit_test(wrong_words_change_nothing),
		cmocka_unit_test(a_card_may_be_larger_than_the_machine),
		cmocka_unit_test(calls_after_the_end_are_told_so),
		cmocka_unit_test(a_report_is_left_behind),
	};

	return cmocka_run_group_tests_name("sim_plan", tests, NULL, NULL);
}
