/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a 32-bit word that another process may have mapped, and waking who sleeps there:
 * futex(2) without FUTEX_PRIVATE_FLAG. Keeps no state. Thread-safe.
 */
#ifndef CM_STATS_FUTEX_H
#define CM_STATS_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats/tick.h"

#define CM_FUTEX_FOREVER UINT64_MAX

/*
 * Sleeps while *word is `value`, until cm_futex_wake on it, a signal, or `timeout_ns` nanoseconds
 * have passed. May return without a reason: the caller looks at the word again.
 */
static inline void cm_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	const struct timespec timeout = {(time_t)(timeout_ns / CM_NS_PER_S),
					 (long)(timeout_ns % CM_NS_PER_S)};

	(void)syscall(SYS_futex, word, FUTEX_WAIT, value,
		      timeout_ns == CM_FUTEX_FOREVER ? NULL : &timeout, NULL, 0);
}

/* Wakes all who sleep on the word. Never blocks. Returns how many were woken. */
static inline int cm_futex_wake(uint32_t *word)
{
	const long woken = syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);

	return woken > 0 ? (int)woken : 0;
}

#endif
