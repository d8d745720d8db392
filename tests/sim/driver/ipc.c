/* SPDX-License-Identifier: MIT */
/*
 * Memory handles for other processes. As with the real driver the handle of an address is that of
 * the whole allocation, wherever the address lies in it, and it can only be opened elsewhere.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "memory.h"
#include "shared.h"

_Static_assert(sizeof(struct sim_shared) <= CU_IPC_HANDLE_SIZE, "a handle holds a description");

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct sim_mem *mem = sim_mem_find(dptr);
	struct sim_shared shared;

	if (!pHandle || !mem || mem->kind != SIM_MEM_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_shared_describe(&shared, mem->device,
			    mem->base - (uint64_t)(uintptr_t)mem->device->vram.base, mem->bytes);
	shared.id = mem->id;
	mem->exported = true;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle->reserved, &shared, sizeof(shared));
	return CUDA_SUCCESS;
}

/* Opened memory: the pages around the allocation, which need not begin on one. */
struct window {
	char *pages;
	size_t bytes;
	unsigned opened; /* times */
	struct sim_shared shared;
	struct sim_mem *mem;
	struct window *next;
};

static struct window *windows;

static void close_window(struct window *window)
{
	struct window **link = &windows;

	while (*link != window)
		link = &(*link)->next;
	*link = window->next;
	munmap(window->pages, window->bytes);
	free(window);
}

static void dispose(struct sim_mem *mem)
{
	close_window(mem->extra);
}

static struct window *find_window(const struct sim_shared *shared)
{
	struct window *window = windows;

	while (window && memcmp(&window->shared, shared, sizeof(*shared)) != 0)
		window = window->next;
	return window;
}

static struct window *map_window(const struct sim_shared *shared)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t lead = shared->offset % page;
	struct window *window = calloc(1, sizeof(*window));
	int fd = window ? sim_shared_open(shared) : -1;

	if (fd < 0)
		goto err_window;
	window->bytes = lead + shared->bytes;
	window->pages = mmap(NULL, window->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     (off_t)(shared->offset - lead));
	close(fd);
	if (window->pages == MAP_FAILED)
		goto err_window;
	window->shared = *shared;
	window->next = windows;
	windows = window;
	return window;

err_window:
	free(window);
	return NULL;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct sim_shared shared;
	struct window *window;

	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&shared, handle.reserved, sizeof(shared));
	if (shared.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (shared.device == SIM_SHARED_NO_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	window = find_window(&shared);
	if (!window) {
		window = map_window(&shared);
		if (!window)
			return CUDA_ERROR_INVALID_VALUE;
		window->mem = sim_mem_add(sim_ctx_current(), SIM_MEM_IMPORTED,
					  (uint64_t)(uintptr_t)window->pages + window->bytes -
						  shared.bytes,
					  shared.bytes);
		if (!window->mem) {
			close_window(window);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		window->mem->extra = window;
		window->mem->dispose = dispose;
	}
	window->opened++;
	*pdptr = window->mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return sim_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

static struct window *find_opened(CUdeviceptr dptr)
{
	struct sim_mem *mem = sim_mem_find_base(dptr);

	return mem && mem->kind == SIM_MEM_IMPORTED ? mem->extra : NULL;
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct window *window = find_opened(dptr);

	if (window)
		sim_device_synchronize(window->mem->device);
	/* Another thread may have been quicker. */
	window = find_opened(dptr);
	if (!window)
		return CUDA_ERROR_INVALID_VALUE;
	if (--window->opened == 0)
		sim_mem_free(window->mem);
	return CUDA_SUCCESS;
}

/* A descriptor of a part of an allocation, as for a dma-buf: whole pages of the host. */
CUresult sim_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
					   CUmemRangeHandleType handleType,
					   unsigned long long flags)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct sim_mem *mem = sim_mem_find(dptr);
	struct sim_shared shared;
	int fd;

	if (!handle || !mem || (mem->kind != SIM_MEM_DEVICE && mem->kind != SIM_MEM_HOST) ||
	    flags || dptr % page || size % page ||
	    handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    !sim_mem_is_live(dptr, size, false))
		return CUDA_ERROR_INVALID_VALUE;
	if (mem->kind == SIM_MEM_HOST) {
		fd = memfd_create("cudasim", MFD_CLOEXEC); /* nobody here reads it */
	} else {
		sim_shared_describe(&shared, mem->device,
				    dptr - (uint64_t)(uintptr_t)mem->device->vram.base, size);
		fd = sim_shared_write(&shared);
	}
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	mem->exported = true;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}
