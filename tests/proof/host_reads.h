/* SPDX-License-Identifier: MIT */
/*
 * Areas of memory that the host reads, or writes again, behind a free and no other synchronisation:
 * a native free waits for the device.
 */
#ifndef CM_TESTS_PROOF_HOST_READS_H
#define CM_TESTS_PROOF_HOST_READS_H

#include "tests/proof/state.h"

/* The hand has freed, in a context's memory, what a native free waits for: what was submitted
 * before has arrived. */
void proof_read_behind_free(struct proof_hand *hand, unsigned ctx);

/* Whether an area is at the address. */
bool proof_is_area(CUdeviceptr addr);

/* The context goes, with all that is in it. */
void proof_forget_areas(unsigned ctx);

/* All of it is given back, once the contexts are idle. */
void proof_free_areas(struct proof_hand *hand);

#endif
