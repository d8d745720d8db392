/* SPDX-License-Identifier: MIT */
/*
 * What the checker found, as text: told on stderr, kept, and the end of the process where the plan
 * says so. Caller locks.
 */
#ifndef CM_SIM_ACCUSE_H
#define CM_SIM_ACCUSE_H

#include "owners.h"

/* The access of the new owner, whose order is `known`, may meet the old one. */
void sim_accuse_early(const struct sim_access *old, const struct sim_access *new,
		      const struct sim_vector *known);
/* Allocated while the old owner lives. */
void sim_accuse_twice(const struct sim_holding *old, const struct sim_holding *new);
/* An allocator gave the driver back what somebody owns. */
void sim_accuse_return(const struct sim_holding *old);

uint64_t sim_accusations(void);
/* The n-th, from 0, or NULL. */
const char *sim_accusation(uint64_t n);

#endif
