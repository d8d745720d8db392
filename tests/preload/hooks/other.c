/* SPDX-License-Identifier: MIT */
/*
 * Another library that stands in front of the driver by exporting dlsym, as vGPU layers do: it
 * counts one function and finds the real dlsym by its version.
 */
#include "tests/preload/hooks/third.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC unsigned int other_calls(void);

typedef void *dlsym_fn(void *handle, const char *name);

static int (*original)(void);
static unsigned int count;

static int count_call(void)
{
	count++;
	return original();
}

unsigned int other_calls(void)
{
	return count;
}

PUBLIC void *dlsym(void *restrict handle, const char *restrict name)
{
	dlsym_fn *real = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", LIBC_VERSION);
	void *function = real(handle, name);

	if (!function || handle == RTLD_NEXT || handle == RTLD_DEFAULT ||
	    strcmp(name, "cuMemAlloc_v2") != 0)
		return function;
	original = (int (*)(void))function;
	return (void *)count_call;
}
