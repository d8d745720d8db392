/* SPDX-License-Identifier: MIT */
/*
 * CUDA's own runtime, which looks up all that it will ever call before its first call of the
 * driver. With a driver of nothing but names it gets no further.
 */
#include "tests/preload/hooks/check.h"

#include <cuda_runtime_api.h>

int main(void)
{
	int version = 0;

	check(counted(CM_ENTRY_DLSYM) == 0);
	(void)cudaDriverGetVersion(&version);
	check(counted(CM_ENTRY_DLSYM) == 1);
	/* The first two are cuGetProcAddress itself, and the rest is asked of those. */
	check(counted(CM_ENTRY_GETPROC) > 2);
	check(counted(CM_ENTRY_UNCOVERED) == 0);
	return check_failed;
}
