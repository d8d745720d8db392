/* SPDX-License-Identifier: MIT */
/*
 * What the simulated driver offers beyond CUDA: its counters, its clock, failures on demand. Found
 * by dlsym() in libcuda.so.1, where a real driver has none of these names. All of it is
 * thread-safe; nothing of it counts as a driver call or takes time.
 */
#ifndef CM_SIM_CUDASIM_H
#define CM_SIM_CUDASIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cudasim_counter {
	const char *name; /* exported name of the function */
	uint64_t calls;
	uint64_t ns; /* simulated time inside it, waits included */
};

/* All exported functions in a fixed order; at most `room` of them. How many there are. */
unsigned cudasim_counters(struct cudasim_counter *counters, unsigned room);
/* Calls of one function by its exported name; of all functions when name is NULL. */
uint64_t cudasim_calls(const char *name);
void cudasim_reset_counters(void);

/* Nanoseconds since the first call of the process. */
uint64_t cudasim_now(void);
/* Lets time pass; in virtual time at once. What ends meanwhile ends. */
void cudasim_advance(uint64_t ns);
/* Lets all submitted work end that ends by itself. */
void cudasim_complete_all(void);

/* Of one device: allocations that live, bytes of the card in use and at most so far. */
uint64_t cudasim_live_allocations(int device);
uint64_t cudasim_used_bytes(int device);
uint64_t cudasim_peak_bytes(int device);

/*
 * The n-th call from now (1: the next) of an exported or base name, or of any function when name is
 * NULL, answers `code` instead of being carried out. 0, or -1 when there is no such name or room.
 */
int cudasim_fail(const char *name, uint64_t n, int code);
/* Takes all planned failures back and counts calls anew. */
void cudasim_clear_failures(void);
/* Calls that a failure of any function could have hit, since the start or the last clearing. */
uint64_t cudasim_failable_calls(void);

/* One word of the plan, "key:value", as in CUDASIM. 0, or -1 when it is not understood. */
int cudasim_plan(const char *word);

#ifdef __cplusplus
}
#endif

#endif
