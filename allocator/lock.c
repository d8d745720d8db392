/* SPDX-License-Identifier: MIT */
#include "allocator/lock.h"

#include <errno.h>
#include <stddef.h>

/* The critical sections are shorter than a system call: look again this often before sleeping. */
#define SPINS 100

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

CM_NOINLINE void cm_lock_wait(struct cm_lock *lock)
{
	int i, expected, saved = errno;

	for (i = 0; i < SPINS; i++) {
		expected = 0;
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(
			    &lock->word, &expected, 1, memory_order_acquire, memory_order_relaxed))
			return;
		relax();
	}
	/* From here the word is 2 while we hold it: one wake too many, never one too few. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		(void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	errno = saved;
}

CM_NOINLINE void cm_lock_wake(struct cm_lock *lock)
{
	int saved = errno;

	(void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
