/* SPDX-License-Identifier: MIT */
#include "tests/proof/importer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 8

static int other = -1; /* a socket */
static pid_t child;

static int look(const struct cm_import *import, CUdeviceptr at)
{
	uint32_t word[WORDS_MAX], i;
	CUresult res = cuMemcpyDtoH_v2(word, at, import->words * sizeof(word[0]));

	for (i = 0; res == CUDA_SUCCESS && i < import->words; i++)
		if (word[i] != import->expected)
			return -1;
	return (int)res;
}

static int use(const struct cm_import *import, CUdeviceptr addr)
{
	int res = look(import, addr);

	if (!res)
		res = look(import, addr + import->tail);
	if (!res)
		res = (int)cuMemsetD32_v2(addr, import->written, import->words);
	if (!res)
		res = (int)cuMemsetD32_v2(addr + import->tail, import->written, import->words);
	return res ? res : (int)cuCtxSynchronize();
}

static int serve_one(const struct cm_import *import)
{
	CUdeviceptr addr;
	CUcontext ctx;
	int res, closed;

	res = (int)cuDevicePrimaryCtxRetain(&ctx, import->device);
	if (!res)
		res = (int)cuCtxSetCurrent(ctx);
	if (!res)
		res = (int)cuIpcOpenMemHandle_v2(&addr, import->handle,
						 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (res)
		return res;
	res = use(import, addr);
	closed = (int)cuIpcCloseMemHandle(addr);
	return res ? res : closed;
}

static void serve(int program)
{
	struct cm_import import;
	int res = (int)cuInit(0);

	while (read(program, &import, sizeof(import)) == (ssize_t)sizeof(import)) {
		if (!res)
			res = serve_one(&import);
		if (write(program, &res, sizeof(res)) != (ssize_t)sizeof(res))
			break;
	}
}

bool cm_importer_start(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return false;
	child = fork();
	if (child < 0)
		return false;
	if (!child) {
		(void)close(pair[0]);
		serve(pair[1]);
		exit(0);
	}
	(void)close(pair[1]);
	other = pair[0];
	return true;
}

int cm_importer_ask(const struct cm_import *import)
{
	int res = -1;

	if (write(other, import, sizeof(*import)) != (ssize_t)sizeof(*import) ||
	    read(other, &res, sizeof(res)) != (ssize_t)sizeof(res))
		return -1;
	return res;
}

bool cm_importer_stop(void)
{
	int status = 0;

	if (other < 0)
		return true;
	(void)close(other);
	other = -1;
	return waitpid(child, &status, 0) == child && !status;
}
