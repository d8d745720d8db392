/* SPDX-License-Identifier: MIT */
/*
 * A library that hooks the driver by writing a jump over the beginning of its functions, as UCX
 * does for its cache of what kind of memory an address is: it sees every call that reaches the
 * driver, from wherever. For x86-64, and one thread: to go on, it takes the jump away for the time
 * of the call.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PUBLIC __attribute__((visibility("default")))

extern unsigned patcher_allocs, patcher_frees;
PUBLIC unsigned patcher_allocs;
PUBLIC unsigned patcher_frees;
PUBLIC int patcher_start(void *driver);

struct patch {
	unsigned char *function;
	unsigned char kept[14];
	unsigned char jump[14]; /* jmp *0(%rip), and where to */
};

static struct patch alloc_patch, free_patch;

static void write_code(unsigned char *at, const unsigned char *code, size_t bytes)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;

	(void)mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(at, code, bytes);
	(void)mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}

static void apply(const struct patch *patch)
{
	write_code(patch->function, patch->jump, sizeof(patch->jump));
}

static void take_away(const struct patch *patch)
{
	write_code(patch->function, patch->kept, sizeof(patch->kept));
}

static CUresult hook_alloc(CUdeviceptr *addr, size_t bytes)
{
	CUresult res;

	patcher_allocs++;
	take_away(&alloc_patch);
	res = ((__typeof__(cuMemAlloc_v2) *)alloc_patch.function)(addr, bytes);
	apply(&alloc_patch);
	return res;
}

static CUresult hook_free(CUdeviceptr addr)
{
	CUresult res;

	patcher_frees++;
	take_away(&free_patch);
	res = ((__typeof__(cuMemFree_v2) *)free_patch.function)(addr);
	apply(&free_patch);
	return res;
}

/* The driver's own address: dlsym may give that of whoever stands in front of it. */
static int make(struct patch *patch, void *driver, const char *name, void *hook)
{
	static const unsigned char opcode[6] = {0xff, 0x25};
	void *(*real_dlsym)(void *, const char *) = (__typeof__(real_dlsym))dlvsym(
		RTLD_NEXT, "dlsym", "GLIBC_2.2.5");

	patch->function = real_dlsym ? real_dlsym(driver, name) : NULL;
	if (!patch->function)
		return 0;
	memcpy(patch->kept, patch->function, sizeof(patch->kept));
	memcpy(patch->jump, opcode, sizeof(opcode));
	memcpy(patch->jump + sizeof(opcode), &hook, sizeof(hook));
	apply(patch);
	return 1;
}

int patcher_start(void *driver)
{
	return make(&alloc_patch, driver, "cuMemAlloc_v2", (void *)hook_alloc) &&
	       make(&free_patch, driver, "cuMemFree_v2", (void *)hook_free);
}
