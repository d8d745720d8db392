/* SPDX-License-Identifier: MIT */
#include "module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.h"
#include "kernel_text.h"
#include "memory.h"
#include "plan.h"

static struct sim_module *module_of(CUmodule handle)
{
	return sim_object_is(handle, SIM_MODULE) ? (struct sim_module *)(void *)handle : NULL;
}

struct sim_function *sim_function_of(CUfunction handle)
{
	return sim_object_is(handle, SIM_FUNCTION) ? (struct sim_function *)(void *)handle : NULL;
}

static struct sim_function *add_function(struct sim_module *module, const struct sim_kernel *kernel)
{
	struct sim_function *function = sim_object_create(SIM_FUNCTION, sizeof(*function));

	if (!function)
		return NULL;
	function->module = module;
	function->kernel = *kernel;
	function->next = module->functions;
	module->functions = function;
	return function;
}

static bool add_global(struct sim_module *module, const char *name, uint64_t bytes)
{
	struct sim_global *global = calloc(1, sizeof(*global));

	if (!global)
		return false;
	global->mem = sim_mem_alloc(module->ctx, SIM_MEM_GLOBAL, bytes);
	if (!global->mem) {
		free(global);
		return false;
	}
	memset((void *)(uintptr_t)global->mem->base, 0, bytes);
	strcpy(global->name, name);
	global->next = module->globals;
	module->globals = global;
	return true;
}

void sim_module_destroy(struct sim_module *module)
{
	struct sim_module **link = &module->ctx->modules;

	while (module->functions) {
		struct sim_function *function = module->functions;

		module->functions = function->next;
		sim_object_destroy(function);
	}
	while (module->globals) {
		struct sim_global *global = module->globals;

		module->globals = global->next;
		sim_mem_free(global->mem);
		free(global);
	}
	while (*link != module)
		link = &(*link)->next;
	*link = module->next;
	sim_object_destroy(module);
}

static CUresult read_text(struct sim_module *module, const char *image)
{
	struct sim_kernel_text text = {.at = image};
	struct sim_kernel kernel;
	uint64_t bytes;

	for (;;) {
		switch (sim_kernel_text_next(&text, &kernel, &bytes)) {
		case SIM_DECLARES_END:
			return CUDA_SUCCESS;
		case SIM_TEXT_BAD:
			return CUDA_ERROR_INVALID_PTX;
		case SIM_DECLARES_KERNEL:
			if (!add_function(module, &kernel))
				return CUDA_ERROR_OUT_OF_MEMORY;
			break;
		case SIM_DECLARES_GLOBAL:
			if (!add_global(module, kernel.name, bytes))
				return CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
	}
}

static CUresult load(CUmodule *ret_handle, const void *image)
{
	struct sim_module *module;
	CUresult result = CUDA_SUCCESS;

	if (!ret_handle || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*(const char *)image)
		return CUDA_ERROR_INVALID_IMAGE;
	module = sim_object_create(SIM_MODULE, sizeof(*module));
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->ctx = sim_ctx_current();
	module->next = module->ctx->modules;
	module->ctx->modules = module;
	module->opaque = !sim_kernel_text_is(image);
	if (!module->opaque)
		result = read_text(module, image);
	if (result != CUDA_SUCCESS) {
		sim_module_destroy(module);
		return result;
	}
	*ret_handle = (CUmodule)(void *)module;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image)
{
	return load(module, image);
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				CUjit_option *options, void **optionValues)
{
	if (numOptions && (!options || !optionValues))
		return CUDA_ERROR_INVALID_VALUE;
	return load(module, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return load(module, fatCubin);
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname)
{
	int fd = fname ? open(fname, O_RDONLY | O_CLOEXEC) : -1;
	struct stat file;
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
	char *image;

	if (!fname)
		return CUDA_ERROR_INVALID_VALUE;
	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	image = fstat(fd, &file) ? NULL : calloc(1, (size_t)file.st_size + 1);
	if (image && read(fd, image, (size_t)file.st_size) == file.st_size)
		result = load(module, image);
	free(image);
	close(fd);
	return result;
}

CUresult sim_cuModuleUnload(CUmodule hmod)
{
	struct sim_module *module = module_of(hmod);

	if (module)
		sim_device_synchronize(module->ctx->device);
	/* Another thread may have been quicker. */
	module = module_of(hmod);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_module_destroy(module);
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct sim_module *module = module_of(hmod);
	struct sim_kernel kernel = {.time_ns = sim_plan.kernel_ns, .until = -1};
	struct sim_function *function;

	if (!hfunc || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	strncpy(kernel.name, name, sizeof(kernel.name) - 1);
	kernel.more_ns.param = -1;
	function = module->functions;
	while (function && strcmp(function->kernel.name, kernel.name))
		function = function->next;
	if (!function && !module->opaque)
		return CUDA_ERROR_NOT_FOUND;
	if (!function)
		function = add_function(module, &kernel);
	if (!function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*hfunc = (CUfunction)(void *)function;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	const struct sim_module *module = module_of(hmod);
	const struct sim_global *global;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	global = module->globals;
	while (global && strcmp(global->name, name))
		global = global->next;
	if (!global)
		return CUDA_ERROR_NOT_FOUND;
	if (dptr)
		*dptr = global->mem->base;
	if (bytes)
		*bytes = global->mem->bytes;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

/* Libraries. */

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	if ((numJitOptions && (!jitOptions || !jitOptionsValues)) ||
	    (numLibraryOptions && (!libraryOptions || !libraryOptionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	return load((CUmodule *)(void *)library, code);
}

CUresult sim_cuLibraryUnload(CUlibrary library)
{
	return sim_cuModuleUnload((CUmodule)(void *)library);
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	if (!pMod || !module_of((CUmodule)(void *)library))
		return CUDA_ERROR_INVALID_HANDLE;
	*pMod = (CUmodule)(void *)library;
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	return sim_cuModuleGetFunction((CUfunction *)(void *)pKernel, (CUmodule)(void *)library,
				       name);
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				const char *name)
{
	return sim_cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)(void *)library, name);
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	if (!pFunc || !sim_function_of((CUfunction)(void *)kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*pFunc = (CUfunction)(void *)kernel;
	return CUDA_SUCCESS;
}
