/* SPDX-License-Identifier: MIT */
/*
 * What the simulated driver offers beyond CUDA: its counters, its clock, failures on demand. Found
 * by dlsym() in libcuda.so.1, where a real driver has none of these names. All of it is
 * thread-safe; nothing of it counts as a driver call or takes time.
 */
#ifndef CM_SIM_CUDASIM_H
#define CM_SIM_CUDASIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the driver, where none is planned. */
#define CUDASIM_VERSION 13050

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

/* An allocation that lives, or all the memory of cuMemCreate on a device. */
struct cudasim_holding {
	const char *made_by; /* the function, without a suffix */
	uint64_t addr;       /* 0: it has none */
	uint64_t bytes;
	uint64_t count; /* of allocations */
	int device;     /* -1: of none */
	int error;      /* that has broken its context, or one of the device */
};

/* All of them, the newest first; at most `room` of them. How many there are. */
unsigned cudasim_holdings(struct cudasim_holding *holdings, unsigned room);

/*
 * The n-th call from now (1: the next) of an exported or base name, or of any function when name is
 * NULL, answers `code` instead of being carried out. 0, or -1 when there is no such name or room.
 */
int cudasim_fail(const char *name, uint64_t n, int code);
/* Takes all planned failures back and counts calls anew. */
void cudasim_clear_failures(void);

/*
 * Once, before the n-th call of any function that the calling thread makes from now on (1: the
 * next), whoever in the process makes it: runs `meanwhile`, which may let another thread go on, and
 * then the call. 0 takes it back.
 */
void cudasim_interrupt(uint64_t n, void (*meanwhile)(void *data), void *data);

/* One word of the plan, "key:value", as in CUDASIM. 0, or -1 when it is not understood. */
int cudasim_plan(const char *word);

/*
 * The checker: memory that had an owner before must not be touched by the new one while work of the
 * old one can still run, in any schedule that CUDA's rules allow. README.md says what orders what.
 * It is on where the plan says check:stop or check:record; otherwise all of this does nothing and
 * answers 0.
 */

/* Whether it is on. */
int cudasim_checking(void);

/*
 * The calling thread reads or writes pinned, managed or registered memory by itself. Device memory
 * too, for one who reaches it through a mapping of his own; other memory of the host is ignored.
 */
void cudasim_host_read(const void *addr, size_t bytes);
void cudasim_host_write(const void *addr, size_t bytes);

/* What has been found so far, and the n-th of it (from 0) as text: as snprintf() answers. */
uint64_t cudasim_violations(void);
size_t cudasim_violation(uint64_t n, char *text, size_t room);

/* What it has looked at. */
struct cudasim_checked {
	uint64_t allocations; /* of memory to an owner, by the driver or an allocator */
	uint64_t accesses;    /* by works and by the host, of memory that has an owner */
	uint64_t strays;      /* of memory that has none: the program's own mistake */
	uint64_t comparisons; /* of an access with one of an earlier owner */
	uint64_t lines;       /* clocks kept: streams, threads, branches of graphs */
	uint64_t forgotten;   /* clocks given up to keep them few, their order taken for granted */
};
void cudasim_checked(struct cudasim_checked *ret_checked);

/*
 * For an allocator over the driver's memory: the checker has to know who owns what as the program
 * sees it. tests/checked tells it of libcudamem.so, and a program with a heap of its own may.
 */

/* The calling thread got this memory. `on_host`: its owner's CPU may touch it from now on. */
void cudasim_allocated(const void *addr, size_t bytes, int on_host);
/* The calling thread is about to free what was allocated there; 0 if nothing is. */
int cudasim_freed(const void *addr);
/* That free failed, and nobody else can have got the memory: its owner still has it. */
void cudasim_not_freed(const void *addr);

/*
 * Between these the calling thread works for the allocator: what the driver tells it (an event has
 * completed, the context is idle) is known to the allocator, and holds for what it allocates from
 * then on to any thread; the program itself has learnt nothing. They nest.
 */
void cudasim_allocator_enter(void);
void cudasim_allocator_leave(void);
/* What the calling thread has learnt, as by a wait of the program's own, the allocator knows
 * too. */
void cudasim_allocator_is_told(void);
/* What the allocator knows holds for all that it has allocated so far, too. */
void cudasim_allocator_settles(void);

#ifdef __cplusplus
}
#endif

#endif
