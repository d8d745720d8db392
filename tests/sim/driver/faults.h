/* SPDX-License-Identifier: MIT */
/*
 * Planned failures: the n-th call of a name, or of any, answers an error and does nothing. Some
 * errors are sticky, as with the real driver: they break the current context for good. Thread-safe.
 */
#ifndef CM_SIM_FAULTS_H
#define CM_SIM_FAULTS_H

#include "call.h"

#include <stdatomic.h>

/* Calls are counted: since a failure was planned, or the counts asked for. */
extern _Atomic bool sim_faults_counting;

/* False while no failure is to come: then nothing is counted. */
static inline bool sim_faults_armed(void)
{
	return atomic_load_explicit(&sim_faults_counting, memory_order_relaxed);
}

/* The failure planned for this call, or CUDA_SUCCESS. */
CUresult sim_faults_next(enum sim_call call);

/* Plans one more: the n-th from now, of the call (SIM_CALL_COUNT: any that can fail). */
bool sim_faults_add(enum sim_call call, uint64_t n, CUresult code);
/* What the plan holds takes effect. */
void sim_faults_start(void);
void sim_faults_clear(void);

#endif
