/* SPDX-License-Identifier: MIT */
#include "interpose/process/sharing_probe.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/symbols/next_symbol.h"

/* Set by launchers of parallel programs. A size of 1 is a single process. */
static const struct launch_variable {
	const char *name;
	bool is_size;
} launch_variables[] = {
	{"OMPI_COMM_WORLD_SIZE", true}, {"PMI_SIZE", true},   {"MV2_COMM_WORLD_SIZE", true},
	{"SLURM_STEP_NUM_TASKS", true}, {"WORLD_SIZE", true}, {"NVSHMEM_BOOTSTRAP", false},
};

/* Prefixes of libraries that export device memory to other processes, or to the devices that they
 * drive. NCCL is missing on purpose: PyTorch always loads it, in a single process it does neither,
 * and several processes have a launcher. */
static const struct sharing_library {
	const char *name;
	bool exports; /* exports memory to processes */
	bool reaches; /* devices access memory behind the driver */
} sharing_libraries[] = {
	{"libmpi", true, true},       {"libucp.", true, true},     {"libuct.", true, true},
	{"libucs.", true, true},      {"libnvshmem", true, true},  {"libgdrapi.", false, true},
	{"libibverbs.", false, true}, {"libfabric.", false, true}, {"libcufile.", false, true},
};

/* A program that imports these means to share. */
static const char *const sharing_calls[] = {
	"cuIpcGetMemHandle",
	"cudaIpcGetMemHandle",
	"cuMemGetHandleForAddressRange",
};

/*
 * The driver loads the library named by the first. compute-sanitizer (2021 to 2025) sets the next
 * two in the process that it starts, its predecessor the fourth, and NVTX uses the last. A pool
 * hides from such tools what they look for (rapidsai/rmm#1899).
 */
static const char *const injection_variables[] = {
	"CUDA_INJECTION64_PATH",
	"NV_SANITIZER_INJECTION_PORT_BASE",
	"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN",
	"CUDA_MEMCHECK",
	"NVTX_INJECTION64_PATH",
};

/* NVTX's variable may name this library, which reads ranges through it. */
#define OWN_NAME "libcudamem"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct sharing_library *find_library(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(sharing_libraries); i++)
		if (!strncmp(name, sharing_libraries[i].name, strlen(sharing_libraries[i].name)))
			return &sharing_libraries[i];
	return NULL;
}

static bool is_sharing_call(const char *symbol)
{
	size_t i;

	if (symbol[0] != 'c' || symbol[1] != 'u')
		return false; /* excludes almost all */
	for (i = 0; i < COUNT(sharing_calls); i++)
		if (!strcmp(symbol, sharing_calls[i]))
			return true;
	return false;
}

static int probe_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct sharing_library *library = find_library(cm_text_file_name(info->dlpi_name));
	const char *object = *info->dlpi_name ? info->dlpi_name : "the program";
	struct cm_probe_environment *found = arg;
	struct cm_object image;
	bool exports;

	(void)bytes;
	(void)cm_object_read(info, 0, &image);
	exports = (library && library->exports) ||
		  (image.dynamic && cm_object_imports(&image, is_sharing_call));
	if (!found->exports && exports)
		found->exports = object;
	if (!found->reaches && library && library->reaches)
		found->reaches = object;
	return found->exports && found->reaches;
}

static const char *find_launch_variable(cm_getenv_fn get)
{
	const char *value;
	size_t i;

	for (i = 0; i < COUNT(launch_variables); i++) {
		value = get(launch_variables[i].name);
		if (value && !(launch_variables[i].is_size && !strcmp(value, "1")))
			return launch_variables[i].name;
	}
	return NULL;
}

void cm_probe_sharing(cm_getenv_fn get, struct cm_probe_environment *ret_found)
{
	const char *variable = find_launch_variable(get);

	*ret_found = (struct cm_probe_environment){variable, variable};
	if (!variable)
		(void)dl_iterate_phdr(probe_object, ret_found);
}

static bool is_own(const char *path)
{
	return !strncmp(cm_text_file_name(path), OWN_NAME, strlen(OWN_NAME));
}

const char *cm_probe_injection(cm_getenv_fn get)
{
	const char *value;
	size_t i;

	for (i = 0; i < COUNT(injection_variables); i++) {
		value = get(injection_variables[i]);
		if (value && !is_own(value))
			return injection_variables[i];
	}
	return NULL;
}
