/* SPDX-License-Identifier: MIT */
/* Two libraries that export dlsym. Arguments: driver, "before" or "behind" us is the other one. */
#include "tests/preload/hooks/check.h"

int main(int argc, char **argv)
{
	void *driver = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
	bool behind = argc > 2 && strcmp(argv[2], "behind") == 0;
	unsigned int (*other_calls)(void) = (unsigned int (*)(void))dlsym(RTLD_DEFAULT,
									  "other_calls");
	any_fn *function;

	if (!driver || !other_calls)
		return 2;
	function = (any_fn *)dlsym(driver, "cuMemAlloc_v2");
	check(is_wrapper((void *)function) == behind);
	check(function() == number_cuMemAlloc_v2);
	check(other_calls() == 1);
	check(calls("cuMemAlloc_v2") == behind);

	/* What the other one leaves alone, it leaves to us or, in front of us, to libc. */
	function = (any_fn *)dlsym(driver, "cuMemFree_v2");
	check(is_wrapper((void *)function) == behind);
	check(function() == number_cuMemFree_v2);
	return check_failed;
}
