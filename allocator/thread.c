/* SPDX-License-Identifier: MIT */
#include "allocator/thread.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct cm_thread cm_thread;

CM_NOINLINE uint32_t cm_thread_ask_id(void)
{
	cm_thread.id = (uint32_t)syscall(SYS_gettid);
	return cm_thread.id;
}

void cm_thread_forget(void)
{
	memset(&cm_thread, 0, sizeof(cm_thread));
}
