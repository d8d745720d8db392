/* SPDX-License-Identifier: MIT */
/*
 * A small lock: one word, a futex when contended, biased towards the thread that takes it most. Not
 * recursive, not fair. docs/architecture.md has the table of locks; lock_order.h checks their
 * order.
 *
 * Bias. Most programs allocate from one thread, and a locked instruction each way is then a good
 * part of a request. A thread that has had the word CM_LOCK_STREAK times in a row becomes the bias
 * owner, and from then on enters by raising a flag of its own: a plain store, then a look whether
 * it is still the bias owner. Another thread takes the word as usual, and then ends the bias: it
 * clears `bias_owner`, lets membarrier(2) run a full barrier on every processor that runs a thread
 * of the process, and waits until the flag is down. If the bias owner's load came before that
 * barrier, its flag is seen; if it came after, the bias owner sees that the bias is gone, lowers
 * the flag and takes the word. A trylock never waits: if the owner's flag is set, the bias stays,
 * and the trylock releases the word and fails. (The asymmetric form of Dekker's algorithm;
 * Kawachiya, Koseki and Onodera, "Lock reservation", OOPSLA 2002, for the idea.) A thread may raise
 * its flag long after it has lost the bias, so a flag belongs to one thread for ever: a later
 * thread whose id leads to the same flag never becomes the bias owner.
 */
#ifndef CM_ALLOCATOR_BASE_LOCK_H
#define CM_ALLOCATOR_BASE_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock_order.h"
#include "allocator/base/thread.h"

#define CM_LOCK_FLAGS  4u
#define CM_LOCK_STREAK 4096u /* a revocation costs about as much as that many locked instructions */

struct CM_CAPABILITY("lock") cm_lock {
	_Atomic uint32_t flag[CM_LOCK_FLAGS]; /* 1: its thread is inside, or tries; a futex */
	_Atomic uint32_t word;                /* 0 free, 1 held, 2 held and somebody waits */
	_Atomic uint32_t bias_owner; /* a thread's id, 0: none; changed by the holder of the word */

	uint8_t rank; /* enum cm_lock_rank; with the row set before the lock is shared */
	uint8_t row;

	/* How often the word was taken, modulo 256: there is room for no more, as a lock shares a
	 * cache line with what it guards. Changed by its holder. */
	_Atomic uint8_t takes;

	/* Guarded by the lock. */
	bool by_word;  /* how the holder came in */
	uint32_t last; /* the thread that took the word last, and how often in a row */
	uint32_t streak;
	uint32_t owner[CM_LOCK_FLAGS]; /* of the flags, for good */
	uint32_t lender; /* whose bias the trylock that took the word has ended, 0: nobody's */
};

/* A free lock of that rank; `row` tells the locks of a rank apart, and is below 256. */
void cm_lock_init(struct cm_lock *lock, enum cm_lock_rank rank, uint32_t row);
#define CM_LOCK_FREE(lock_rank)     \
	{                           \
		.rank = (lock_rank) \
	}

/* A moment in a loop that waits for another processor. */
static inline void cm_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

/* Registers for the barrier with the kernel, once in a process; before that no thread gets the
 * bias. In a process of several threads it waits for a grace period of the kernel, 7 to 16 ms: call
 * it with no lock held. */
void cm_lock_agree(void);

/* The slow part of the three functions below: the caller is not the bias owner. */
void cm_lock_acquire_word(struct cm_lock *lock, uint32_t self);
bool cm_lock_try_word(struct cm_lock *lock, uint32_t self); /* waits for nobody */
void cm_lock_release_word(struct cm_lock *lock);
/*
 * Releases the lock and acquires it again. With `rests`, any thread that spins for it tries at
 * least once in between, unless the caller is the bias owner: then no thread has wanted it for
 * long. If a thread sleeps for the lock, as it does once it has spun for long, the caller sleeps
 * for some 0.1 ms, so that it wakes up to a free lock.
 */
void cm_lock_let_in(struct cm_lock *lock, bool rests);
/* Releases a lock that a trylock has taken for a moment. If that ended another thread's bias, the
 * thread has the bias again. */
void cm_lock_release_lent(struct cm_lock *lock);
/* Lowers the caller's flag after its bias has ended. */
void cm_lock_lower(struct cm_lock *lock, uint32_t self);

