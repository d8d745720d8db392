/* SPDX-License-Identifier: MIT */
/*
 * The order of locks: each lock has a rank and, where a rank has a lock per device, the device's
 * row. A thread waits for a lock only if it is of a higher rank, or of the same rank and a higher
 * row, than every lock that it holds; so no threads can wait for each other. Builds with assert()
 * check it at each lock, and end the process with the names of both locks. A trylock may be of any
 * rank, as it never waits; once held, its lock counts.
 */
#ifndef CM_ALLOCATOR_BASE_LOCK_ORDER_H
#define CM_ALLOCATOR_BASE_LOCK_ORDER_H

#include <stdint.h>

enum cm_lock_rank {
	CM_LOCK_UNRANKED, /* a lock without cm_lock_init, which must not be taken */
#define CM_LOCK_RANK(name) CM_LOCK_##name,
#include "allocator/base/lock_ranks.def"
#undef CM_LOCK_RANK
	CM_LOCK_RANKS
};

#ifdef NDEBUG
struct cm_lock_holds {
};
#define cm_lock_check_order(lock)   ((void)0)
#define cm_lock_note_held(lock)     ((void)0)
#define cm_lock_note_released(lock) ((void)0)
#else
/* The locks that a thread holds, by rank; part of struct cm_thread. */
struct cm_lock_holds {
	uint8_t count[CM_LOCK_RANKS];
	uint8_t row[CM_LOCK_RANKS]; /* no held lock of the rank has a higher row */
};

struct cm_lock;

/* Before a lock is waited for, once it is held, and before it is released. */
void cm_lock_check_order(const struct cm_lock *lock);
void cm_lock_note_held(const struct cm_lock *lock);
void cm_lock_note_released(const struct cm_lock *lock);
#endif

#endif
