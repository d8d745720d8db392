/* SPDX-License-Identifier: MIT */
/* Functions of what this device has not: they are there, and that is their answer. */
#include "call.h"

static void ignore(int first, ...)
{
	(void)first;
}

#define IGNORE(...) ignore(0, __VA_ARGS__)

#define CALL(name, base, version, flags, params, args) \
	CUresult sim_##name params                     \
	{                                              \
		IGNORE args;                           \
		return CUDA_ERROR_NOT_SUPPORTED;       \
	}
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args) \
	CALL(name, base, version, flags, params, args)
#include "absent.def"
#undef CALL
#undef PAIR
