/* SPDX-License-Identifier: MIT */
#include "allocators.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "device.h"
#include "torch_pages.h"
#include "torch_rules.h"

/*
 * A heap of host memory is asked for as many bytes as the request has units of 512: it then works
 * on sizes that it keeps to itself, as a cache of device memory does, and not with the kernel.
 */
#define UNIT_BYTES 512

static char nowhere[UNIT_BYTES];

static void *null_alloc(size_t bytes, unsigned stream)
{
	(void)bytes;
	(void)stream;
	return nowhere;
}

static void null_free(void *block)
{
	(void)block;
}

static void *malloc_alloc(size_t bytes, unsigned stream)
{
	(void)stream;
	return malloc(bytes);
}

static void *units_alloc(size_t bytes, unsigned stream)
{
	(void)stream;
	return malloc((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
}

static void *driver_alloc(size_t bytes, unsigned stream)
{
	CUdeviceptr addr;

	(void)stream;
	return cuMemAlloc(&addr, bytes) == CUDA_SUCCESS ? (void *)(uintptr_t)addr : NULL;
}

static void driver_free(void *block)
{
	(void)cuMemFree((CUdeviceptr)(uintptr_t)block);
}

/* CUB is C++, and comes from the toolkit: a module of its own, built where both are there. */
static struct {
	int (*open)(const char *config);
	void *(*alloc)(size_t bytes, unsigned stream);
	void (*free)(void *block);
	uint64_t (*calls)(void);
} cub;

static int find(void *module, const char *name, void *ret_function)
{
	void *found = dlsym(module, name);

	if (!found) {
		fprintf(stderr, "bench: %s\n", dlerror());
		return -1;
	}
	memcpy(ret_function, &found, sizeof(found));
	return 0;
}

static int open_cub(const char *config)
{
	void *module;

	if (device_open())
		return -1;
	module = dlopen(BENCH_CUB, RTLD_NOW);
	if (!module) {
		fprintf(stderr, "bench: %s\n", dlerror());
		return -1;
	}
	if (find(module, "bench_cub_open", &cub.open) ||
	    find(module, "bench_cub_alloc", &cub.alloc) ||
	    find(module, "bench_cub_free", &cub.free) ||
	    find(module, "bench_cub_calls", &cub.calls))
		return -1;
	return cub.open(config);
}

static int cub_default_open(void)
{
	return open_cub("default");
}

static int cub_pow2_open(void)
{
	return open_cub("2,9,38,unlimited");
}

static int cub_8x_open(void)
{
	return open_cub("8,3,12,unlimited");
}

static void *cub_alloc(size_t bytes, unsigned stream)
{
	return cub.alloc(bytes, stream);
}

static void cub_free(void *block)
{
	cub.free(block);
}

static uint64_t cub_calls(void)
{
	return cub.calls();
}

/* malloc is glibc's, or that of whatever library is preloaded. */
static const struct allocator allocators[] = {
	{"null", "nothing: the cost of the harness", NULL, null_alloc, null_free, NULL},
	{"driver", "cuMemAlloc and cuMemFree", device_open, driver_alloc, driver_free, NULL},
	{"malloc", "malloc of the true size", NULL, malloc_alloc, free, NULL},
	{"units", "malloc of size / 512", NULL, units_alloc, free, NULL},
	{"bare", "the library's free blocks and page map behind a mutex, no more", bare_open,
	 bare_alloc, bare_free, NULL},
	{"cub", "CUB's caching allocator as it comes", cub_default_open, cub_alloc, cub_free,
	 cub_calls},
	{"cub-pow2", "CUB with bins of powers of two and no limit", cub_pow2_open, cub_alloc,
	 cub_free, cub_calls},
	{"cub-8x", "CUB with bins of powers of eight and no limit", cub_8x_open, cub_alloc,
	 cub_free, cub_calls},
	{"torch", "PyTorch's rules, for the memory they reserve", device_open, torch_rules_alloc,
	 torch_rules_free, NULL},
	{"torch-pages", "the same with expandable segments", device_open, torch_pages_alloc,
	 torch_pages_free, NULL},
};

const struct allocator *allocator_at(size_t i)
{
	return i < sizeof(allocators) / sizeof(allocators[0]) ? &allocators[i] : NULL;
}

const struct allocator *allocator_find(const char *name)
{
	size_t i;

	for (i = 0; allocator_at(i); i++)
		if (!strcmp(allocator_at(i)->name, name))
			return allocator_at(i);
	return NULL;
}
