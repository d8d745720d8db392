/* SPDX-License-Identifier: MIT */
/*
 * The whole library before the simulated driver: a call of the program is counted once, whichever
 * entry point it came by, and what one entry point gave another takes back. Argument: a copy behind
 * it.
 */
#include "tests/preload/hooks/check.h"

#include "interpose/cudamem.h"

enum { BYTES = 1 << 20, ENTRIES = 5 };

typedef __typeof__(cuMemAlloc_v2) alloc_fn;
typedef __typeof__(cuMemFree_v2) free_fn;
typedef __typeof__(cuGetProcAddress) old_resolver_fn;
typedef __typeof__(cuGetProcAddress_v2) resolver_fn;

struct entry {
	const char *name;
	alloc_fn *alloc;
	free_fn *free;
};

struct wanted {
	const char *key;
	int64_t value;
};

static void take(void *data, const char *key, int64_t value)
{
	struct wanted *wanted = data;

	if (strcmp(key, wanted->key) == 0)
		wanted->value = value;
}

static int64_t statistic(const char *key)
{
	__typeof__(cudamem_memory_stats) *stats = (__typeof__(stats))dlsym(RTLD_DEFAULT,
									   "cudamem_memory_stats");
	struct wanted wanted = {key, -1};

	(void)stats(0, take, &wanted);
	return wanted.value;
}

static void check_pair(const struct entry *alloc, const struct entry *release)
{
	int64_t allocated = statistic("allocation.all.allocated");
	int64_t freed = statistic("allocation.all.freed");
	CUdeviceptr address = 0;

	if (alloc->alloc(&address, BYTES) != CUDA_SUCCESS ||
	    statistic("allocation.all.allocated") != allocated + 1 ||
	    release->free(address) != CUDA_SUCCESS ||
	    statistic("allocation.all.freed") != freed + 1 ||
	    statistic("allocation.all.current") != 0) {
		fprintf(stderr, "by %s, and back by %s: not once\n", alloc->name, release->name);
		check_failed = 1;
	}
}

static void *by_resolver(resolver_fn *resolver, const char *base)
{
	void *function = NULL;

	check(resolver(base, &function, CM_HOOKS_VERSION, 0, NULL) == CUDA_SUCCESS);
	return function;
}

static void *by_old_resolver(old_resolver_fn *resolver, const char *base)
{
	void *function = NULL;

	check(resolver(base, &function, 11030, 0) == CUDA_SUCCESS);
	return function;
}

static void open_entries(struct entry *entries)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	resolver_fn *resolver = (resolver_fn *)dlsym(driver, "cuGetProcAddress_v2");
	resolver_fn *again = (resolver_fn *)by_resolver(resolver, "cuGetProcAddress");
	old_resolver_fn *old = (old_resolver_fn *)dlsym(driver, "cuGetProcAddress");

	entries[0] = (struct entry){"symbol", cuMemAlloc_v2, cuMemFree_v2};
	entries[1] = (struct entry){"dlsym", (alloc_fn *)dlsym(driver, "cuMemAlloc_v2"),
				    (free_fn *)dlsym(driver, "cuMemFree_v2")};
	entries[2] = (struct entry){"cuGetProcAddress_v2",
				    (alloc_fn *)by_resolver(resolver, "cuMemAlloc"),
				    (free_fn *)by_resolver(resolver, "cuMemFree")};
	entries[3] = (struct entry){"its own cuGetProcAddress",
				    (alloc_fn *)by_resolver(again, "cuMemAlloc"),
				    (free_fn *)by_resolver(again, "cuMemFree")};
	entries[4] = (struct entry){"the old cuGetProcAddress",
				    (alloc_fn *)by_old_resolver(old, "cuMemAlloc"),
				    (free_fn *)by_old_resolver(old, "cuMemFree")};
}

/* A copy behind the one that serves: what is asked of it by its handle is the driver's. */
static void check_behind(const char *path)
{
	void *copy = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	const struct entry entry = {"a copy behind", (alloc_fn *)dlsym(copy, "cuMemAlloc_v2"),
				    (free_fn *)dlsym(copy, "cuMemFree_v2")};
	int64_t allocated = statistic("allocation.all.allocated");
	CUdeviceptr address = 0;

	check(entry.alloc != cuMemAlloc_v2);
	check(entry.alloc(&address, BYTES) == CUDA_SUCCESS);
	check(statistic("allocation.all.allocated") == allocated);
	check(entry.free(address) == CUDA_SUCCESS);
	check(entry.free(address) == CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
	struct entry entries[ENTRIES];
	CUcontext context = NULL;
	CUdeviceptr first = 0;
	size_t i, j;

	check(cuInit(0) == CUDA_SUCCESS);
	check(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	check(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	/* Before the first allocation there are no statistics. */
	check(cuMemAlloc_v2(&first, BYTES) == CUDA_SUCCESS);
	check(cuMemFree_v2(first) == CUDA_SUCCESS);
	open_entries(entries);
	for (i = 0; i < ENTRIES; i++) {
		for (j = 0; j < ENTRIES; j++)
			check_pair(&entries[i], &entries[j]);
	}
	if (argc > 1)
		check_behind(argv[1]);
	return check_failed;
}
