/* SPDX-License-Identifier: MIT */
#include "interpose/symbols/real.h"

#include "interpose/symbols/hooks.h"
#include "interpose/symbols/next_symbol.h"

#include <dlfcn.h>

#define DRIVER_NAME "libcuda.so" /* followed by .1, on some systems by more */
#define DRIVER_FILE "libcuda.so.1"

/* The loader's functions. Before glibc 2.34 they are in libdl, which we do not depend on. */
typedef void *dlopen_fn(const char *path, int flags);
typedef int dlinfo_fn(void *handle, int request, void *info);

struct cm_real cm_real = {
#define CM_HOOK(symbol, base, version, flags) \
	.symbol = (__typeof__(symbol) *)(void (*)(void))cm_real_missing,
#define CM_USE(symbol, base, version, flags) \
	.symbol = (__typeof__(symbol) *)(void (*)(void))cm_real_missing,
#include "interpose/symbols/hooks.def"
};

__thread unsigned int cm_hook_depth;

/* Whether cm_real has been filled from a driver. */
static bool loaded;

/* Takes the arguments of the function it stands in for: in all our ABIs the caller pops them. */
CUresult cm_real_missing(void)
{
	return __atomic_load_n(&loaded, __ATOMIC_RELAXED) ? CUDA_ERROR_NOT_FOUND
							  : CUDA_ERROR_NOT_INITIALIZED;
}

static bool is_driver(const struct cm_object *object)
{
	return cm_text_has_prefix(cm_text_file_name(object->name), DRIVER_NAME) ||
	       cm_text_has_prefix(cm_object_soname(object), DRIVER_NAME);
}

/* A search among the loaded objects: for the one at an address, or for the driver. */
struct search {
	uintptr_t address; /* 0: the driver */
	struct cm_object object;
	bool found;
};

static int match_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	bool contains = cm_object_read(info, search->address, &search->object);

	(void)size;
	if (!search->object.dynamic)
		return 0;
	search->found = search->address ? contains : is_driver(&search->object);
	return search->found;
}

/* dl_iterate_phdr holds the loader's lock; a walk of the list alone would race with dlclose. */
static bool find_object(const void *address, struct cm_object *ret_object)
{
	struct search search = {.address = (uintptr_t)address};

	dl_iterate_phdr(match_object, &search);
	if (search.found)
		*ret_object = search.object;
	return search.found;
}

static bool find_handle(void *handle, struct cm_object *ret_object)
{
	dlinfo_fn *next_dlinfo = (dlinfo_fn *)cm_next_symbol("dlinfo");
	struct link_map *map;

	if (!next_dlinfo || next_dlinfo(handle, RTLD_DI_LINKMAP, &map))
		return false;
	*ret_object = (struct cm_object){map->l_addr, map->l_ld, map->l_name};
	return true;
}

bool cm_driver_has_address(const void *address)
{
	struct cm_object object;

	return find_object(address, &object) && is_driver(&object);
}

bool cm_driver_lacks(const char *symbol)
{
	struct cm_object object;

	return find_object(NULL, &object) && !cm_object_symbol(&object, symbol);
}

void *cm_real_get(const struct cm_hook *hook)
{
	void *function = hook->real ? __atomic_load_n(hook->real, __ATOMIC_RELAXED) : NULL;

	return function == (void *)cm_real_missing ? NULL : function;
}

void cm_real_set(const struct cm_hook *hook, void *function)
{
	if (!cm_is_own_address(function))
		__atomic_store_n(hook->real, function, __ATOMIC_RELAXED);
}

static void set_if_missing(const struct cm_hook *hook, void *function)
{
	void *missing = (void *)cm_real_missing;

	if (function && hook->real && !cm_is_own_address(function))
		__atomic_compare_exchange_n(hook->real, &missing, function, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* Keeps the driver loaded: the wrappers hold its addresses. */
static void *open_driver(const char *name, int flags)
{
	dlopen_fn *next_dlopen = (dlopen_fn *)cm_next_symbol("dlopen");

	return next_dlopen ? next_dlopen(name, RTLD_NOW | flags) : NULL;
}

/* In a program linked with the driver, or with a layer on top of it, an original is whatever comes
 * next after us: what the program's own call would have reached. */
static void *find_original(const struct cm_object *driver, const char *symbol, bool is_linked)
{
	void *function = cm_object_symbol(driver, symbol);
	void *next = function && is_linked ? cm_next_dlsym(RTLD_NEXT, symbol) : NULL;

	return next ? next : function;
}

static void load_originals(const struct cm_object *driver, bool is_linked)
{
	const char *symbol;
	size_t i;

	if (cm_real_is_loaded())
		return;
	(void)open_driver(driver->name, RTLD_NOLOAD);
	for (i = 0; i < CM_HOOK_COUNT; i++) {
		symbol = cm_hooks[i].symbol;
		set_if_missing(&cm_hooks[i], find_original(driver, symbol, is_linked));
	}
	__atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
}

bool cm_real_is_loaded(void)
{
	return __atomic_load_n(&loaded, __ATOMIC_ACQUIRE);
}

bool cm_driver_add_lookup(void *handle, const struct cm_hook *hook, void *found)
{
	struct cm_object object;

	/* Another interposer behind us may answer for the driver's own handle. */
	if (cm_is_own_address(found) || !((find_handle(handle, &object) && is_driver(&object)) ||
					  (find_object(found, &object) && is_driver(&object))))
		return false;
	load_originals(&object, false);
	cm_real_set(hook, found);
	return true;
}

/* Whether the function belongs to another copy of this library, which would pass the call on. */
static bool is_of_copy(const void *function)
{
	struct cm_object object;

	return find_object(function, &object) && cm_object_is_copy(&object);
}

bool cm_driver_add_symbol(const struct cm_hook *hook)
{
	void *found = cm_next_dlsym(RTLD_NEXT, hook->symbol);
	struct cm_object object;
	void *handle;

	if (found && is_of_copy(found))
		found = NULL;
	if (!find_object(NULL, &object) && !(found && find_object(found, &object))) {
		handle = open_driver(DRIVER_FILE, 0);
		if (!handle || !find_handle(handle, &object))
			return false;
	}
	load_originals(&object, found != NULL);
	if (found)
		cm_real_set(hook, found);
	return true;
}

void *cm_real_query(const struct cm_hook *hook)
{
	cuuint64_t flags = hook->flags & CM_HOOK_PTSZ
				   ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
				   : CU_GET_PROC_ADDRESS_DEFAULT;
	void *function = NULL;
	CUresult res;

	if (cm_real_has(cuGetProcAddress_v2))
		res = cm_real.cuGetProcAddress_v2(hook->base, &function, hook->version, flags,
						  NULL);
	else
		res = cm_real.cuGetProcAddress(hook->base, &function, hook->version, flags);
	return res == CUDA_SUCCESS ? function : NULL;
}

bool cm_real_is_complete(void)
{
	bool complete = true;
	size_t i;

	for (i = 0; i < CM_HOOK_COUNT; i++) {
		const struct cm_hook *hook = &cm_hooks[i];

		if (!hook->real || cm_real_get(hook))
			continue;
		set_if_missing(hook, cm_real_query(hook));
		if ((hook->flags & CM_HOOK_REQUIRED) && !cm_real_get(hook))
			complete = false;
	}
	return complete;
}
