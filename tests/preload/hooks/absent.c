/* SPDX-License-Identifier: MIT */
/* A program that can do without a driver, on a machine that has none: exit status 77 elsewhere. */
#include "tests/preload/hooks/check.h"

#pragma weak cuMemAlloc_v2
#pragma weak cuGetProcAddress_v2

int main(void)
{
	CUdeviceptr address = 17;
	void *function = NULL;

	if (dlopen("libcuda.so.1", RTLD_LAZY))
		return 77;
	/* The symbol is ours, whose wrapper says that there is no driver. */
	check(cuMemAlloc_v2(&address, 512) == CUDA_ERROR_NOT_INITIALIZED);
	check(address == 17);
	check(cuGetProcAddress_v2("cuInit", &function, 2000, 0, NULL) ==
	      CUDA_ERROR_NOT_INITIALIZED);
	check(counted(CM_ENTRY_SYMBOL) == 0);
	return check_failed;
}
