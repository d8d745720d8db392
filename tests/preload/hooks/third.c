/* SPDX-License-Identifier: MIT */
/*
 * A third party's library that looks for the functions behind its own, as allocators and profilers
 * do. Built without and with optimisation, and once more as what lies behind.
 */
#include "tests/preload/hooks/third.h"

#include <dlfcn.h>
#include <stddef.h>

#ifdef BEHIND
int third_is_behind(void)
{
	return THIRD_BEHIND;
}

int third_allocate(void)
{
	return THIRD_BEHIND;
}

int cuThirdAllocate(void)
{
	return THIRD_BEHIND;
}
#else
static int call_next(const char *name)
{
	int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, name);

	return next ? next() : THIRD_NOTHING;
}

int third_allocate(void)
{
	return call_next("third_allocate");
}

/* A name that begins as a driver's. */
int cuThirdAllocate(void)
{
	return call_next("cuThirdAllocate");
}

int third_call_next_driver(void)
{
	return call_next("cuMemAlloc_v2");
}

#ifdef THIRD_COPY
int third_local_only(void)
{
	return THIRD_PRIVATE;
}
#endif

/* Kept from being jumps, which would make whoever calls us the caller of dlsym. */
void *third_find_default(const char *name)
{
	void *volatile found = dlsym(RTLD_DEFAULT, name);

	return found;
}

void *third_find_next_version(const char *name, const char *version)
{
	void *volatile found = dlvsym(RTLD_NEXT, name, version);

	return found;
}
#endif
