/* SPDX-License-Identifier: MIT */
/*
 * Programs of the driver API in small, after what public samples and test programs do with memory:
 * each checks its own results, and gets the same ones without the library and in each of its modes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static void launch(CUfunction function, CUstream stream, void **params)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static const char vector_add[] = "cudasim-module\n"
				 "kernel add\n"
				 " params ptr ptr ptr u64\n"
				 " reads p0 p3*4\n reads p1 p3*4\n writes p2 p3*4\n"
				 " do add p2 p0 p1 p3\n"
				 "end\n";

#define COUNT UINT64_C(50000)

static void fill(float *numbers, float factor)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		numbers[i] = factor * (float)i;
}

static void must_be_sum(const float *sum, float factor)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		CM_MUST(sum[i] == factor * (float)i);
}

/* Buffers taken and given back around each step, as old codes do in their inner loops. */
CM_ROLE(vector_add)
{
	float *a = malloc(COUNT * 4), *b = malloc(COUNT * 4), *c = malloc(COUNT * 4);
	CUdeviceptr da, db, dc;
	uint64_t n = COUNT;
	void *params[] = {&da, &db, &dc, &n};
	CUfunction add;
	int i;

	CM_MUST(a && b && c);
	cm_open(0);
	add = cm_load(vector_add, "add");
	for (i = 1; i < 20; i++) {
		fill(a, 1);
		fill(b, (float)i);
		da = cm_get(COUNT * 4);
		db = cm_get(COUNT * 4);
		dc = cm_get(COUNT * 4);
		OK(cuMemcpyHtoD_v2(da, a, COUNT * 4));
		OK(cuMemcpyHtoD_v2(db, b, COUNT * 4));
		launch(add, NULL, params);
		OK(cuMemcpyDtoH_v2(c, dc, COUNT * 4));
		must_be_sum(c, (float)(i + 1));
		OK(cuMemFree_v2(da));
		OK(cuMemFree_v2(db));
		OK(cuMemFree_v2(dc));
	}
}

/* A context that several threads push and pop in turn, each with memory of its own in it. */

struct migrant {
	pthread_mutex_t lock;
	CUcontext ctx;
	CUfunction add;
};

static void *work_in_turn(void *arg)
{
	struct migrant *migrant = arg;
	CUdeviceptr da, db, dc;
	uint64_t n = COUNT;
	void *params[] = {&da, &db, &dc, &n};
	float *numbers = malloc(COUNT * 4);
	CUcontext popped;
	int i;

	CM_MUST(numbers);
	for (i = 0; i < 20; i++) {
		(void)pthread_mutex_lock(&migrant->lock);
		OK(cuCtxPushCurrent_v2(migrant->ctx));
		fill(numbers, 2);
		da = cm_get(COUNT * 4);
		db = cm_get(COUNT * 4);
		dc = cm_get(COUNT * 4);
		OK(cuMemcpyHtoD_v2(da, numbers, COUNT * 4));
		OK(cuMemcpyHtoD_v2(db, numbers, COUNT * 4));
		launch(migrant->add, NULL, params);
		OK(cuMemcpyDtoH_v2(numbers, dc, COUNT * 4));
		must_be_sum(numbers, 4);
		OK(cuMemFree_v2(da));
		OK(cuMemFree_v2(db));
		OK(cuMemFree_v2(dc));
		OK(cuCtxPopCurrent_v2(&popped));
		CM_MUST(popped == migrant->ctx);
		(void)pthread_mutex_unlock(&migrant->lock);
	}
	free(numbers);
	return NULL;
}

