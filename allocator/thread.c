/* SPDX-License-Identifier: MIT */
#include "allocator/thread.h"

#include <sys/syscall.h>
#include <unistd.h>

__thread uint32_t cm_thread_known_id;

CM_NOINLINE uint32_t cm_thread_ask_id(void)
{
	cm_thread_known_id = (uint32_t)syscall(SYS_gettid);
	return cm_thread_known_id;
}

void cm_thread_forget(void)
{
	cm_thread_known_id = 0;
}
