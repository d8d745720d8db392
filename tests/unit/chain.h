/* SPDX-License-Identifier: MIT */
/*
 * Chains of calls whose stack is known: chain.c, compiled in several ways. Every function notes its
 * own return address, so the trail read backwards is the stack.
 */
#ifndef CM_TESTS_UNIT_CHAIN_H
#define CM_TESTS_UNIT_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#define TRAIL_MAX 4096

extern uint64_t trail[TRAIL_MAX];
extern size_t trail_count;

#define TRAIL_ADD() (trail[trail_count++] = (uintptr_t)__builtin_return_address(0))

typedef void chain_fn(void);

/* Calls `end` through `depth` functions of different shapes. */
#define CHAIN(name) int chain_##name(unsigned depth, chain_fn *end);
CHAIN(O0)
CHAIN(O0_omit)
CHAIN(O2)
CHAIN(O2_frame)
CHAIN(O3)
#undef CHAIN

#endif
