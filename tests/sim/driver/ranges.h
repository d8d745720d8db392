/* SPDX-License-Identifier: MIT */
/*
 * Memory outside the devices' ranges, ordered by address. Caller locks.
 */
#ifndef CM_SIM_RANGES_H
#define CM_SIM_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_mem;

/* 0 or -ENOMEM. Ranges do not overlap, but a reserved one may hold mapped ones. */
int sim_ranges_add(struct sim_mem *mem);
void sim_ranges_remove(const struct sim_mem *mem);

/* The innermost range that holds the address, or NULL. */
struct sim_mem *sim_ranges_find(uint64_t addr);

/* True when some range begins inside this one. */
bool sim_ranges_any(uint64_t addr, uint64_t bytes);

#endif
