/* SPDX-License-Identifier: MIT */
/*
 * A small lock: one word, a futex when contended. Uncontended it costs one atomic exchange each
 * way (12 ns a pair; a pthread mutex 18, reference measurement in docs/decisions.md). Not
 * recursive, not fair. The device's lock is held for tens of nanoseconds and never across a driver
 * call. Two locks are: a device's slow lock, which orders those that give memory back and those that
 * ask again after a failure, and the cache's turn, which orders those that record and query events.
 *
 * Order: slow lock, turn, the pinned memory's lock or that of other memory, lock of a device (by
 * rising row), the tables' lock.
 */
#ifndef CM_ALLOCATOR_LOCK_H
#define CM_ALLOCATOR_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/attr.h"

struct CM_CAPABILITY("lock") cm_lock {
	_Atomic int word; /* 0 free, 1 held, 2 held and somebody waits */
};

void cm_lock_wait(struct cm_lock *lock);
void cm_lock_wake(struct cm_lock *lock);

CM_ALWAYS_INLINE void cm_lock_init(struct cm_lock *lock)
{
	atomic_init(&lock->word, 0);
}

CM_ALWAYS_INLINE void cm_lock_acquire(struct cm_lock *lock) CM_ACQUIRES(lock) CM_UNCHECKED
{
	int expected = 0;

	if (CM_UNLIKELY(!atomic_compare_exchange_strong_explicit(
		    &lock->word, &expected, 1, memory_order_acquire, memory_order_relaxed)))
		cm_lock_wait(lock);
}

CM_ALWAYS_INLINE bool cm_lock_try(struct cm_lock *lock) CM_TRIES(true, lock) CM_UNCHECKED
{
	int expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

CM_ALWAYS_INLINE void cm_lock_release(struct cm_lock *lock) CM_RELEASES(lock) CM_UNCHECKED
{
	if (CM_UNLIKELY(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
		cm_lock_wake(lock);
}

/* For assert(): somebody holds it. */
CM_ALWAYS_INLINE bool cm_lock_is_held(const struct cm_lock *lock)
{
	return atomic_load_explicit(&lock->word, memory_order_relaxed) != 0;
}

#endif
