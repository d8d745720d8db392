/* SPDX-License-Identifier: MIT */
#include "interpose/process/sharing_probe.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/symbols/next_symbol.h"

_Static_assert(sizeof(void *) == 8, "64-bit ELF with RELA relocations");

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

/* Relocations of an object, which name the symbols that it imports. */
struct relocations {
	const ElfW(Rela) * row;
	size_t bytes;
};

struct dynamic {
	const ElfW(Sym) * symbols;
	const char *strings;
	struct relocations calls; /* of the procedure linkage table */
	struct relocations data;
};

/* The loader has added the base address, except in the vDSO. */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) address)
{
	if (address < info->dlpi_addr)
		address += info->dlpi_addr;
	return (const void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

static bool find_dynamic(const struct dl_phdr_info *info, struct dynamic *ret_dynamic)
{
	const ElfW(Dyn) *entry = NULL;
	ElfW(Half) i;

	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = at(info, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			ret_dynamic->symbols = at(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			ret_dynamic->strings = at(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_JMPREL)
			ret_dynamic->calls.row = at(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTRELSZ)
			ret_dynamic->calls.bytes = entry->d_un.d_val;
		else if (entry->d_tag == DT_RELA)
			ret_dynamic->data.row = at(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELASZ)
			ret_dynamic->data.bytes = entry->d_un.d_val;
	}
	return ret_dynamic->symbols && ret_dynamic->strings;
}

static bool refer_to_sharing_call(const struct dynamic *dynamic,
				  const struct relocations *relocations)
{
	const size_t rows = relocations->row ? relocations->bytes / sizeof(*relocations->row) : 0;
	const ElfW(Sym) * symbol;
	size_t i;

	for (i = 0; i < rows; i++) {
		symbol = &dynamic->symbols[ELF64_R_SYM(relocations->row[i].r_info)];
		if (symbol->st_name && symbol->st_shndx == SHN_UNDEF &&
		    is_sharing_call(dynamic->strings + symbol->st_name))
			return true;
	}
	return false;
}

/* Reads relocations: no table gives the number of symbols of an object without exports. */
static bool imports_sharing_call(const struct dl_phdr_info *info)
{
	struct dynamic dynamic = {0};

	return find_dynamic(info, &dynamic) && (refer_to_sharing_call(&dynamic, &dynamic.calls) ||
						refer_to_sharing_call(&dynamic, &dynamic.data));
}

static int probe_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct sharing_library *library = find_library(cm_text_file_name(info->dlpi_name));
	const char *object = *info->dlpi_name ? info->dlpi_name : "the program";
	struct cm_probe_environment *found = arg;

	(void)bytes;
	if (!found->exports && ((library && library->exports) || imports_sharing_call(info)))
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
