/* SPDX-License-Identifier: MIT */
/*
 * cuGetProcAddress in both its forms. Arguments: driver and its kind, see driver/meson.build.
 */
#include "tests/preload/hooks/check.h"

#include <stdbool.h>

typedef __typeof__(cuGetProcAddress_v2) resolver_fn;
typedef __typeof__(cuGetProcAddress) old_resolver_fn;

#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

/* Beyond our list: at the first the driver's ABIs are those we know, at the second one is new. */
#define NEWER_VERSION  (CM_HOOKS_VERSION + 100)
#define FUTURE_VERSION (CM_HOOKS_VERSION + 500)

static resolver_fn *resolver;

static void *ask(const char *base, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *function = NULL;

	check(resolver(base, &function, version, flags, &status) == CUDA_SUCCESS);
	return function;
}

static void odd_questions_are_the_drivers(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *function = &status;

	/* The probe that cudart begins with. */
	check(resolver("", &function, 0, 0, &status) == CUDA_SUCCESS);
	check(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	check(resolver(NULL, &function, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
	check(resolver("cuMemAlloc", NULL, 12000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
	function = &status;
	check(resolver("cuMemAlloc", &function, 99990, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
	check(function == &status);
}

static void every_abi_gets_its_own_wrapper(void)
{
#define CM_HOOK(symbol, base, version, flags)                                                     \
	if (strcmp(base, "cuGetProcAddress") != 0)                                                \
		check_wrapped(ask(base, version, (flags)&CM_HOOK_PTSZ ? PER_THREAD : 0), #symbol, \
			      number_##symbol);
#define CM_ALIAS(symbol, base, version, flags) CM_HOOK(symbol, base, version, flags)
#include "interpose/symbols/hooks.def"
}

static void other_functions_are_left(void)
{
	void *function;

#define CM_USE(symbol, base, version, flags)                                  \
	function = ask(base, version, (flags)&CM_HOOK_PTSZ ? PER_THREAD : 0); \
	check(function && !is_wrapper(function) && ((any_fn *)function)() == number_##symbol);
#define CM_KNOWN(symbol, base, version, flags) CM_USE(symbol, base, version, flags)
#include "interpose/symbols/hooks.def"
}

static void the_version_asked_for_decides(void)
{
	check(!is_wrapper(ask("cuMemAlloc", 3010, 0)));
	check_wrapped(ask("cuMemAlloc", CM_HOOKS_VERSION, 0), "cuMemAlloc_v2",
		      number_cuMemAlloc_v2);
	check_wrapped(ask("cuStreamBeginCapture", 10000, 0), "cuStreamBeginCapture",
		      number_cuStreamBeginCapture);
	check_wrapped(ask("cuStreamBeginCapture", 10020, PER_THREAD),
		      "cuStreamBeginCapture_v2_ptsz", number_cuStreamBeginCapture_v2_ptsz);
}

static void what_has_no_twin_serves_both(void)
{
	check_wrapped(ask("cuMemFree", 3020, PER_THREAD), "cuMemFree_v2", number_cuMemFree_v2);
}

static void a_newer_abi_is_left_and_counted(void)
{
	unsigned int before = counted(CM_ENTRY_UNCOVERED);
	void *function;

	function = ask("cuMemAlloc", FUTURE_VERSION, 0);
	check(!is_wrapper(function) && ((any_fn *)function)() == 999);
	check(counted(CM_ENTRY_UNCOVERED) == before + 1);

	/* The function of old. */
	check_wrapped(ask("cuLaunchKernelEx", NEWER_VERSION, PER_THREAD), "cuLaunchKernelEx_ptsz",
		      number_cuLaunchKernelEx_ptsz);
	check(counted(CM_ENTRY_UNCOVERED) == before + 1);
}

static void the_resolver_resolves_itself(void)
{
	old_resolver_fn *old = (old_resolver_fn *)ask("cuGetProcAddress", 11030, 0);
	void *function = NULL;

	check(is_wrapper((void *)old) && (void *)old != (void *)resolver);
	check(is_wrapper(ask("cuGetProcAddress", 12000, 0)));
	check(old("cuMemFree", &function, 11030, 0) == CUDA_SUCCESS);
	check_wrapped(function, "cuMemFree_v2", number_cuMemFree_v2);
	check(old("", &function, 0, 0) == CUDA_ERROR_NOT_FOUND);
}

static void answers_are_counted(void)
{
	unsigned int before = counted(CM_ENTRY_GETPROC);

	(void)ask("cuMemAlloc", 3020, 0);
	(void)ask("cuMemAlloc", 2000, 0);
	(void)ask("cuCtxGetId", 12000, 0);
	check(counted(CM_ENTRY_GETPROC) == before + 1);
}

static void what_is_not_exported_is_asked_for(void)
{
	bool (*complete)(void) = (bool (*)(void))dlsym(RTLD_DEFAULT, "cudamem_hooks_complete");
	any_fn *record = (any_fn *)dlsym(RTLD_DEFAULT, "cudamem_hooks_record_event");

	check(record() == CUDA_ERROR_NOT_FOUND);
	check(complete());
	check(record() == number_cuCtxRecordEvent);
}

/* We export its name, but without us nobody would. */
static void what_is_not_exported_is_not_found(void *driver)
{
	void *everything = dlopen(NULL, RTLD_NOW);
	void *const handles[] = {RTLD_DEFAULT, everything, driver};
	const char *message;
	size_t i;

	for (i = 0; i < 3; i++) {
		check(!dlsym(handles[i], "cuGreenCtxCreate"));
		message = dlerror();
		check(message && strstr(message, "undefined symbol: cuGreenCtxCreate"));
		check(!dlerror());
	}
	check(is_wrapper(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
}

int main(int argc, char **argv)
{
	bool apart = argc > 2 && strcmp(argv[2], "apart") == 0;
	void *driver = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);

	if (!driver)
		return 2;
	resolver = (resolver_fn *)dlsym(driver, "cuGetProcAddress_v2");
	check(is_wrapper((void *)resolver));
	odd_questions_are_the_drivers();
	if (apart) {
		what_is_not_exported_is_not_found(driver);
		what_is_not_exported_is_asked_for();
	}
	a_newer_abi_is_left_and_counted();
	every_abi_gets_its_own_wrapper();
	other_functions_are_left();
	the_version_asked_for_decides();
	what_has_no_twin_serves_both();
	the_resolver_resolves_itself();
	answers_are_counted();
	return check_failed;
}