CM_ROLE(migration)
{
	struct migrant migrant[3];
	pthread_t thread[9];
	CUcontext popped;
	int i;

	OK(cuInit(0));
	for (i = 0; i < 3; i++) {
		CM_MUST(!pthread_mutex_init(&migrant[i].lock, NULL));
		OK(cuCtxCreate_v2(&migrant[i].ctx, 0, 0));
		migrant[i].add = cm_load(vector_add, "add");
		OK(cuCtxPopCurrent_v2(&popped));
	}
	for (i = 0; i < 9; i++)
		CM_MUST(!pthread_create(&thread[i], NULL, work_in_turn, &migrant[i % 3]));
	for (i = 0; i < 9; i++)
		CM_MUST(!pthread_join(thread[i], NULL));
	for (i = 0; i < 3; i++)
		OK(cuCtxDestroy_v2(migrant[i].ctx));
}

/* Memory mapped by hand beside memory that is not. */
CM_ROLE(mapped)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr mapped, plain;
	uint32_t word = 0;
	size_t grain;
	int i;

	cm_open(0);
	OK(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	for (i = 0; i < 10; i++) {
		OK(cuMemCreate(&handle, 2 * grain, &prop, 0));
		OK(cuMemAddressReserve(&mapped, 2 * grain, 0, 0, 0));
		OK(cuMemMap(mapped, 2 * grain, 0, handle, 0));
		OK(cuMemRelease(handle));
		OK(cuMemSetAccess(mapped, 2 * grain, &access, 1));
		plain = cm_get(2 * grain);
		OK(cuMemsetD32_v2(plain, (uint32_t)i, 2 * grain / 4));
		OK(cuMemcpyDtoD_v2(mapped, plain, 2 * grain));
		OK(cuMemcpyDtoH_v2(&word, mapped + 2 * grain - 4, 4));
		CM_MUST(word == (uint32_t)i);
		OK(cuMemFree_v2(plain));
		OK(cuMemUnmap(mapped, 2 * grain));
		OK(cuMemAddressFree(mapped, 2 * grain));
	}
}

/* Mapped memory goes to another process by a file. */

static void send_file(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = {0}, byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
				   .cmsg_type = SCM_RIGHTS,
				   .cmsg_len = CMSG_LEN(sizeof(fd))};
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CM_MUST(sendmsg(socket, &message, 0) == 1);
}

static int receive_file(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	int fd;

	CM_MUST(recvmsg(socket, &message, 0) == 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr mapped;

	OK(cuMemAddressReserve(&mapped, bytes, 0, 0, 0));
	OK(cuMemMap(mapped, bytes, 0, handle, 0));
	OK(cuMemSetAccess(mapped, bytes, &access, 1));
	return mapped;
}

static _Noreturn void read_mapped(int socket)
{
	CUmemGenericAllocationHandle handle;
	uint32_t word = 0;
	int fd = receive_file(socket);

	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(cuMemcpyDtoH_v2(&word, map(handle, 2 * MIB) + MIB, 4));
	CM_MUST(word == 4711);
	exit(0);
}

CM_ROLE(mapped_by_two)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemGenericAllocationHandle handle;
	int ends[2], fd;
	pid_t pid;

	CM_MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid = fork();
	if (!pid)
		read_mapped(ends[1]);
	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	OK(cuMemsetD32_v2(map(handle, 2 * MIB), 4711, 2 * MIB / 4));
	OK(cuCtxSynchronize());
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	send_file(ends[0], fd);
	cm_wait_for_child(pid);
}

/* Nine tenths of what is said to be free, one process a device. */
static void burn(int device)
{
	size_t free_bytes, total, bytes, half;
	CUdeviceptr first, second;
	uint32_t word = 0;
	int i;

	cm_open(device);
	for (i = 0; i < 2; i++) {
		OK(cuMemGetInfo_v2(&free_bytes, &total));
		CM_MUST(free_bytes <= total);
		bytes = free_bytes / 10 * 9;
		half = bytes / 2 & ~(size_t)511;
		first = cm_get(half);
		second = cm_get(half);
		OK(cuMemsetD32_v2(first, 7, half / 4));
		OK(cuMemcpyDtoD_v2(second, first, half));
		OK(cuMemcpyDtoH_v2(&word, second + half - 4, 4));
		CM_MUST(word == 7);
		OK(cuMemFree_v2(first));
		OK(cuMemFree_v2(second));
	}
}

