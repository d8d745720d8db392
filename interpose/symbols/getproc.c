/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the real one answers, and where its answer is a function that we hook, the
 * program gets the wrapper in its place.
 */
#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/real.h"

#include <string.h>

/* The row that `version` of `base` means by our list, or NULL. */
static const struct cm_hook *find_abi(const char *base, int version, bool per_thread)
{
	const struct cm_hook *best = NULL;
	size_t i;

	for (i = 0; i < CM_HOOK_COUNT; i++) {
		const struct cm_hook *hook = &cm_hooks[i];

		if (!(hook->flags & CM_HOOK_PTSZ) == per_thread || hook->version > version ||
		    strcmp(hook->base, base) != 0)
			continue;
		if (!best || hook->version > best->version)
			best = hook;
	}
	/* What has no per-thread twin answers for both. */
	return best || !per_thread ? best : find_abi(base, version, false);
}

/*
 * Ours it is already where a driver's own references bind to the symbols that we export, or where
 * another library has asked before.
 */
static bool is_function_of(const struct cm_hook *hook, const void *function)
{
	return hook->wrapper && (function == cm_real_get(hook) || function == hook->exported ||
				 function == hook->wrapper);
}

/* The row that is this function, or NULL, whatever its base: a name may have come to mean another
 * one's function. Says whether we hook the base at all. */
static const struct cm_hook *find_function(const char *base, const void *function, bool *ret_hooked)
{
	size_t i;

	*ret_hooked = false;
	for (i = 0; i < CM_HOOK_COUNT; i++) {
		const struct cm_hook *hook = &cm_hooks[i];

		if (!hook->wrapper)
			continue;
		if (is_function_of(hook, function))
			return hook;
		*ret_hooked |= !strcmp(hook->base, base);
	}
	return NULL;
}

/*
 * The row that the answer belongs to, or NULL. The function tells which ABI it is, whatever the
 * version; where it is one that we don't know, since the driver's symbols are not what it hands out
 * (its library may be a mere door to another one), the version decides. Beyond our list that is so
 * only where the driver gives the same function for the version that we know: a newer ABI must
 * never get an older wrapper, nor may one of two look-ups of the same function pass us by.
 */
static const struct cm_hook *find_answer(const char *base, const void *function, int version,
					 bool per_thread)
{
	const struct cm_hook *abi = find_abi(base, version, per_thread);
	const struct cm_hook *hook;
	bool hooked;

	if (abi && is_function_of(abi, function))
		return abi;
	hook = find_function(base, function, &hooked);
	if (hook)
		return hook;
	if (abi && (version <= CM_HOOKS_VERSION || cm_real_ask(abi) == function))
		return abi->wrapper ? abi : NULL;
	if (hooked)
		cm_entry_points_count(CM_ENTRY_UNCOVERED);
	return NULL;
}

static void replace(const char *base, void **pfn, int version, cuuint64_t flags, const void *caller)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct cm_hook *hook;

	if (!base || !pfn || !*pfn)
		return;
	hook = find_answer(base, *pfn, version, per_thread);
	if (!hook || cm_driver_has_address(caller))
		return;
	cm_real_set(hook, *pfn);
	cm_entry_points_count(CM_ENTRY_GETPROC);
	*pfn = hook->wrapper;
}

CUresult cm_wrap_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult res = cm_real.cuGetProcAddress(symbol, pfn, cudaVersion, flags);

	if (res == CUDA_SUCCESS && !cm_hook_depth)
		replace(symbol, pfn, cudaVersion, flags, __builtin_return_address(0));
	return res;
}

CUresult cm_wrap_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				     cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult res = cm_real.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (res == CUDA_SUCCESS && !cm_hook_depth)
		replace(symbol, pfn, cudaVersion, flags, __builtin_return_address(0));
	return res;
}
