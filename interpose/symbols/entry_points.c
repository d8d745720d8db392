/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym: the filter that the stubs of dlsym_<machine>.S call. It returns NULL for all
 * but look-ups of hooked functions in the driver, and then calls nothing of the C library, whose
 * functions may be another library's interceptors that are not ready yet. For the same reason this
 * file is built without sanitizers and builtins.
 */
#include "interpose/symbols/entry_points.h"

#include "interpose/symbols/hook_table.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/next_symbol.h"
#include "interpose/symbols/real.h"

#include <dlfcn.h>
#include <errno.h>

/* Called by the assembly stubs only. */
void *cm_entry_points_pick(void *handle, const char *name, const char *version, const void *caller);
void *cm_entry_points_enter(size_t row, void **slot);

/*
 * Whether another copy of the library was loaded before this one, as when a build tree's is
 * preloaded before an installed one. That copy serves the program, and this one passes everything
 * on: two would take each other's functions for the driver's. Valid once cm_next_dlsym is set.
 */
static bool behind;

static uint64_t counts[CM_ENTRY_COUNT];
static uint64_t *published;

/* Racing threads may store in any order: keeps the largest. */
static void store_count(uint64_t *target, enum cm_entry_point entry, uint64_t count)
{
	uint64_t seen = __atomic_load_n(&target[entry], __ATOMIC_RELAXED);

	while (seen < count && !__atomic_compare_exchange_n(&target[entry], &seen, count, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void cm_entry_points_count(enum cm_entry_point entry)
{
	uint64_t count = __atomic_add_fetch(&counts[entry], 1, __ATOMIC_SEQ_CST);
	uint64_t *target = __atomic_load_n(&published, __ATOMIC_SEQ_CST);

	if (target)
		store_count(target, entry, count);
}

/* Every count taken before `published` is visible is in `counts` by then, and is copied here. */
void cm_entry_points_publish(uint64_t *table)
{
	unsigned int i;

	__atomic_store_n(&published, table, __ATOMIC_SEQ_CST);
	for (i = 0; table && i < CM_ENTRY_COUNT; i++)
		store_count(table, i, __atomic_load_n(&counts[i], __ATOMIC_SEQ_CST));
}

static void *find_nothing(void)
{
	return NULL;
}

/* Called late: constructors of other libraries call dlsym before ours would run. Racing threads
 * store the same addresses. */
static void find_next_lookups(void)
{
	void *next_dlsym = cm_next_symbol("dlsym");
	void *next_dlvsym = cm_next_symbol("dlvsym");

	if (!next_dlsym)
		next_dlsym = (void *)find_nothing;
	if (!next_dlvsym)
		next_dlvsym = (void *)find_nothing;
	__atomic_store_n(&behind, cm_copy_is_before(), __ATOMIC_RELAXED);
	__atomic_store_n(&cm_next_dlvsym, (cm_dlvsym_fn *)next_dlvsym, __ATOMIC_RELAXED);
	__atomic_store_n(&cm_next_dlsym, (cm_dlsym_fn *)next_dlsym, __ATOMIC_RELEASE);
}

static bool is_behind(void)
{
	return __atomic_load_n(&behind, __ATOMIC_RELAXED);
}

static void *wrapper_for_lookup(const struct cm_hook *hook, void *handle, const char *version,
				const void *caller)
{
	void *found;

	if (cm_driver_has_address(caller))
		return NULL;
	found = version ? cm_next_dlvsym(handle, hook->symbol, version)
			: cm_next_dlsym(handle, hook->symbol);
	if (!found || !cm_driver_add_lookup(handle, hook, found))
		return NULL;
	cm_entry_points_count(CM_ENTRY_DLSYM);
	return hook->wrapper;
}

/* The wrapper for a dlsym (version NULL) or dlvsym of `caller`, or NULL: the stub then jumps to the
 * real function. RTLD_NEXT and RTLD_DEFAULT depend on the caller and find our exported symbols
 * where they should. */
void *cm_entry_points_pick(void *handle, const char *name, const char *version, const void *caller)
{
	const struct cm_hook *hook;
	void *wrapper;
	int error;

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next_lookups();
	if (!name || handle == RTLD_NEXT || handle == RTLD_DEFAULT || is_behind())
		return NULL;
	hook = cm_hook_find(name);
	if (!hook || !hook->wrapper)
		return NULL;
	error = errno;
	wrapper = wrapper_for_lookup(hook, handle, version, caller);
	errno = error;
	return wrapper;
}

bool cm_entry_points_find_driver(void)
{
	int error = errno;
	bool found = cm_real_is_loaded();

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next_lookups();
	if (!found && !is_behind())
		found = cm_driver_add_symbol(cm_hook_find("cuMemAlloc_v2"));
	errno = error;
	return found;
}

/* In a copy loaded behind another: what the call would have reached without this one. */
static void *pass_through(const struct cm_hook *hook, void **slot)
{
	void *next = cm_next_dlsym(RTLD_NEXT, hook->symbol);

	if (next)
		__atomic_store_n(slot, next, __ATOMIC_RELEASE);
	return next ? next : (void *)cm_real_missing;
}

/* The first call of an exported symbol: returns its target and stores it for later calls.
 * Without a driver the wrapper runs too and reports the error, and the next call looks for the
 * driver again. */
void *cm_entry_points_enter(size_t row, void **slot)
{
	const struct cm_hook *hook = &cm_hooks[row];
	void *function = hook->wrapper;
	int error = errno;

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next_lookups();
	if (is_behind())
		function = pass_through(hook, slot);
	else if (cm_driver_add_symbol(hook) &&
		 __atomic_exchange_n(slot, function, __ATOMIC_RELEASE) != function)
		cm_entry_points_count(CM_ENTRY_SYMBOL);
	errno = error;
	return function;
}
