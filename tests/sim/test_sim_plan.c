/* SPDX-License-Identifier: MIT */
/* Machines of different plans: each case is a process of its own, as the plan is read once. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_test.h"

#define PATH_BYTES 64

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

CM_TEST(old_drivers_lack_new_functions)
{
	run("version:12040", an_old_driver);
}

static int an_empty_machine(void)
{
	MUST(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	MUST(cudaFree(NULL) == cudaErrorNoDevice);
	return 0;
}

CM_TEST(a_machine_may_have_no_device)
{
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

CM_TEST(failures_can_be_planned)
{
	run("fail:cuMemAlloc@2=999", a_planned_failure);
	run("failall:5=999", a_planned_failure);
}

static int a_failure_after_another(void)
{
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cuMemFree(addr) == CUDA_SUCCESS);
	MUST(cuMemFree(addr) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemAlloc(&addr, 1) == CUDA_ERROR_UNKNOWN);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cuMemFree(addr) == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cuMemFree(addr) == CUDA_ERROR_NOT_PERMITTED);
	MUST(cuMemFree(addr) == CUDA_SUCCESS);
	return 0;
}

CM_TEST(failures_can_follow_each_other)
{
	run("fail:cuMemAlloc@2=999,then:cuMemFree@2=800", a_failure_after_another);
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

/* So often in a row nobody holds the program up for longer than its kernel takes. */
#define ROUNDS 100

static int real_work(void)
{
	CUresult result = CUDA_SUCCESS;
	CUmodule module;
	CUfunction kernel;
	uint64_t begin;
	int round;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuModuleLoadData(&module, "cudasim-module\nkernel k\nend\n") == CUDA_SUCCESS);
	MUST(cuModuleGetFunction(&kernel, module, "k") == CUDA_SUCCESS);
	for (round = 0; round < ROUNDS && result == CUDA_SUCCESS; round++) {
		begin = monotonic_ns();
		MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
		result = cuStreamQuery(NULL);
		MUST(cuCtxSynchronize() == CUDA_SUCCESS);
		MUST(monotonic_ns() - begin >= 20 * MS);
	}
	MUST(result == CUDA_ERROR_NOT_READY);
	return 0;
}

static void CUDA_CB post(void *semaphore)
{
	sem_post(semaphore);
}

