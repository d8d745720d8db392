/* SPDX-License-Identifier: MIT */
/* dlsym and dlvsym: what is replaced, and what is left as it was. Arguments: driver, foreign,
 * kind. */
#include "tests/preload/hooks/check.h"

#include <errno.h>

static void driver_functions_are_replaced(void *driver)
{
	unsigned int before = counted(CM_ENTRY_DLSYM);
	unsigned int hooks = 0;

#define CM_HOOK(symbol, base, version, flags)      \
	check(is_wrapper(dlsym(driver, #symbol))); \
	hooks++;
#include "interpose/symbols/hooks.def"
	check(counted(CM_ENTRY_DLSYM) == before + hooks);
}

static void a_wrapper_reaches_its_own_original(void *driver)
{
#define CM_HOOK(symbol, base, version, flags)      \
	if (strcmp(base, "cuGetProcAddress") != 0) \
		check_wrapped(dlsym(driver, #symbol), #symbol, number_##symbol);
#include "interpose/symbols/hooks.def"
}

static void other_driver_functions_are_left(void *driver)
{
	void *function;

#define CM_USE(symbol, base, version, flags) \
	function = dlsym(driver, #symbol);   \
	check(function && !is_wrapper(function) && ((any_fn *)function)() == number_##symbol);
#define CM_KNOWN(symbol, base, version, flags) CM_USE(symbol, base, version, flags)
#include "interpose/symbols/hooks.def"
}

static void failed_lookups_keep_their_message(void *driver, void *libc)
{
	const char *message;

	check(!dlsym(driver, "cuNoSuchFunction"));
	message = dlerror();
	check(message && strstr(message, "undefined symbol: cuNoSuchFunction"));

	/* A hooked name that the handle has not. */
	check(!dlsym(libc, "cuMemAlloc_v2"));
	message = dlerror();
	check(message && strstr(message, "libc.so") &&
	      strstr(message, "undefined symbol: cuMemAlloc_v2"));

	check(!dlvsym(libc, "cuMemAlloc_v2", "NO_SUCH_VERSION"));
	message = dlerror();
	check(message && strstr(message, "NO_SUCH_VERSION"));
}

static void successful_lookups_leave_no_trace(void *driver)
{
	(void)dlerror();
	errno = EDOM;
	check(dlsym(driver, "cuMemFree_v2"));
	check(errno == EDOM);
	check(!dlerror());
}

/* Only a driver that gives its symbols versions can be asked for one. */
static void versions_are_taken_too(void *driver)
{
	check_wrapped(dlvsym(driver, "cuMemAlloc_v2", "DRIVER_1"), "cuMemAlloc_v2",
		      number_cuMemAlloc_v2);
	check(!dlvsym(driver, "cuMemAlloc_v2", "DRIVER_2"));
}

static void names_of_other_libraries_are_left(void *foreign, void *libc)
{
	void *function = dlsym(foreign, "cuMemAlloc_v2");

	check(function && !is_wrapper(function));
	check(dlsym(foreign, "cudnnCreate"));
	check(dlsym(libc, "dlsym") && !is_wrapper(dlsym(libc, "dlsym")));
}

static void the_global_scope_has_our_symbols(void)
{
	void *everything = dlopen(NULL, RTLD_NOW);

	check(is_wrapper(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
	check(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == dlsym(everything, "cuMemAlloc_v2"));
	check_wrapped(dlsym(everything, "cuMemAlloc_v2"), "cuMemAlloc_v2", number_cuMemAlloc_v2);
}

static void a_closed_driver_stays_for_its_wrappers(const char *path, void *driver)
{
	void *function = dlsym(driver, "cuMemAlloc_v2");

	check(!dlclose(driver));
	check_wrapped(function, "cuMemAlloc_v2", number_cuMemAlloc_v2);
	driver = dlopen(path, RTLD_NOW);
	check_wrapped(dlsym(driver, "cuMemAlloc_v2"), "cuMemAlloc_v2", number_cuMemAlloc_v2);
}

int main(int argc, char **argv)
{
	void *driver = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	void *foreign = dlopen(argc > 2 ? argv[2] : "", RTLD_NOW);
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	if (!driver || !foreign || !libc)
		return 2;
	names_of_other_libraries_are_left(foreign, libc);
	successful_lookups_leave_no_trace(driver);
	driver_functions_are_replaced(driver);
	a_wrapper_reaches_its_own_original(driver);
	other_driver_functions_are_left(driver);
	if (argc > 3 && strcmp(argv[3], "versioned") == 0)
		versions_are_taken_too(driver);
	failed_lookups_keep_their_message(driver, libc);
	the_global_scope_has_our_symbols();
	a_closed_driver_stays_for_its_wrappers(argv[1], driver);
	return check_failed;
}
