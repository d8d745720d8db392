/* SPDX-License-Identifier: MIT */
/*
 * A program of the CUDA runtime on a machine that has the driver library and no card. Each call and
 * its answer is a line; so is what the process looks like afterwards. The runtime is opened by the
 * path that the first argument gives; without one it is what the program is linked with.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)             \
	X(cudaDeviceReset)       \
	X(cudaDeviceSynchronize) \
	X(cudaDriverGetVersion)  \
	X(cudaFree)              \
	X(cudaFreeHost)          \
	X(cudaGetDeviceCount)    \
	X(cudaGetErrorName)      \
	X(cudaGetLastError)      \
	X(cudaHostAlloc)         \
	X(cudaMalloc)            \
	X(cudaMallocHost)        \
	X(cudaMallocManaged)     \
	X(cudaMemGetInfo)        \
	X(cudaPeekAtLastError)   \
	X(cudaRuntimeGetVersion)

#if CM_STATIC_RUNTIME
/* The archive hides its functions from dlsym. Declared as data: only their addresses matter. */
#define X(name) extern const char name[];
FUNCTIONS(X)
#undef X

static void *function(const char *name)
{
	static const struct {
		const char *name;
		const char *address;
	} known[] = {
#define X(name) {#name, name},
		FUNCTIONS(X)
#undef X
	};
	size_t i = 0;

	while (strcmp(known[i].name, name))
		i++;
	return (void *)known[i].address;
}

static void open_runtime(const char *path)
{
	(void)path;
}
#else
static void *runtime;

static void *function(const char *name)
{
	void *address = dlsym(runtime, name);

	if (!address) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(EXIT_FAILURE);
	}
	return address;
}

static void open_runtime(const char *path)
{
	runtime = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!runtime) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
}
#endif

static int entries(const char *path)
{
	DIR *folder = path ? opendir(path) : NULL;
	int count = 0;

	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* What the runtime's functions look like to their caller. */
typedef int no_arguments(void);
typedef int one_pointer(void *);
typedef int pointer_and_size(void *, size_t);
typedef int three_arguments(void *, size_t, unsigned int);
typedef int two_pointers(void *, void *);
typedef const char *name_of(int);

#define CALL(type, name, ...)                                                                      \
	do {                                                                                       \
		type *call;                                                                        \
		void *symbol = function(#name);                                                    \
		int res;                                                                           \
                                                                                                   \
		memcpy(&call, &symbol, sizeof(call));                                              \
		res = call(__VA_ARGS__);                                                           \
		printf("%s %d %s last %d peek %d\n", #name, res, error_name(res), last(), peek()); \
	} while (0)

int main(int argc, char **argv)
{
	name_of *error_name;
	no_arguments *last, *peek;
	void *address, *memory = (void *)0x1234;
	size_t have = 1, total = 2;
	int number = -1;

	open_runtime(argc > 1 ? argv[1] : "libcudart.so");
	address = function("cudaGetErrorName");
	memcpy(&error_name, &address, sizeof(error_name));
	address = function("cudaGetLastError");
	memcpy(&last, &address, sizeof(last));
	address = function("cudaPeekAtLastError");
	memcpy(&peek, &address, sizeof(peek));
	CALL(one_pointer, cudaDriverGetVersion, &number);
	printf("driver %d\n", number);
	CALL(one_pointer, cudaRuntimeGetVersion, &number);
	printf("runtime %d\n", number);
	number = -1;
	CALL(one_pointer, cudaGetDeviceCount, &number);
	printf("devices %d\n", number);
	CALL(pointer_and_size, cudaMalloc, &memory, 1 << 20);
	printf("memory %p\n", memory);
	CALL(one_pointer, cudaFree, NULL);
	CALL(one_pointer, cudaFree, (void *)0x1000);
	CALL(three_arguments, cudaHostAlloc, &memory, 4096, 0);
	CALL(pointer_and_size, cudaMallocHost, &memory, 4096);
	CALL(one_pointer, cudaFreeHost, NULL);
	CALL(three_arguments, cudaMallocManaged, &memory, 4096, 1);
	CALL(two_pointers, cudaMemGetInfo, &have, &total);
	printf("info %zu %zu\n", have, total);
	CALL(no_arguments, cudaDeviceSynchronize);
	CALL(no_arguments, cudaDeviceReset);
	printf("threads %d\n", entries("/proc/self/task"));
	printf("open files %d\n", entries("/proc/self/fd"));
	printf("regions %d\n", entries(getenv("REGIONS")));
	return 7;
}
