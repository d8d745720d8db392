/* SPDX-License-Identifier: MIT */
/* What the driver exports: a function for each row of calls.def, around its implementation. */
#include "call.h"

#define EXPORT __attribute__((visibility("default")))

#define ENTRY(exported, name, params, args)                                    \
	EXPORT CUresult exported params                                        \
	{                                                                      \
		struct sim_frame frame;                                        \
		CUresult result = sim_call_enter(&frame, SIM_CALL_##exported); \
                                                                               \
		if (result == CUDA_SUCCESS)                                    \
			result = sim_##name args;                              \
		return sim_call_leave(&frame, result);                         \
	}

#define CALL(name, base, version, flags, params, args) ENTRY(name, name, params, args)
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args) \
	ENTRY(name, name, params, args)                                      \
	ENTRY(name##suffix, name, params, args)
#include "calls.def"
#undef CALL
#undef PAIR

/* The short spellings of the flags column. */
enum {
	ANYTIME = SIM_ANYTIME,
	CTX = SIM_CTX,
	UNSAFE = SIM_UNSAFE,
	NOLOCK = SIM_NOLOCK,
	SURE = SIM_SURE,
};

const struct sim_call_info sim_calls[SIM_CALL_COUNT] = {
#define CALL(name, base, version, flags, params, args) {#name, #base, version, flags, (void *)name},
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args)   \
	{#name, #base, version, flags, (void *)name},                          \
		{#name #suffix, #base, ptsz_version, (flags) | SIM_PER_THREAD, \
		 (void *)name##suffix},
#include "calls.def"
#undef CALL
#undef PAIR
};
