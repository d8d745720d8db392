/* SPDX-License-Identifier: MIT */
/*
 * Memory that goes to another process together with an event, as PyTorch's queues and communication
 * libraries hand it over. The worker is a real second process, forked before CUDA starts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define KIB     UINT64_C(1024)
#define SEGMENT (2 * MIB)

enum { ROUNDS = 6, TENSORS = 16 };

/* A piece of an allocation: the handle is that of the allocation, the offset is told beside it. */
struct parcel {
	CUipcMemHandle memory;
	CUipcEventHandle event; /* the work that writes the piece is before it */
	uint64_t offset;
	uint64_t words;
	uint32_t value;
};

struct worker {
	int socket;
	pid_t pid;
	CUdeviceptr other; /* memory for work that takes long */
};

static void put(int socket, const void *data, size_t bytes)
{
	CM_MUST(write(socket, data, bytes) == (ssize_t)bytes);
}

/* False: the other end is closed. */
static bool get(int socket, void *data, size_t bytes)
{
	ssize_t n = read(socket, data, bytes);

	CM_MUST(!n || n == (ssize_t)bytes);
	return n;
}

static uint32_t fetch(CUdeviceptr addr, CUstream stream)
{
	uint32_t word = 0;

	OK(cuMemcpyDtoHAsync_v2(&word, addr, 4, stream));
	OK(cuStreamSynchronize(stream));
	return word;
}

/* Waits on the device alone, reads both ends, and leaves another value behind the same event. */
static void unpack(const struct parcel *parcel, CUstream stream)
{
	CUdeviceptr base, at;
	CUevent event;

	OK(cuIpcOpenEventHandle(&event, parcel->event));
	OK(cuIpcOpenMemHandle_v2(&base, parcel->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	at = base + parcel->offset;
	OK(cuStreamWaitEvent(stream, event, 0));
	CM_MUST(fetch(at, stream) == parcel->value);
	CM_MUST(fetch(at + 4 * (parcel->words - 1), stream) == parcel->value);
	OK(cuMemsetD32Async(at, parcel->value + 1, parcel->words, stream));
	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
	OK(cuIpcCloseMemHandle(base));
	OK(cuEventDestroy_v2(event));
}

static _Noreturn void work(int socket)
{
	struct parcel parcel;
	CUstream stream;

	cm_open(0);
	stream = cm_new_stream();
	while (get(socket, &parcel, sizeof(parcel))) {
		unpack(&parcel, stream);
		put(socket, "", 1);
	}
	exit(0);
}

static struct worker begin(void)
{
	struct worker worker;
	int ends[2];

	CM_MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	worker.socket = ends[0];
	worker.pid = fork();
	if (!worker.pid) {
		(void)close(ends[0]);
		work(ends[1]);
	}
	(void)close(ends[1]);
	cm_open(0);
	worker.other = cm_get(4 * KIB);
	return worker;
}

static void end(const struct worker *worker)
{
	(void)close(worker->socket);
	cm_wait_for_child(worker->pid);
}

/* Behind work that takes long, so that a worker that waits for nothing reads what was before. */
static struct parcel pack(const struct worker *worker, CUdeviceptr addr, CUdeviceptr base,
			  uint64_t bytes, uint32_t value, CUevent event)
{
	struct parcel parcel = {.offset = addr - base, .words = bytes / 4, .value = value};

	cm_launch_slow(worker->other);
	OK(cuMemsetD32Async(addr, value, parcel.words, NULL));
	OK(cuEventRecord(event, NULL));
	OK(cuIpcGetMemHandle(&parcel.memory, base));
	OK(cuIpcGetEventHandle(&parcel.event, event));
	return parcel;
}

static void hand_over(const struct worker *worker, CUdeviceptr addr, CUdeviceptr base,
		      uint64_t bytes, uint32_t value)
{
	struct parcel parcel;
	CUevent event;
	char done;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	parcel = pack(worker, addr, base, bytes, value, event);
	put(worker->socket, &parcel, sizeof(parcel));
	CM_MUST(get(worker->socket, &done, 1));
	OK(cuStreamWaitEvent(NULL, event, 0));
	CM_MUST(fetch(addr, NULL) == value + 1);
	CM_MUST(fetch(addr + bytes - 4, NULL) == value + 1);
	OK(cuEventDestroy_v2(event));
}

/* Tensors of PyTorch: pieces of its own segments. Whatever was handed over is freed behind it. */
CM_ROLE(tensors)
{
	struct worker worker = begin();
	CUdeviceptr segment;
	uint64_t bytes;
	uint32_t i, j;

	for (i = 0; i < ROUNDS; i++) {
		segment = cm_get(SEGMENT);
		for (j = 0, bytes = 512; j < TENSORS; j++) {
			hand_over(&worker, segment + j * 128 * KIB, segment, bytes, 100 * i + j);
			bytes = bytes == 128 * KIB ? 512 : 2 * bytes;
		}
		OK(cuMemFree_v2(segment));
	}
	end(&worker);
}

/* Buffers of MPI: small blocks of the program, among others that nobody else knows. */
CM_ROLE(buffers)
{
	struct worker worker = begin();
	CUdeviceptr block[TENSORS], base;
	size_t size;
	uint32_t i, j;

	for (i = 0; i < ROUNDS; i++) {
		for (j = 0; j < TENSORS; j++) {
			block[j] = cm_get(512 << (j % 12));
			OK(cuMemsetD32_v2(block[j], 7, 128));
		}
		for (j = 0; j < TENSORS; j += 2) {
			OK(cuMemGetAddressRange_v2(&base, &size, block[j] + 4));
			CM_MUST(base == block[j]);
			hand_over(&worker, block[j], base, 512 << (j % 12), 1000 + 100 * i + j);
		}
		for (j = 0; j < TENSORS; j++) {
			CM_MUST(j % 2 == 0 || cm_read_word(block[j]) == 7);
			OK(cuMemFree_v2(block[j]));
		}
	}
	end(&worker);
}

CM_PLAY_EVERYWHERE(tensors_go_to_a_worker_and_back, "tensors", NULL)
CM_PLAY_EVERYWHERE(tensors_go_to_a_worker_under_12_4, "tensors", "CUDASIM=version:12040")
CM_PLAY_EVERYWHERE(small_buffers_go_to_a_worker_and_back, "buffers", NULL)
CM_PLAY_EVERYWHERE(small_buffers_of_a_rank_go_too, "buffers", "WORLD_SIZE=8")
