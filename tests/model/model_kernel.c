/* SPDX-License-Identifier: MIT */
/* The system calls of the model: futexes, barriers on every processor, and the clock. */
#include "tests/model/model_parts.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

/* The kernel looks under a lock of the address: who wakes comes before or after. */
static long futex_wait(const void *addr, uint32_t expected, bool timed)
{
	struct location *location;
	struct thread *thread;

	model_step();
	thread = model_self();
	location = model_locate(addr, sizeof(expected));
	model_join(&thread->view, &location->futex);
	if ((uint32_t)model_load(location, __ATOMIC_RELAXED) != expected) {
		model_join(&location->futex, &thread->view);
		errno = EAGAIN;
		return -1;
	}
	model_join(&location->futex, &thread->view);
	thread->state = WAITING;
	thread->waits_on = addr;
	thread->timed = timed;
	thread->timed_out = false;
	model_schedule();
	thread->timed = false;
	thread->waits_on = NULL;
	model_join(&thread->view, &location->futex);
	if (!thread->timed_out)
		return 0;
	model_run.now_ns += UINT64_C(1000000000000);
	errno = ETIMEDOUT;
	return -1;
}

static long futex_wake(const void *addr, unsigned n)
{
	struct location *location;
	long woken = 0;
	unsigned i;

	model_step();
	location = model_locate(addr, 4);
	model_join(&model_self()->view, &location->futex);
	model_join(&location->futex, &model_self()->view);
	for (i = 0; i < model_run.threads && (unsigned)woken < n; i++) {
		struct thread *thread = &model_run.thread[i];

		if (thread->state == WAITING && thread->waits_on == addr) {
			thread->state = READY;
			thread->timed = false;
			woken++;
		}
	}
	return woken;
}

bool model_without_membarrier;
bool model_refuses_membarrier;

/* Every processor of the process orders its accesses, at some moment of the call. */
static long membarrier(void)
{
	unsigned i;

	model_step();
	model_fence_sc(model_self());
	for (i = 0; i < model_run.threads; i++)
		model_fence_sc(&model_run.thread[i]);
	model_fence_sc(model_self());
	return 0;
}

void model_settle(void)
{
	(void)membarrier();
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	const struct timespec *timeout;
	const void *addr;
	va_list args;
	int what;
	unsigned value;

	if (number == SYS_membarrier && model_refuses_membarrier)
		return -1;
	if (number == SYS_membarrier)
		return model_run.running && !model_without_membarrier ? membarrier() : 0;
	if (number != SYS_futex)
		model_fail("a system call that the model does not know");
	va_start(args, number);
	addr = va_arg(args, const void *);
	what = va_arg(args, int) & ~FUTEX_PRIVATE_FLAG;
	value = va_arg(args, unsigned);
	timeout = va_arg(args, const struct timespec *);
	va_end(args);
	/* Who waits for years does not see the end of it. */
	return what == FUTEX_WAIT ? futex_wait(addr, value, timeout && timeout->tv_sec < 1000000000)
				  : futex_wake(addr, value);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	ret_now->tv_sec = (time_t)(model_run.now_ns / 1000000000);
	ret_now->tv_nsec = (long)(model_run.now_ns % 1000000000);
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)time;
	(void)left;
	model_yield();
	return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	model_yield();
	return 0;
}
