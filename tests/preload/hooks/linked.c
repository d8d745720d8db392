/* SPDX-License-Identifier: MIT */
/* A program linked with -lcuda: calls by symbol. */
#include "tests/preload/hooks/check.h"

#include <errno.h>
#include <stdint.h>

/* As the loader binds it, before main. */
static __typeof__(cuMemAlloc_v2) *volatile taken = cuMemAlloc_v2;

static void calls_pass_our_wrappers(void)
{
	unsigned int before = counted(CM_ENTRY_SYMBOL);

	errno = EDOM;
	check((int)cuMemFree_v2(0) == number_cuMemFree_v2);
	check(errno == EDOM);
	check((int)cuMemFree_v2(0) == number_cuMemFree_v2);
	check(calls("cuMemFree_v2") == 2);
	check(counted(CM_ENTRY_SYMBOL) == before + 1);
}

static void addresses_lead_to_our_wrappers(void)
{
	check((int)taken(NULL, 0) == number_cuMemAlloc_v2);
	check((int)taken(NULL, 0) == number_cuMemAlloc_v2);
	check(calls("cuMemAlloc_v2") == 2);
}

static void other_functions_are_left(void)
{
	check((int)cuCtxSynchronize() == number_cuCtxSynchronize);
	check((int)cuMemFree(0) == number_cuMemFree);
	check(calls("cuMemFree_v2") == 2);
}

/* The first call goes round by way of the search for the driver. */
static void all_arguments_arrive(void)
{
	const uintptr_t *(*get)(void) = (const uintptr_t *(*)(void))dlsym(RTLD_DEFAULT,
									  "driver_arguments");
	const uintptr_t *arguments = get();
	unsigned int round;
	uintptr_t i;

	for (round = 0; round < 2; round++) {
		check((int)cuLaunchKernel((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9,
					  (void **)10, (void **)11) == number_cuLaunchKernel);
		for (i = 0; i < 11; i++)
			check((unsigned int)arguments[i] == i + 1);
	}
}

static void the_resolver_hands_out_wrappers(void)
{
	void *function = NULL;

	check(cuGetProcAddress_v2("cuMemAlloc", &function, 3020, 0, NULL) == CUDA_SUCCESS);
	check(is_wrapper(function) && ((any_fn *)function)() == number_cuMemAlloc_v2);
}

int main(void)
{
	calls_pass_our_wrappers();
	addresses_lead_to_our_wrappers();
	other_functions_are_left();
	all_arguments_arrive();
	the_resolver_hands_out_wrappers();
	return check_failed;
}
