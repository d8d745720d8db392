/* SPDX-License-Identifier: MIT */
#include "registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_CONTEXTS = 64 };

struct entry {
	struct entry *next;
	const void *host;
	const char *name; /* the program's own */
	size_t bytes;     /* of a variable; 0: a kernel */
};

struct loaded {
	CUcontext ctx;
	CUmodule module;
};

/* One of the program's fat binaries; what __cudaRegisterFatBinary returns is its address. */
struct binary {
	struct binary *next;
	struct entry *entries;
	struct loaded loaded[MAX_CONTEXTS];
};

/* What the compiler's start-up code calls; the toolkit declares these for its own output alone. */
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
			    const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
			    dim3 *bDim, dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
		       const char *deviceName, int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
			      const char *deviceName, int ext, size_t size, int constant,
			      int global);
char __cudaInitModule(void **fatCubinHandle);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct binary *binaries;

EXPORT void **__cudaRegisterFatBinary(void *fatCubin)
{
	struct binary *binary = calloc(1, sizeof(*binary));

	(void)fatCubin;
	if (!binary)
		return NULL;
	pthread_mutex_lock(&lock);
	binary->next = binaries;
	binaries = binary;
	pthread_mutex_unlock(&lock);
	return (void **)(void *)binary;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
	(void)fatCubinHandle;
}

/* At exit, or when a library goes: the driver may be gone, so its modules are left alone. */
EXPORT void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
	struct binary *binary = (struct binary *)(void *)fatCubinHandle;
	struct binary **link = &binaries;

	if (!binary)
		return;
	pthread_mutex_lock(&lock);
	while (*link && *link != binary)
		link = &(*link)->next;
	if (*link)
		*link = binary->next;
	pthread_mutex_unlock(&lock);
	while (binary->entries) {
		struct entry *entry = binary->entries;

		binary->entries = entry->next;
		free(entry);
	}
	free(binary);
}

static void add(void **handle, const void *host, const char *name, size_t bytes)
{
	struct binary *binary = (struct binary *)(void *)handle;
	struct entry *entry = binary ? calloc(1, sizeof(*entry)) : NULL;

	if (!entry)
		return;
	*entry = (struct entry){.host = host, .name = name, .bytes = bytes};
	pthread_mutex_lock(&lock);
	entry->next = binary->entries;
	binary->entries = entry;
	pthread_mutex_unlock(&lock);
}

EXPORT void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
				   const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
				   dim3 *bDim, dim3 *gDim, int *wSize)
{
	(void)deviceFun;
	(void)thread_limit;
	(void)tid;
	(void)bid;
	(void)bDim;
	(void)gDim;
	(void)wSize;
	add(fatCubinHandle, hostFun, deviceName, 0);
}

EXPORT void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
			      const char *deviceName, int ext, size_t size, int constant,
			      int global)
{
	(void)deviceAddress;
	(void)ext;
	(void)constant;
	(void)global;
	add(fatCubinHandle, hostVar, deviceName, size);
}

EXPORT void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
				     char *deviceAddress, const char *deviceName, int ext,
				     size_t size, int constant, int global)
{
	__cudaRegisterVar(fatCubinHandle, (char *)hostVarPtrAddress, deviceAddress, deviceName, ext,
			  size, constant, global);
}

EXPORT char __cudaInitModule(void **fatCubinHandle)
{
	(void)fatCubinHandle;
	return 1;
}

static struct entry *find_entry(const void *host, bool variable, struct binary **ret_binary)
{
	for (struct binary *binary = binaries; binary; binary = binary->next) {
		for (struct entry *entry = binary->entries; entry; entry = entry->next) {
			if ((entry->host == host || entry == host) &&
			    (entry->bytes != 0) == variable) {
				*ret_binary = binary;
				return entry;
			}
		}
	}
	return NULL;
}

/*
 * The simulated driver's text for a module. Its words are short: names longer than a word are
 * numbered instead, which no one sees.
 */
