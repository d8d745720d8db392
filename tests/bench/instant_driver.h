/* SPDX-License-Identifier: MIT */
/* What the driver of instant_driver.c counts. */
#ifndef CM_BENCH_INSTANT_DRIVER_H
#define CM_BENCH_INSTANT_DRIVER_H

#include <stdint.h>

/* Calls so far that the simulated driver has not seen: but for cuCtxGetCurrent, and of that
 * alone. */
uint64_t instant_driver_calls(void);
uint64_t instant_driver_current_calls(void);

#endif
