/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { SLOTS = sizeof(struct rt_driver) / sizeof(void *) };

/* One look-up: where the answer goes, what is asked, what dlsym is asked where that fails. */
struct request {
	size_t slot;
	const char *base;
	int version;
	const char *exported;
};

static const struct request plain_requests[] = {
#define DRIVER(name, base, version) {offsetof(struct rt_driver, name), #base, version, #name},

#define DRIVER_PAIR(name, base, version, suffix, ptsz_version) DRIVER(name, base, version)
#include "driver.def"
#undef DRIVER
#undef DRIVER_PAIR
};

static const struct request ptsz_requests[] = {
#define DRIVER(name, base, version)
#define DRIVER_PAIR(name, base, version, suffix, ptsz_version) \
	{offsetof(struct rt_driver, name), #base, ptsz_version, #name #suffix},
#include "driver.def"
#undef DRIVER
#undef DRIVER_PAIR
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t bound;
static int version;
static struct rt_driver plain;
static struct rt_driver ptsz;

typedef CUresult resolver(const char *symbol, void **pfn, int driver_version, cuuint64_t flags,
			  CUdriverProcAddressQueryResult *status);

static void set(struct rt_driver *table, size_t slot, void *function)
{
	memcpy((char *)table + slot, &function, sizeof(function));
}

/* The answers by cuGetProcAddress, or by dlsym where the driver has none. */
static void *look_up(void *library, resolver *resolve, const struct request *request,
		     cuuint64_t flags)
{
	void *function = NULL;

	if (!resolve)
		return dlsym(library, request->exported);
	if (resolve(request->base, &function, request->version, flags, NULL) != CUDA_SUCCESS)
		return NULL;
	return function;
}

static void fill(void *library, resolver *resolve)
{
	size_t count = sizeof(plain_requests) / sizeof(plain_requests[0]);

	for (size_t i = 0; i < count; i++)
		set(&plain, plain_requests[i].slot,
		    look_up(library, resolve, &plain_requests[i], CU_GET_PROC_ADDRESS_DEFAULT));
	ptsz = plain;
	count = sizeof(ptsz_requests) / sizeof(ptsz_requests[0]);
	for (size_t i = 0; i < count; i++) {
		void *function = look_up(library, resolve, &ptsz_requests[i],
					 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);

		if (function)
			set(&ptsz, ptsz_requests[i].slot, function);
	}
}

/*
 * The real runtime first tries the resolver with an empty name, which fails, then asks it for
 * itself, in the old form and the new, and goes on with the answer.
 */
static resolver *find_resolver(void *library)
{
	resolver *first;
	void *function = dlsym(library, "cuGetProcAddress_v2");
	void *old;

	if (!function)
		return NULL;
	memcpy(&first, &function, sizeof(first));
	(void)first("", &function, 0, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
	(void)first("cuGetProcAddress", &old, 11030, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
	function = NULL;
	if (first("cuGetProcAddress", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, NULL) ||
	    !function)
		return first;
	memcpy(&first, &function, sizeof(first));
	return first;
}

static void bind_once(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	bound = cudaErrorInsufficientDriver;
	if (!library)
		return;
	fill(library, find_resolver(library));
	if (plain.cuDriverGetVersion)
		(void)plain.cuDriverGetVersion(&version);
	if (version >= CUDART_VERSION / 1000 * 1000)
		bound = cudaSuccess;
}

cudaError_t rt_driver_bind(void)
{
	pthread_once(&once, bind_once);
	return bound;
}

int rt_driver_version(void)
{
	return version;
}

const struct rt_driver *rt_driver_table(bool per_thread)
{
	return per_thread ? &ptsz : &plain;
}
