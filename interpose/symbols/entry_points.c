/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym: the filter that the stubs of dlsym_<machine>.S call. It answers look-ups of
 * hooked functions alone, and at others calls nothing of the C library, whose functions may be
 * another library's interceptors that are not ready yet. For the same reason this file is built
 * without sanitizers and builtins.
 */
#include "interpose/symbols/entry_points.h"

#include "interpose/symbols/hook_table.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/naming.h"
#include "interpose/symbols/next_symbol.h"
#include "interpose/symbols/real.h"

#include <dlfcn.h>
#include <errno.h>

/* What a look-up returns; unless it is final, what the real function returns. */
struct answer {
	void *symbol;
	bool is_final;
};

/* Called by the assembly stubs only. */
struct answer cm_entry_points_pick(void *handle, const char *name, const char *version,
				   const void *caller);
void *cm_entry_points_enter(size_t row, void **slot);

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

/* What a look-up has found is our symbol, and without us there would be none: neither the driver
 * has such a function, nor has another object. The last search leaves its message for dlerror. */
static bool is_ours_alone(const struct cm_hook *hook, const void *found)
{
	return found && cm_is_own_address(found) && cm_driver_lacks(hook->symbol) &&
	       !cm_next_dlsym(RTLD_NEXT, hook->symbol);
}

static struct answer answer_lookup(const struct cm_hook *hook, void *handle, const char *version,
				   const void *caller)
{
	const struct answer real = {NULL, false};
	void *found;

	if (cm_driver_has_address(caller))
		return real;
	found = version ? cm_next_dlvsym(handle, hook->symbol, version)
			: cm_next_dlsym(handle, hook->symbol);
	if (is_ours_alone(hook, found))
		return (struct answer){NULL, true};
	if (!found || handle == RTLD_DEFAULT || !cm_driver_add_lookup(handle, hook, found))
		return real;
	cm_entry_points_count(CM_ENTRY_DLSYM);
	return (struct answer){hook->wrapper, true};
}

/* The answer to a dlsym (version NULL) or dlvsym of `caller`. RTLD_NEXT and RTLD_DEFAULT depend on
 * the caller and find our exported symbols where they should. */
struct answer cm_entry_points_pick(void *handle, const char *name, const char *version,
				   const void *caller)
{
	struct answer answer = {NULL, false};
	const struct cm_hook *hook;
	int error;

	cm_next_find_lookups();
	if (!name || cm_next_is_behind_copy())
		return answer;
	error = errno;
	answer.symbol = cm_naming_lookup(handle, name, version);
	answer.is_final = answer.symbol != NULL;
	hook = answer.is_final || handle == RTLD_NEXT ? NULL : cm_hook_find(name);
	if (hook && hook->wrapper)
		answer = answer_lookup(hook, handle, version, caller);
	errno = error;
	return answer;
}

bool cm_entry_points_find_driver(void)
{
	int error = errno;
	bool found = cm_real_is_loaded();

	cm_next_find_lookups();
	if (!found && !cm_next_is_behind_copy())
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

	cm_next_find_lookups();
	if (cm_next_is_behind_copy())
		function = pass_through(hook, slot);
	else if (cm_driver_add_symbol(hook) &&
		 __atomic_exchange_n(slot, function, __ATOMIC_RELEASE) != function)
		cm_entry_points_count(CM_ENTRY_SYMBOL);
	errno = error;
	return function;
}
