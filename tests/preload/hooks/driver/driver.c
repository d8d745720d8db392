/* SPDX-License-Identifier: MIT */
/*
 * The resolver of the driver of names, for the documented rules: the newest ABI that is not newer
 * than the version asked for, the per-thread form where there is one and it is asked for. It is of
 * a version that our list does not know and has one ABI from there.
 */
#include "interpose/symbols/hooks.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION  (CM_HOOKS_VERSION + 1000)
#define FUTURE_VERSION  (CM_HOOKS_VERSION + 500)
#define FUTURE_FUNCTION 999

#define PUBLIC __attribute__((visibility("default")))

#ifdef APART
#define CM_HOOK(symbol, base, version, flags) __typeof__(symbol) twin_##symbol;
#define CM_USE(symbol, base, version, flags)  __typeof__(symbol) twin_##symbol;
#include "interpose/symbols/hooks.def"
#define ADDRESS(symbol)          twin_##symbol
#define twin_cuGetProcAddress    cuGetProcAddress
#define twin_cuGetProcAddress_v2 cuGetProcAddress_v2
#else
#define ADDRESS(symbol) symbol
#endif

struct function {
	const char *base;
	int version;
	unsigned int flags;
	void *address;
};

static int answer_future(void)
{
	return FUTURE_FUNCTION;
}

static const struct function functions[] = {
#define CM_HOOK(symbol, base, version, flags)  {base, version, flags, (void *)ADDRESS(symbol)},
#define CM_USE(symbol, base, version, flags)   {base, version, flags, (void *)ADDRESS(symbol)},
#define CM_KNOWN(symbol, base, version, flags) {base, version, flags, (void *)symbol},
#define CM_ALIAS(symbol, base, version, flags) {base, version, flags, (void *)ADDRESS(symbol)},
#include "interpose/symbols/hooks.def"
	{"cuMemAlloc", FUTURE_VERSION, 0, (void *)answer_future},
};

static void *find(const char *base, int version, bool per_thread)
{
	const struct function *best = NULL;
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const struct function *function = &functions[i];

		if (strcmp(function->base, base) == 0 && function->version <= version &&
		    !(function->flags & CM_HOOK_PTSZ) != per_thread &&
		    (!best || best->version < function->version))
			best = function;
	}
	if (!best && per_thread)
		return find(base, version, false);
	return best ? best->address : NULL;
}

PUBLIC CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	if (!symbol || !pfn || cudaVersion > DRIVER_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = find(symbol, cudaVersion, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	if (symbolStatus)
		*symbolStatus = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS
				     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

PUBLIC CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult res = cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL);

	return res == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : res;
}

/* Of driver.S: those of the last call. */
extern const uintptr_t arguments[] __attribute__((visibility("hidden")));

PUBLIC const uintptr_t *driver_arguments(void);

const uintptr_t *driver_arguments(void)
{
	return arguments;
}

#ifdef FORWARD
int driver_forward(const char *symbol) __attribute__((visibility("hidden")));

/* As a driver that only forwards to another one. */
int driver_forward(const char *symbol)
{
	void *behind = dlopen(getenv("HOOKS_BEHIND"), RTLD_NOW);
	int (*function)(void) = (int (*)(void))dlsym(behind, symbol);

	return function();
}
#endif
