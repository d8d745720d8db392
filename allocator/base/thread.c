/* SPDX-License-Identifier: MIT */
#include "allocator/base/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_OWN_ID (UINT32_C(1) << 31) /* the kernel's end below 2^22 */

__thread struct cm_thread cm_thread;

/*
 * Locks and captures identify threads by it. If a seccomp filter of the program forbids the system
 * call, a number of our own takes its place.
 */
CM_NOINLINE uint32_t cm_thread_ask_id(void)
{
	static _Atomic uint32_t given;
	const int saved = errno;
	const long id = syscall(SYS_gettid);

	cm_thread.id = id > 0 ? (uint32_t)id : FIRST_OWN_ID + atomic_fetch_add(&given, 1);
	errno = saved;
	return cm_thread.id;
}

void cm_thread_forget(void)
{
	memset(&cm_thread, 0, sizeof(cm_thread));
}
