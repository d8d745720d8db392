/* SPDX-License-Identifier: MIT */
/* What the runtime of instant_runtime.c counts. */
#ifndef CM_BENCH_INSTANT_RUNTIME_H
#define CM_BENCH_INSTANT_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls so far. */
uint64_t instant_runtime_calls(void);

#ifdef __cplusplus
}
#endif

#endif
