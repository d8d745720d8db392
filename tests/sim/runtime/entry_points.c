/* SPDX-License-Identifier: MIT */
/* What the runtime exports: a function for each row of runtime.def, around its implementation. */
#include "runtime.h"

#define EXPORT __attribute__((visibility("default")))

/* The short spellings of the need column. */
enum { NONE = RT_NONE, BIND = RT_BIND, INIT = RT_INIT, CTX = RT_CTX };

#define ENTRY(exported, name, need, per_thread, params, args)                   \
	EXPORT cudaError_t exported params                                      \
	{                                                                       \
		cudaError_t error = rt_enter((enum rt_need)need, per_thread);   \
                                                                                \
		return rt_leave(error == cudaSuccess ? rt_##name args : error); \
	}

#define CALL(name, need, params, args) ENTRY(name, name, need, false, params, args)
#define PAIR(name, suffix, need, params, args)       \
	ENTRY(name, name, need, false, params, args) \
	ENTRY(name##suffix, name, need, true, params, args)
#include "runtime.def"
#undef CALL
#undef PAIR
