/* SPDX-License-Identifier: MIT */
/* A driver that forwards by its own dlsym to another driver. Argument: the one in front. */
#include "tests/preload/hooks/check.h"

int main(int argc, char **argv)
{
	void *driver = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);

	if (!driver)
		return 2;
	check_wrapped(dlsym(driver, "cuMemAlloc_v2"), "cuMemAlloc_v2", number_cuMemAlloc_v2);
	check_wrapped(dlsym(driver, "cuMemFree_v2"), "cuMemFree_v2", number_cuMemFree_v2);
	check(counted(CM_ENTRY_DLSYM) == 2);
	return check_failed;
}
