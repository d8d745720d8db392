/* SPDX-License-Identifier: MIT */
/*
 * Memory shared between processes: what one writes the other reads at the same place of the same
 * block, block by block, also after blocks have been freed and asked for again.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { BLOCKS = 4, ROUNDS = 5 };

/* Sizes of 2 MiB and more: NVIDIA's guide says that only such are to be shared. */
static size_t words_of(int block)
{
	return 2 * MIB * (size_t)(block + 1) / sizeof(uint32_t);
}

static uint32_t number_of(int round, int block)
{
	return (uint32_t)(1000 * round + block + 1);
}

static void get(int fd, void *to, size_t bytes)
{
	if (read(fd, to, bytes) != (ssize_t)bytes)
		tell_failure("the other process is gone");
}

static void put(int fd, const void *from, size_t bytes)
{
	if (write(fd, from, bytes) != (ssize_t)bytes)
		tell_failure("the other process is gone");
}

/* Reads handles, answers how many words were wrong, and leaves other numbers. */
static int be_child(int in, int out)
{
	int round, block;

	device_open();
	for (round = 0; round < ROUNDS; round++)
		for (block = 0; block < BLOCKS; block++) {
			CUipcMemHandle handle;
			CUdeviceptr at;
			uint64_t wrong;

			get(in, &handle, sizeof(handle));
			CHECK(cuIpcOpenMemHandle(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
			wrong = device_wrong(at, number_of(round, block), words_of(block), NULL);
			device_fill(at, ~number_of(round, block), words_of(block), NULL);
			CHECK(cuCtxSynchronize());
			CHECK(cuIpcCloseMemHandle(at));
			put(out, &wrong, sizeof(wrong));
		}
	return 0;
}

static uint64_t share(CUdeviceptr at, int round, int block, int in, int out)
{
	CUipcMemHandle handle;
	uint64_t wrong;

	device_fill(at, number_of(round, block), words_of(block), NULL);
	CHECK(cuCtxSynchronize());
	CHECK(cuIpcGetMemHandle(&handle, at));
	put(out, &handle, sizeof(handle));
	get(in, &wrong, sizeof(wrong));
	return wrong + device_wrong(at, ~number_of(round, block), words_of(block), NULL);
}

static pid_t start_child(const char *self, int to_child[2], int from_child[2])
{
	char in[16], out[16];
	char *args[] = {(char *)(uintptr_t)self, in, out, NULL};
	pid_t pid;

	if (pipe(to_child) || pipe(from_child))
		tell_failure("no pipe");
	(void)snprintf(in, sizeof(in), "%d", to_child[0]);
	(void)snprintf(out, sizeof(out), "%d", from_child[1]);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ))
		tell_failure("no child");
	(void)close(to_child[0]);
	(void)close(from_child[1]);
	return pid;
}

int main(int argc, char **argv)
{
	int to_child[2], from_child[2], round, block, status = 1;
	CUdeviceptr at[BLOCKS];
	uint64_t wrong = 0;
	pid_t child;

	if (argc == 3)
		return be_child(atoi(argv[1]), atoi(argv[2]));
	child = start_child(argv[0], to_child, from_child);
	device_open();
	for (round = 0; round < ROUNDS; round++) {
		for (block = 0; block < BLOCKS; block++)
			at[block] = device_alloc(words_of(block) * sizeof(uint32_t));
		for (block = 0; block < BLOCKS; block++)
			wrong += share(at[block], round, block, from_child[0], to_child[1]);
		for (block = 0; block < BLOCKS; block++)
			device_free(at[block]);
	}
	(void)waitpid(child, &status, 0);
	printf("blocks: %d\nwrong: %llu\nchild: %d\n", ROUNDS * BLOCKS, (unsigned long long)wrong,
	       status);
	library_leave_figures();
	return wrong || status;
}
