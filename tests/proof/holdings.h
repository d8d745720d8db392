/* SPDX-License-Identifier: MIT */
/*
 * What a random program sees of the library beside CUDA: its API and its region, where it is
 * loaded. All but cm_holdings_cpu_* are for one thread at a time.
 */
#ifndef CM_TESTS_PROOF_HOLDINGS_H
#define CM_TESTS_PROOF_HOLDINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the library is loaded; whether the driver is the simulated one. */
bool cm_holdings_are_here(void);
bool cm_holdings_driver_is_simulated(void);
/* Whether it passes all memory on to the driver: a free is a native one then. */
bool cm_holdings_pass_on(void);

/* One of the things that a program can ask of the library. Nothing where it is not here. */
void cm_holdings_trim(unsigned what);

/* Driver allocations that the cache has; 0 where the library is not here. */
uint64_t cm_holdings_segments(void);

/* The region of this process, in the folder REGIONS. False: it has none. */
bool cm_holdings_find_region(char ret_path[PATH_MAX]);

/* What the simulated card has given and not got back; 0 of another one. */
uint64_t cm_holdings_card_bytes(int device);

/* Tells the simulated driver that the CPU touches pinned memory, which it can't see. */
void cm_holdings_cpu_writes(const volatile void *addr, size_t bytes);
void cm_holdings_cpu_reads(const volatile void *addr, size_t bytes);

/* What the program has of cuMemAlloc. */
struct cm_holdings {
	uint64_t blocks;
	uint64_t bytes;
};

/*
 * Compares the process's own region with itself and with what the program has (NULL: nobody knows).
 * NULL, or a complaint that stands until the next call.
 */
const char *cm_holdings_compare(const struct cm_holdings *held);

#endif
