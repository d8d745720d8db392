/* SPDX-License-Identifier: MIT */
#include "interpose/process/sharing_probe.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/symbols/next_symbol.h"

/* Weak, so that the loader does not become a NEEDED library. */
#pragma weak _r_debug

/* Set by launchers of parallel programs. A size of 1 is a single process. */
static const struct launch_variable {
	const char *name;
	bool is_size;
} launch_variables[] = {
	{"OMPI_COMM_WORLD_SIZE", true}, {"PMI_SIZE", true},   {"MV2_COMM_WORLD_SIZE", true},
	{"SLURM_STEP_NUM_TASKS", true}, {"WORLD_SIZE", true}, {"NVSHMEM_BOOTSTRAP", false},
};

/* Prefixes of libraries that export device memory to other processes. NCCL is missing on purpose:
 * PyTorch always loads it, in a single process it does not, and several processes have a launcher.
 */
static const char *const exporting_libraries[] = {
	"libmpi", "libucp.", "libuct.", "libucs.", "libnvshmem",
};

/* Prefixes of libraries that let other devices access memory without a call of naming.def: those of
 * Slingshot and Omni-Path. */
static const char *const reaching_libraries[] = {"libcxi.", "libpsm2.", "libpsm_"};

/* Calls that name memory to other devices, and their libraries. */
static const struct {
	const char *symbol;
	const char *library;
} naming_calls[] = {
#define CM_NAMING(id, symbol, version, library, missing, names) {#symbol, library},
#include "interpose/symbols/naming.def"
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

static bool is_one_of(const char *name, const char *const *prefixes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static bool is_sharing_call(const char *symbol, void *const *slot, const void *arg)
{
	size_t i;

	(void)slot;
	(void)arg;
	if (symbol[0] != 'c' || symbol[1] != 'u')
		return false; /* excludes almost all */
	for (i = 0; i < COUNT(sharing_calls); i++)
		if (!strcmp(symbol, sharing_calls[i]))
			return true;
	return false;
}

/* Whether a call that names memory is bound past us. Unbound, it leads into its own object. */
static bool passes_by(const char *symbol, void *const *slot, const void *arg)
{
	struct cm_object unused;
	size_t i;

	for (i = 0; i < COUNT(naming_calls); i++)
		if (!strcmp(symbol, naming_calls[i].symbol))
			return *slot && !cm_is_own_address(*slot) &&
			       !cm_object_read(arg, (uintptr_t)*slot, &unused);
	return false;
}

static int probe_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const char *file = cm_text_file_name(info->dlpi_name);
	const char *object = *info->dlpi_name ? info->dlpi_name : "the program";
	struct cm_probe_environment *found = arg;
	struct cm_object image;

	(void)bytes;
	(void)cm_object_read(info, 0, &image);
	if (!found->exports &&
	    (is_one_of(file, exporting_libraries, COUNT(exporting_libraries)) ||
	     (image.dynamic && cm_object_imports(&image, is_sharing_call, NULL))))
		found->exports = object;
	if (!found->reaches && (is_one_of(file, reaching_libraries, COUNT(reaching_libraries)) ||
				(image.dynamic && cm_object_imports(&image, passes_by, info))))
		found->reaches = object;
	return found->exports && found->reaches;
}

static bool is_naming_library(const char *path)
{
	size_t i;

	for (i = 0; i < COUNT(naming_calls); i++)
		if (is_one_of(cm_text_file_name(path), &naming_calls[i].library, 1))
			return true;
	return false;
}

/* The loader's lists, one a namespace (dlmopen): glibc chains them since 2.35. */
struct space {
	struct r_debug base;
	const struct space *next;
};

static const struct space *next_space(const struct space *space)
{
	/* The declaration of the first one is that of older versions. */
	__asm__("" : "+r"(space));
	return space->base.r_version > 1 ? space->next : NULL;
}

/* A library with calls that name memory, in another namespace together with its users, or NULL. */
static const char *find_apart(void)
{
	const struct space *space = (const struct space *)&_r_debug;
	const struct link_map *map;

	if (space)
		space = next_space(space);
	for (; space; space = next_space(space))
		for (map = space->base.r_map; map; map = map->l_next)
			if (is_naming_library(map->l_name))
				return map->l_name;
	return NULL;
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

	*ret_found = (struct cm_probe_environment){variable, find_apart()};
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
