/* SPDX-License-Identifier: MIT */
/*
 * Asks the allocator about itself, and works as well without it:
 *
 *	cc -I/usr/local/cuda/include -o stats stats.c -ldl && cudamemstat run -- ./stats
 *
 * (without an installed cudamem.h also -I../interpose)
 *
 * The driver is opened at run time, so that this builds where there is none; a program that links
 * with the CUDA runtime does without the first half.
 */
#include <cuda.h>
#include <cudamem.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MIB (1024 * 1024ul)

/* dlsym for functions: their addresses are copied, since ISO C does not convert them. */
#define LOOK_UP(handle, name, pointer)                                             \
	((void)memcpy(&(pointer), &(void *){dlsym(handle, name)}, sizeof(void *)), \
	 (pointer) != NULL)

static struct {
	__typeof__(cuInit) *init;
	__typeof__(cuDevicePrimaryCtxRetain) *retain;
	__typeof__(cuCtxSetCurrent) *set_current;
	__typeof__(cuMemAlloc) *alloc;
	__typeof__(cuMemFree) *free;
} cuda;

static struct {
	__typeof__(cudamem_memory_stats) *stats;
	__typeof__(cudamem_memory_allocated) *allocated;
	__typeof__(cudamem_memory_reserved) *reserved;
	__typeof__(cudamem_empty_cache) *empty;
	__typeof__(cudamem_get_memory_info) *info;
} cudamem;

static bool open_cuda(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	return driver && LOOK_UP(driver, "cuInit", cuda.init) &&
	       LOOK_UP(driver, "cuDevicePrimaryCtxRetain", cuda.retain) &&
	       LOOK_UP(driver, "cuCtxSetCurrent", cuda.set_current) &&
	       LOOK_UP(driver, "cuMemAlloc_v2", cuda.alloc) &&
	       LOOK_UP(driver, "cuMemFree_v2", cuda.free) && cuda.init(0) == CUDA_SUCCESS &&
	       cuda.retain(&context, 0) == CUDA_SUCCESS &&
	       cuda.set_current(context) == CUDA_SUCCESS;
}

/* False in a program that was started without the library. */
static bool open_cudamem(void)
{
	return LOOK_UP(RTLD_DEFAULT, "cudamem_memory_stats", cudamem.stats) &&
	       LOOK_UP(RTLD_DEFAULT, "cudamem_memory_allocated", cudamem.allocated) &&
	       LOOK_UP(RTLD_DEFAULT, "cudamem_memory_reserved", cudamem.reserved) &&
	       LOOK_UP(RTLD_DEFAULT, "cudamem_empty_cache", cudamem.empty) &&
	       LOOK_UP(RTLD_DEFAULT, "cudamem_get_memory_info", cudamem.info);
}

static void print_stat(void *data, const char *key, int64_t value)
{
	(void)data;
	if (value)
		printf("  %-45s %12lld\n", key, (long long)value);
}

static void print_memory(const char *when)
{
	printf("%-22s allocated %5.1f MiB, reserved %5.1f MiB\n", when,
	       (double)cudamem.allocated(CUDAMEM_CURRENT_DEVICE) / MIB,
	       (double)cudamem.reserved(CUDAMEM_CURRENT_DEVICE) / MIB);
}

int main(void)
{
	CUdeviceptr block[2];
	uint64_t free_bytes, total_bytes;
	size_t entries;

	if (!open_cuda()) {
		fprintf(stderr, "stats: no CUDA driver, or no device\n");
		return 1;
	}
	if (!open_cudamem()) {
		printf("libcudamem.so is not loaded; try: cudamemstat run -- ./stats\n");
		return 0;
	}
	if (cuda.alloc(&block[0], 48 * MIB) || cuda.alloc(&block[1], 3 * MIB)) {
		fprintf(stderr, "stats: no memory on the device\n");
		return 1;
	}
	print_memory("with two blocks");
	(void)cuda.free(block[0]);
	print_memory("one block freed");
	cudamem.empty();
	print_memory("cache emptied");
	if (!cudamem.info(CUDAMEM_CURRENT_DEVICE, &free_bytes, &total_bytes))
		printf("%-22s %.1f of %.1f MiB free\n", "device", (double)free_bytes / MIB,
		       (double)total_bytes / MIB);
	entries = cudamem.stats(CUDAMEM_CURRENT_DEVICE, print_stat, NULL);
	printf("%zu statistics, zeros left out\n", entries);
	return 0;
}