static void name_entry(const struct binary *binary, const struct entry *wanted, char *ret,
		       size_t room)
{
	unsigned number = 0;

	for (const struct entry *entry = binary->entries; entry != wanted; entry = entry->next)
		number++;
	snprintf(ret, room, "%s%u", wanted->bytes ? "variable" : "kernel", number);
}

static char *write_text(const struct binary *binary)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	if (!file)
		return NULL;
	fprintf(file, "cudasim-module\n");
	for (const struct entry *entry = binary->entries; entry; entry = entry->next) {
		char name[32];

		name_entry(binary, entry, name, sizeof(name));
		if (entry->bytes)
			fprintf(file, "global %s %zu\n", name, entry->bytes);
		else
			fprintf(file, "kernel %s\nend\n", name);
	}
	return fclose(file) ? NULL : text;
}

static CUresult load(struct binary *binary, CUmodule *ret_module)
{
	struct loaded *place = NULL;
	CUcontext ctx = NULL;
	CUresult result = rt_driver()->cuCtxGetCurrent(&ctx);
	char *text;

	for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
		if (binary->loaded[i].ctx == ctx) {
			*ret_module = binary->loaded[i].module;
			return result;
		}
		if (!binary->loaded[i].ctx && !place)
			place = &binary->loaded[i];
	}
	text = write_text(binary);
	if (!text || !place) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = rt_driver()->cuModuleLoadData(ret_module, text);
	free(text);
	if (result == CUDA_SUCCESS)
		*place = (struct loaded){.ctx = ctx, .module = *ret_module};
	return result;
}

void rt_registry_forget_context(void)
{
	CUcontext ctx = NULL;

	(void)rt_driver()->cuCtxGetCurrent(&ctx);
	pthread_mutex_lock(&lock);
	for (struct binary *binary = binaries; binary; binary = binary->next) {
		for (unsigned i = 0; i < MAX_CONTEXTS; i++) {
			if (binary->loaded[i].ctx == ctx)
				binary->loaded[i].ctx = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* The name of a registered function or variable, and the module that has it. False: it is not
 * registered. */
static bool find_named(const void *host, bool variable, CUmodule *ret_module, CUresult *ret_result,
		       char *ret_name, size_t bytes)
{
	struct binary *binary;
	struct entry *entry;

	pthread_mutex_lock(&lock);
	entry = find_entry(host, variable, &binary);
	if (entry) {
		*ret_result = load(binary, ret_module);
		name_entry(binary, entry, ret_name, bytes);
	}
	pthread_mutex_unlock(&lock);
	return entry != NULL;
}

cudaError_t rt_registry_find_function(const void *host, CUfunction *ret_function)
{
	CUmodule module;
	CUresult result;
	char name[32];

	if (!find_named(host, false, &module, &result, name, sizeof(name)))
		return cudaErrorInvalidDeviceFunction;
	if (result == CUDA_SUCCESS)
		result = rt_driver()->cuModuleGetFunction(ret_function, module, name);
	return rt_error(result);
}

cudaError_t rt_registry_find_variable(const void *host, CUdeviceptr *ret_addr, size_t *ret_bytes)
{
	CUmodule module;
	CUresult result;
	char name[32];

	if (!find_named(host, true, &module, &result, name, sizeof(name)))
		return cudaErrorInvalidSymbol;
	if (result == CUDA_SUCCESS)
		result = rt_driver()->cuModuleGetGlobal_v2(ret_addr, ret_bytes, module, name);
	return rt_error(result);
}

/* A handle is the entry itself: no context is needed for it yet. */
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	struct binary *binary;
	struct entry *entry;

	pthread_mutex_lock(&lock);
	entry = find_entry(host, false, &binary);
	pthread_mutex_unlock(&lock);
	if (!kernel || !entry)
		return rt_leave(cudaErrorInvalidDeviceFunction);
	*kernel = (cudaKernel_t)(void *)entry;
	return cudaSuccess;
}
