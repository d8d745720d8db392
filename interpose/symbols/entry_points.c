/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym: the filter that the stubs of dlsym_<machine>.S call. It says NULL to all that
 * is not a look-up of a hooked function in the driver, and then calls nothing of the C library,
 * whose functions may be somebody's interceptors that are not ready yet. This file is built without
 * sanitizers and builtins for the same reason.
 */
#include "interpose/symbols/entry_points.h"

#include "interpose/symbols/hook_table.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/next_symbol.h"
#include "interpose/symbols/real.h"

#include <dlfcn.h>
#include <errno.h>

/* Called by the assembly alone. */
void *cm_entry_points_pick(void *handle, const char *name, const char *version, const void *caller);
void *cm_entry_points_enter(size_t row, void **slot);

/*
 * Whether another copy of the library stands before this one, as where a build tree's is put before
 * an installed one's. That one serves the program, and all doors of this one are open: two would
 * take each other's functions for the driver's. Valid once cm_next_dlsym is set.
 */
static bool behind;

static uint64_t counts[CM_ENTRY_COUNT];
static uint64_t *published;

/* The largest stays, in whatever order racing threads come. */
static void store_count(uint64_t *target, enum cm_entry_point door, uint64_t count)
{
	uint64_t seen = __atomic_load_n(&target[door], __ATOMIC_RELAXED);

	while (seen < count && !__atomic_compare_exchange_n(&target[door], &seen, count, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void cm_entry_points_count(enum cm_entry_point door)
{
	uint64_t count = __atomic_add_fetch(&counts[door], 1, __ATOMIC_SEQ_CST);
	uint64_t *target = __atomic_load_n(&published, __ATOMIC_SEQ_CST);

	if (target)
		store_count(target, door, count);
}

/* A count that is taken before `published` is seen is in `counts` by then, and copied here. */
void cm_entry_points_publish(uint64_t *door)
{
	unsigned int i;

	__atomic_store_n(&published, door, __ATOMIC_SEQ_CST);
	for (i = 0; door && i < CM_ENTRY_COUNT; i++)
		store_count(door, i, __atomic_load_n(&counts[i], __ATOMIC_SEQ_CST));
}

static void *find_nothing(void)
{
	return NULL;
}

/*
 * Late, because other libraries' constructors call dlsym before ours would run. The addresses never
 * change, so it doesn't matter who stores them.
 */
static void find_next(void)
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

static void *replace(const struct cm_hook *hook, void *handle, const char *version,
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

/*
 * The answer to a dlsym (version NULL) or dlvsym of `caller`, or NULL: the real one shall answer,
 * as if we were not there. RTLD_NEXT and RTLD_DEFAULT go by the caller and find our exported
 * symbols where they should.
 */
void *cm_entry_points_pick(void *handle, const char *name, const char *version, const void *caller)
{
	const struct cm_hook *hook;
	void *wrapper;
	int error;

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next();
	if (!name || handle == RTLD_NEXT || handle == RTLD_DEFAULT || is_behind())
		return NULL;
	hook = cm_hook_find(name);
	if (!hook || !hook->wrapper)
		return NULL;
	error = errno;
	wrapper = replace(hook, handle, version, caller);
	errno = error;
	return wrapper;
}

bool cm_entry_points_find_driver(void)
{
	int error = errno;
	bool found = cm_real_is_loaded();

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next();
	if (!found && !is_behind())
		found = cm_driver_add_symbol(cm_hook_find("cuMemAlloc_v2"));
	errno = error;
	return found;
}

/* Of a copy that stands behind another: what a call would reach without it. */
static void *pass_through(const struct cm_hook *hook, void **slot)
{
	void *next = cm_next_dlsym(RTLD_NEXT, hook->symbol);

	if (next)
		__atomic_store_n(slot, next, __ATOMIC_RELEASE);
	return next ? next : (void *)cm_real_missing;
}

/*
 * The first call of an exported symbol: says where it goes from now on. Without a driver it goes
 * the same way, to be told so by the wrapper, and the next call looks again.
 */
void *cm_entry_points_enter(size_t row, void **slot)
{
	const struct cm_hook *hook = &cm_hooks[row];
	void *function = hook->wrapper;
	int error = errno;

	if (!__atomic_load_n(&cm_next_dlsym, __ATOMIC_ACQUIRE))
		find_next();
	if (is_behind())
		function = pass_through(hook, slot);
	else if (cm_driver_add_symbol(hook) &&
		 __atomic_exchange_n(slot, function, __ATOMIC_RELEASE) != function)
		cm_entry_points_count(CM_ENTRY_SYMBOL);
	errno = error;
	return function;
}
