/* SPDX-License-Identifier: MIT */
#include "allocator/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The critical sections are shorter than a system call: try this often before sleeping. */
#define SPINS 100

/*
 * The pauses between two looks at the word grow. The data that the lock guards is in the caches of
 * its holder's processor, and costs another one several times as much; so a thread that takes the
 * lock often should get it several times in a row. Pauses are counted in cm_relax(), which took 28
 * ns where it was measured: the first pause takes 0.2 us, a later one 3.6 us and all of them
 * together a tenth of a millisecond. If nobody has taken the lock at STILL_LOOKS looks in a row,
 * which take some 20 us, its holder is probably not on a processor: then this one is of more use to
 * it than to a thread that looks.
 */
#define FIRST_REST   8
#define LONGEST_REST 128
#define LOOKS        36
#define STILL_LOOKS  8
#define WAKE_NS      50000 /* to wake a thread; with the timer's slack it is twice as much */
/* This many system calls, even refused ones, last a thousand times as long as a store takes to be
 * seen. */
#ifndef SETTLING_CALLS
#define SETTLING_CALLS 100000
#endif

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_one(_Atomic uint32_t *word)
{
	int saved = errno;

	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

void cm_lock_init(struct cm_lock *lock, enum cm_lock_rank rank, uint32_t row)
{
	uint32_t i;

	lock->rank = (uint8_t)rank;
	lock->row = (uint8_t)row;
	atomic_init(&lock->word, 0);
	atomic_init(&lock->bias_owner, 0);
	atomic_init(&lock->takes, 0);
	lock->by_word = false;
	lock->last = lock->streak = lock->lender = 0;
	for (i = 0; i < CM_LOCK_FLAGS; i++) {
		atomic_init(&lock->flag[i], 0);
		lock->owner[i] = 0;
	}
}

/* --- the bias ------------------------------------------------------------------------------ */

/* 0: not asked yet, 1: the kernel has the barrier, -1: it does not, or no longer. */
static _Atomic int agreed;

static bool barrier(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* A forked child inherits the registration. */
void cm_lock_agree(void)
{
	int saved = errno;
	bool has;

	if (atomic_load_explicit(&agreed, memory_order_relaxed))
		return;
	has = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) &&
	      barrier();
	atomic_store_explicit(&agreed, has ? 1 : -1, memory_order_relaxed);
	errno = saved;
}

/*
 * A full barrier on every processor that runs a thread of the process. If a filter makes the kernel
 * refuse it later, only time helps: a processor's stores reach memory by themselves, within
 * microseconds, and a thread that is interrupted between its store and its load loads again. From
 * then on no thread gets the bias.
 */
static void barrier_everywhere(void)
{
	uint32_t i;

	if (barrier())
		return;
	atomic_store_explicit(&agreed, -1, memory_order_relaxed);
	for (i = 0; i < SETTLING_CALLS; i++)
		(void)sched_yield();
}

/* The holder of the word becomes the bias owner, if its flag is free or its own. */
static void bias(struct cm_lock *lock, uint32_t self)
{
	uint32_t *owner = &lock->owner[self % CM_LOCK_FLAGS];

	if ((*owner && *owner != self) || atomic_load_explicit(&agreed, memory_order_relaxed) <= 0)
		return;
	*owner = self;
	atomic_store_explicit(&lock->bias_owner, self, memory_order_relaxed);
}

/* The holder of the word ends the bias, and waits until its owner has left the lock. */
static void end_bias(struct cm_lock *lock, uint32_t bias_owner)
{
	_Atomic uint32_t *flag = &lock->flag[bias_owner % CM_LOCK_FLAGS];
	int i;

	atomic_store(&lock->bias_owner, 0);
	barrier_everywhere();
	for (i = 0; i < SPINS && atomic_load(flag); i++)
		cm_relax();
	while (atomic_load(flag))
		sleep_while(flag, 1);
}

/* The same without waiting: a bias owner that is inside stays the bias owner. */
static bool try_end_bias(struct cm_lock *lock, uint32_t bias_owner)
{
	_Atomic uint32_t *flag = &lock->flag[bias_owner % CM_LOCK_FLAGS];

	if (atomic_load(flag))
		return false; /* which spares the barrier */
	atomic_store(&lock->bias_owner, 0);
	barrier_everywhere();
	if (!atomic_load(flag))
		return true;
	/* Before the word is free: the next holder has to look at the flag. */
	atomic_store(&lock->bias_owner, bias_owner);
	return false;
}

void cm_lock_lower(struct cm_lock *lock, uint32_t self)
{
	_Atomic uint32_t *flag = &lock->flag[self % CM_LOCK_FLAGS];

	atomic_store(flag, 0);
	wake_one(flag);
}

/* --- the word -------------------------------------------------------------------------------- */

static bool try_word(struct cm_lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

/* With the barrier no look at the word begins early. The processor predicts where the loop ends,
 * and would read the word, and so take its line from the holder, while it still pauses. */
static void relax_for(int rest)
{
	for (; rest; rest--)
		cm_relax();
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#endif
}

/* A hint, for which any value does: tests/model leaves it out of what it explores. */
#ifndef HINT
#define HINT
#endif

static HINT uint8_t takes_of(const struct cm_lock *lock)
{
	return atomic_load_explicit(&lock->takes, memory_order_relaxed);
}

static HINT void note_take(struct cm_lock *lock)
{
	atomic_store_explicit(&lock->takes, (uint8_t)(takes_of(lock) + 1), memory_order_relaxed);
}

static CM_NOINLINE void wait_for_word(struct cm_lock *lock)
{
	uint8_t seen = takes_of(lock), takes;
	int look, still = 0, rest = FIRST_REST;

	for (look = 0; look < LOOKS && still < STILL_LOOKS; look++) {
		relax_for(rest);
		cm_thread.pauses += lock->rank == CM_LOCK_DEVICE ? (uint32_t)rest : 0;
		if (!atomic_load_explicit(&lock->word, memory_order_relaxed) && try_word(lock))
			return;
		takes = takes_of(lock);
		still = takes == seen ? still + 1 : 0;
		seen = takes;
		if (rest < LONGEST_REST)
			rest *= 2;
	}
	/* From here the word is 2 while we hold it: one wake too many, never one too few. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		sleep_while(&lock->word, 2);
}

/* Only the holder of the word changes this. */
static uint32_t bias_owner_of(const struct cm_lock *lock)
{
	return atomic_load_explicit(&lock->bias_owner, memory_order_relaxed);
}

/* This thread has taken the word, and no other thread has the bias: it may earn the bias. */
static void enter(struct cm_lock *lock, uint32_t self)
{
	lock->by_word = true;
	note_take(lock);
	if (lock->last != self) {
		lock->last = self;
		lock->streak = 0;
	}
	if (CM_UNLIKELY(++lock->streak % CM_LOCK_STREAK == 0))
		bias(lock, self);
}

void cm_lock_acquire_word(struct cm_lock *lock, uint32_t self)
{
	int saved = errno;

	if (CM_UNLIKELY(!try_word(lock)))
		wait_for_word(lock);
	if (CM_UNLIKELY(bias_owner_of(lock)))
		end_bias(lock, bias_owner_of(lock));
	enter(lock, self);
	errno = saved;
}

bool cm_lock_try_word(struct cm_lock *lock, uint32_t self)
{
	int saved = errno;
	uint32_t lender;
	bool had;

	if (!try_word(lock))
		return false;
	lender = bias_owner_of(lock);
	had = !lender || try_end_bias(lock, lender);
	if (had) {
		enter(lock, self);
		lock->lender = lender;
	} else {
		cm_lock_release_word(lock);
	}
	errno = saved;
	return had;
}

void cm_lock_release_word(struct cm_lock *lock)
{
	if (CM_UNLIKELY(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
		wake_one(&lock->word);
}

void cm_lock_release_lent(struct cm_lock *lock) CM_UNCHECKED
{
	const uint32_t lender = lock->lender;

	if (!lock->by_word || !lender || bias_owner_of(lock) ||
	    atomic_load_explicit(&agreed, memory_order_relaxed) <= 0) {
		cm_lock_release(lock);
		return;
	}
	cm_lock_note_released(lock);
	lock->by_word = false;
	/* From here on the bias owner may be inside, although the word is taken. */
	atomic_store(&lock->bias_owner, lender);
	cm_lock_release_word(lock);
}

/* A thread that spins takes the lock within a rest. One that sleeps needs longer to wake up, and
 * would find the lock taken again each time. */
static void sleep_while_it_wakes(void)
{
	const struct timespec wake_time = {.tv_nsec = WAKE_NS};
	int saved = errno;

	(void)nanosleep(&wake_time, NULL);
	errno = saved;
}

void cm_lock_let_in(struct cm_lock *lock, bool rests) CM_UNCHECKED
{
	const bool has_sleeper = atomic_load_explicit(&lock->word, memory_order_relaxed) == 2;

	rests &= lock->by_word;
	cm_lock_release(lock);
	if (has_sleeper)
		sleep_while_it_wakes();
	else if (rests)
		relax_for(LONGEST_REST);
	cm_lock_acquire(lock);
}
