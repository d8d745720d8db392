/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress: the driver answers, and an answer that is a hooked function is replaced with
 * our wrapper. Thread-safe.
 */
#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/real.h"

#include <string.h>

/* The row that hooks.def gives for `version` of `base`, or NULL. */
static const struct cm_hook *find_row_by_version(const char *base, int version, bool per_thread)
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
	/* A function without a per-thread variant serves both. */
	return best || !per_thread ? best : find_row_by_version(base, version, false);
}

/* The answer is our own function if the driver's references bind to the symbols that we export, or
 * if another library has asked before. */
static bool is_function_of(const struct cm_hook *hook, const void *function)
{
	return hook->wrapper && (function == cm_real_get(hook) || function == hook->exported ||
				 function == hook->wrapper);
}

/* The row of this function, whatever its base, since a name may come to mean another function; or
 * NULL. Also reports whether we hook the base at all. */
static const struct cm_hook *find_row_by_function(const char *base, const void *function,
						  bool *ret_hooked)
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
 * The row of the driver's answer, or NULL. The function itself tells the ABI, whatever the version.
 * A function that we do not know (the driver's library may only forward to another) is judged by
 * its version. Beyond CM_HOOKS_VERSION that needs the driver to give the same function for the
 * version that we know: a newer ABI must never get an older wrapper, and two look-ups of one
 * function must get the same answer.
 */
static const struct cm_hook *find_row(const char *base, const void *function, int version,
				      bool per_thread)
{
	const struct cm_hook *abi = find_row_by_version(base, version, per_thread);
	const struct cm_hook *hook;
	bool hooked;

	if (abi && is_function_of(abi, function))
		return abi;
	hook = find_row_by_function(base, function, &hooked);
	if (hook)
		return hook;
	if (abi && (version <= CM_HOOKS_VERSION || cm_real_query(abi) == function))
		return abi->wrapper ? abi : NULL;
	if (hooked)
		cm_entry_points_count(CM_ENTRY_UNCOVERED);
	return NULL;
}

static void replace_answer(const char *base, void **pfn, int version, cuuint64_t flags,
			   const void *caller)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct cm_hook *hook;

	if (!base || !pfn || !*pfn)
		return;
	hook = find_row(base, *pfn, version, per_thread);
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
		replace_answer(symbol, pfn, cudaVersion, flags, __builtin_return_address(0));
	return res;
}

CUresult cm_wrap_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				     cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult res = cm_real.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (res == CUDA_SUCCESS && !cm_hook_depth)
		replace_answer(symbol, pfn, cudaVersion, flags, __builtin_return_address(0));
	return res;
}
