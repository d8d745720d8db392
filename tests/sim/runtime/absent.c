/* SPDX-License-Identifier: MIT */
/* Functions of what this device has not: they are there, and that is their answer. */
#include "runtime.h"

static void ignore(int first, ...)
{
	(void)first;
}

#define IGNORE(...) ignore(0, __VA_ARGS__)

#define CALL(name, need, params, args)        \
	cudaError_t rt_##name params          \
	{                                     \
		IGNORE args;                  \
		return cudaErrorNotSupported; \
	}
#include "absent.def"
#undef CALL