CM_ROLE(burn)
{
	pid_t pid[2];
	int i;

	for (i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			burn(i);
			exit(0);
		}
	}
	for (i = 0; i < 2; i++)
		cm_wait_for_child(pid[i]);
}

/* A pattern in almost all memory, block by block: two that overlap would spoil each other. */
CM_ROLE(memory_test)
{
	enum { BLOCKS = 400 };
	static CUdeviceptr block[BLOCKS];
	static size_t bytes[BLOCKS];
	size_t free_bytes, total;
	uint32_t n = 0, i, words[2], round;

	cm_open(0);
	srand(1);
	for (round = 0; round < 3; round++) {
		for (n = 0; n < BLOCKS; n++) {
			OK(cuMemGetInfo_v2(&free_bytes, &total));
			bytes[n] = 4 * (size_t)(rand() % 200000 + 2);
			if (free_bytes < total / 20 ||
			    cuMemAlloc_v2(&block[n], bytes[n]) != CUDA_SUCCESS)
				break;
			OK(cuMemsetD32_v2(block[n], n * 3 + round, bytes[n] / 4));
		}
		CM_MUST(n > 40);
		for (i = 0; i < n; i++) {
			OK(cuMemcpyDtoH_v2(&words[0], block[i], 4));
			OK(cuMemcpyDtoH_v2(&words[1], block[i] + bytes[i] - 4, 4));
			CM_MUST(words[0] == i * 3 + round && words[1] == words[0]);
			/* Every other goes on with what a neighbour left. */
			if (i % 2)
				OK(cuMemFree_v2(block[i]));
		}
		for (i = 0; i < n; i += 2)
			OK(cuMemFree_v2(block[i]));
	}
}

/* Copies between pinned and device buffers on two streams, all buffers made anew for each test. */
CM_ROLE(bandwidth)
{
	CUstream up, down;
	CUdeviceptr device;
	uint32_t *in, *out;
	CUevent done;
	uint32_t i;

	cm_open(0);
	OK(cuStreamCreate(&up, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&down, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	for (i = 0; i < 20; i++) {
		OK(cuMemHostAlloc((void **)&in, 4 * MIB, 0));
		OK(cuMemAllocHost_v2((void **)&out, 4 * MIB));
		device = cm_get(4 * MIB);
		in[MIB - 1] = i + 1;
		OK(cuMemcpyHtoDAsync_v2(device, in, 4 * MIB, up));
		OK(cuEventRecord(done, up));
		OK(cuStreamWaitEvent(down, done, 0));
		OK(cuMemcpyDtoHAsync_v2(out, device, 4 * MIB, down));
		OK(cuStreamSynchronize(down));
		CM_MUST(out[MIB - 1] == i + 1);
		OK(cuMemFree_v2(device));
		OK(cuMemFreeHost(in));
		OK(cuMemFreeHost(out));
	}
}

CM_PLAY_EVERYWHERE(buffers_in_a_loop_give_the_same_sums, "vector_add", NULL)
CM_PLAY_EVERYWHERE(contexts_that_wander_between_threads_work, "migration", NULL)
CM_PLAY_EVERYWHERE(memory_mapped_by_hand_works_beside, "mapped", NULL)
CM_PLAY_EVERYWHERE(mapped_memory_goes_to_another_process, "mapped_by_two", NULL)
CM_PLAY_EVERYWHERE(nine_tenths_of_the_free_memory_can_be_had, "burn",
		   "CUDASIM=devices:2,memory:48M")
CM_PLAY_EVERYWHERE(patterns_stay_in_almost_all_memory, "memory_test", "CUDASIM=memory:32M")
CM_PLAY_EVERYWHERE(copies_both_ways_give_the_same_bytes, "bandwidth", NULL)
