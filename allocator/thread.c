/* SPDX-License-Identifier: MIT */
#include "allocator/thread.h"

#include <sys/syscall.h>
#include <unistd.h>

static __thread uint32_t id;

uint32_t cm_thread_id(void)
{
	if (__builtin_expect(!id, 0))
		id = (uint32_t)syscall(SYS_gettid);
	return id;
}

void cm_thread_forget(void)
{
	id = 0;
}
