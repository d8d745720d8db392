/* SPDX-License-Identifier: MIT */
/* A library that is no driver and has names like one. */
int cuMemAlloc_v2(void);
int cudnnCreate(void);

#pragma GCC visibility push(default)
int cuMemAlloc_v2(void)
{
	return 1;
}

int cudnnCreate(void)
{
	return 2;
}
#pragma GCC visibility pop