/* Nobody calls the driver meanwhile. */
static int a_function_by_itself(void)
{
	struct timespec until;
	CUdeviceptr addr;
	sem_t called;

	MUST(start() == CUDA_SUCCESS);
	MUST(sem_init(&called, 0, 0) == 0);
	MUST(cuMemAlloc(&addr, 1) == CUDA_SUCCESS);
	MUST(cuMemsetD8Async(addr, 1, 1, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
	MUST(cuLaunchHostFunc(CU_STREAM_PER_THREAD, post, &called) == CUDA_SUCCESS);
	MUST(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += 60;
	MUST(sem_timedwait(&called, &until) == 0);
	MUST(cuMemFree(addr) == CUDA_SUCCESS);
	return 0;
}

/* Its parent's copy has been over for long, but is not done in the child, which has no memory. */
static int a_fork_beside_a_copy(void)
{
	CUdeviceptr addr;
	int status = -1;
	pid_t child;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, MIB) == CUDA_SUCCESS);
	MUST(cuMemsetD8Async(addr, 1, MIB, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
	child = fork();
	if (child == 0)
		exit(cuMemAlloc(&addr, 1) != CUDA_ERROR_NOT_INITIALIZED);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}

CM_TEST(a_child_does_no_work_of_its_parent)
{
	run("cuMemAlloc:1s", a_fork_beside_a_copy);
	run("time:real,copy:1us", a_fork_beside_a_copy);
}

CM_TEST(time_can_be_real)
{
	run("time:real,cuMemAlloc:2ms", real_latency);
	run("time:real,kernel:20ms", real_work);
	run("time:real,copy:20ms", a_function_by_itself);
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

CM_TEST(virtual_time_costs_none)
{
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
					    "then:cuMemAlloc@1",
					    "guard:maybe",
					    "memory:99999999999999999999",
					    "memory:2T",
					    "fail:cuMemAlloc@1=0"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		MUST(cudasim_plan(words[i]) == -1);
	MUST(start() == CUDA_SUCCESS);
	return 0;
}

CM_TEST(wrong_words_change_nothing)
{
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

static int a_huge_card(void)
{
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 500 * GIB) == CUDA_SUCCESS);
	MUST(cuMemsetD32(addr + 500 * GIB - 4, 7, 1) == CUDA_SUCCESS);
	MUST(cuCtxSynchronize() == CUDA_SUCCESS);
	MUST(*(uint32_t *)(addr + 500 * GIB - 4) == 7);
	return 0;
}

CM_TEST(a_card_may_be_larger_than_the_machine)
{
	run("memory:80G", a_large_card);
	run("memory:512G", a_huge_card);
	run("memory:1536G", a_huge_card);
}

static void go_on(int signal)
{
	(void)signal;
	_exit(0);
}

static int an_early_reuse(void)
{
	CUdeviceptr addr;
	CUstream stream;

	MUST(start() == CUDA_SUCCESS && cudasim_checking());
	MUST(signal(SIGABRT, go_on) != SIG_ERR);
	MUST(cuMemAlloc(&addr, 4096) == CUDA_SUCCESS);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	cudasim_allocated((void *)(uintptr_t)addr, 4096, 0);
	MUST(cuMemsetD8Async(addr, 1, 4096, stream) == CUDA_SUCCESS);
	MUST(cudasim_freed((void *)(uintptr_t)addr));
	cudasim_allocated((void *)(uintptr_t)addr, 4096, 0);
	MUST(cuMemsetD8Async(addr, 1, 4096, CU_STREAM_LEGACY) == CUDA_SUCCESS);
	return cudasim_violations() == 1 ? 0 : 1;
}

/* Also where the program would not have it so. */
CM_TEST(checker_stops_or_records)
{
	int status = 0;
	pid_t child;

	run("check:record,frames:0", an_early_reuse);
	setenv("CUDASIM", "check:stop", 1);
	child = fork();
	if (child == 0)
		exit(an_early_reuse());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
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

/* A file that a child can open by its path, and that is gone with this process, however it ends. */
static int open_shared(char path[PATH_BYTES])
{
	int fd = memfd_create("sim_plan", 0);

	assert_true(fd >= 0);
	(void)snprintf(path, PATH_BYTES, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}

CM_TEST(calls_after_the_end_are_told_so)
{
	char path[PATH_BYTES], line[64] = "";
	int fd = open_shared(path);

	dead_path = path;
	run("", an_exit);
	assert_true(find_line(path, "", line, sizeof(line)));
	assert_string_equal(line, "4");
	run("teardown:off", an_exit);
	assert_true(find_line(path, "", line, sizeof(line)));
	assert_string_equal(line, "0");
	close(fd);
}

static int some_calls(void)
{
	CUdeviceptr addr;

	MUST(start() == CUDA_SUCCESS);
	for (unsigned i = 0; i < 3; i++)
		MUST(cuMemAlloc(&addr, 5 * MIB) == CUDA_SUCCESS);
	return 0;
}

CM_TEST(a_report_is_left_behind)
{
	char path[PATH_BYTES], line[128];
	int fd = open_shared(path);

	setenv("CUDASIM_REPORT", path, 1);
	run("cuMemAlloc:2us", some_calls);
	unsetenv("CUDASIM_REPORT");
	assert_true(find_line(path, "cuMemAlloc_v2", line, sizeof(line)));
	assert_string_equal(line, "cuMemAlloc_v2 3 6000\n");
	assert_true(find_line(path, "device 0", line, sizeof(line)));
	assert_string_equal(line, "device 0 peak_bytes 18874368 used_bytes 18874368\n");
	close(fd);
}

/* Takes most of the card, says so and waits to be killed, by the system where the other fails. */
static int hold_most(int told)
{
	CUdeviceptr addr;

	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	MUST(start() == CUDA_SUCCESS && cuMemAlloc(&addr, 40 * MIB) == CUDA_SUCCESS);
	MUST(write(told, "", 1) == 1);
	for (;;)
		(void)pause();
}

static int a_shared_card(void)
{
	size_t left, total;
	CUdeviceptr addr;
	int ends[2];
	pid_t other;
	char byte;

	MUST(!pipe(ends));
	other = fork();
	if (other == 0)
		exit(hold_most(ends[1]));
	MUST(read(ends[0], &byte, 1) == 1);
	MUST(start() == CUDA_SUCCESS);
	MUST(cuMemGetInfo(&left, &total) == CUDA_SUCCESS && left == 24 * MIB && total == 64 * MIB);
	MUST(cuMemAlloc(&addr, 40 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuMemAlloc(&addr, 20 * MIB) == CUDA_SUCCESS);
	/* Stopped it keeps what it has, killed it does not. */
	MUST(!kill(other, SIGSTOP) && cuMemAlloc(&addr, 20 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(!kill(other, SIGKILL) && waitpid(other, NULL, 0) == other);
	MUST(cuMemAlloc(&addr, 44 * MIB) == CUDA_SUCCESS);
	MUST(cuMemAlloc(&addr, 2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

CM_TEST(processes_can_share_a_card)
{
	char path[] = "sim_card_XXXXXX", plan[64];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	(void)snprintf(plan, sizeof(plan), "memory:64M,card:%s", path);
	run(plan, a_shared_card);
	unlink(path);
}
