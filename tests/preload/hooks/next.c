/* SPDX-License-Identifier: MIT */
/*
 * RTLD_NEXT and RTLD_DEFAULT of third parties. Linked with the third library, then with what lies
 * behind it, then with the driver. Argument: a second copy of the third library.
 */
#include "tests/preload/hooks/check.h"
#include "tests/preload/hooks/third.h"

/* Whom the linker sees no need for it leaves out. */
static void all_libraries_are_there(void)
{
	check(third_is_behind() == THIRD_BEHIND);
	check((int)cuMemFree_v2(0) == number_cuMemFree_v2);
}

static void next_is_behind_the_caller(void)
{
	check(third_allocate() == THIRD_BEHIND);
	check(cuThirdAllocate() == THIRD_BEHIND);
	check(third_call_next_driver() == number_cuMemAlloc_v2);
	check(calls("cuMemAlloc_v2") == 0);
}

static void default_is_the_callers_scope(const char *path)
{
	void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*find_default)(const char *);

	check(copy);
	if (!copy)
		return;
	find_default = (void *(*)(const char *))dlsym(copy, "third_find_default");
	check(find_default("third_local_only") == dlsym(copy, "third_local_only"));
	check(!dlsym(RTLD_DEFAULT, "third_local_only"));
	check(is_wrapper(find_default("cuMemAlloc_v2")));
}

static void failures_keep_their_message(void)
{
	const char *message;

	check(!third_find_default("cuNoSuchFunction"));
	message = dlerror();
	check(message && strstr(message, "undefined symbol: cuNoSuchFunction"));
}

static void versions_are_the_callers(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	check(third_find_next_version("qsort", LIBC_VERSION) == dlsym(libc, "qsort"));
	check(!third_find_next_version("qsort", "NO_SUCH_VERSION"));
}

int main(int argc, char **argv)
{
	all_libraries_are_there();
	next_is_behind_the_caller();
	default_is_the_callers_scope(argc > 1 ? argv[1] : "");
	failures_keep_their_message();
	versions_are_the_callers();
	return check_failed;
}