/* ThreadSanitizer does not know membarrier(2): under it both sides use barriers of their own. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CM_LOCK_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(CM_LOCK_TSAN)
#define CM_LOCK_RAISE memory_order_seq_cst
#define CM_LOCK_LOWER memory_order_seq_cst
#define CM_LOCK_LOOK  memory_order_seq_cst
#else
#define CM_LOCK_RAISE memory_order_relaxed
#define CM_LOCK_LOWER memory_order_release
#define CM_LOCK_LOOK  memory_order_acquire
#endif

CM_ALWAYS_INLINE bool cm_lock_is_bias_owner(struct cm_lock *lock, uint32_t self)
{
	return atomic_load_explicit(&lock->bias_owner, CM_LOCK_LOOK) == self;
}

static inline bool cm_lock_flag_is_up(const struct cm_lock *lock, uint32_t self)
{
	return atomic_load_explicit(&lock->flag[self % CM_LOCK_FLAGS], memory_order_relaxed) != 0;
}

CM_ALWAYS_INLINE bool cm_lock_enter_by_flag(struct cm_lock *lock, uint32_t self)
{
	if (CM_UNLIKELY(!cm_lock_is_bias_owner(lock, self)))
		return false;
	assert(!cm_lock_flag_is_up(lock, self));
	atomic_store_explicit(&lock->flag[self % CM_LOCK_FLAGS], 1, CM_LOCK_RAISE);
	/* Orders the compiler; membarrier(2) on the other side orders the processor. */
	atomic_signal_fence(memory_order_seq_cst);
	if (CM_UNLIKELY(!cm_lock_is_bias_owner(lock, self))) {
		cm_lock_lower(lock, self);
		return false;
	}
	return true;
}

/* `self` is the calling thread's id, not 0. */
CM_ALWAYS_INLINE void cm_lock_acquire_as(struct cm_lock *lock, uint32_t self)
	CM_ACQUIRES(lock) CM_UNCHECKED
{
	assert(self);
	cm_lock_check_order(lock);
	if (CM_UNLIKELY(!cm_lock_enter_by_flag(lock, self)))
		cm_lock_acquire_word(lock, self);
	cm_lock_note_held(lock);
}

CM_ALWAYS_INLINE void cm_lock_acquire(struct cm_lock *lock) CM_ACQUIRES(lock) CM_UNCHECKED
{
	cm_lock_acquire_as(lock, cm_thread_id());
}

CM_ALWAYS_INLINE bool cm_lock_try(struct cm_lock *lock) CM_TRIES(true, lock) CM_UNCHECKED
{
	const uint32_t self = cm_thread_id();

	/* A bias owner that is inside holds the lock already. */
	if (cm_lock_is_bias_owner(lock, self) && cm_lock_flag_is_up(lock, self))
		return false;
	if (!cm_lock_enter_by_flag(lock, self) && !cm_lock_try_word(lock, self))
		return false;
	cm_lock_note_held(lock);
	return true;
}

CM_ALWAYS_INLINE void cm_lock_release_as(struct cm_lock *lock, uint32_t self)
	CM_RELEASES(lock) CM_UNCHECKED
{
	cm_lock_note_released(lock);
	if (CM_UNLIKELY(lock->by_word)) {
		lock->by_word = false;
		cm_lock_release_word(lock);
		return;
	}
	atomic_store_explicit(&lock->flag[self % CM_LOCK_FLAGS], 0, CM_LOCK_LOWER);
	atomic_signal_fence(memory_order_seq_cst);
	if (CM_UNLIKELY(!cm_lock_is_bias_owner(lock, self)))
		cm_lock_lower(lock, self);
}

CM_ALWAYS_INLINE void cm_lock_release(struct cm_lock *lock) CM_RELEASES(lock) CM_UNCHECKED
{
	cm_lock_release_as(lock, cm_thread_id());
}

/* For assert(): some thread holds it. */
static inline bool cm_lock_is_held(const struct cm_lock *lock)
{
	uint32_t i, held = atomic_load_explicit(&lock->word, memory_order_relaxed);

	for (i = 0; i < CM_LOCK_FLAGS; i++)
		held |= atomic_load_explicit(&lock->flag[i], memory_order_relaxed);
	return held != 0;
}

/* The value of an expression that is read with the lock held. */
#define CM_WITH_LOCK(lock, expression)                  \
	__extension__({                                 \
		struct cm_lock *const cm_held = (lock); \
		cm_lock_acquire(cm_held);               \
		__auto_type cm_value = (expression);    \
		cm_lock_release(cm_held);               \
		cm_value;                               \
	})

#endif
