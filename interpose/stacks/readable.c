/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint64_t cm_pages_readable[CM_PAGES];

/* Asks a system call that copies the bytes in before it rejects its other arguments; it changes
 * nothing and no sandbox forbids it (the idea is Abseil's). */
bool cm_word_is_readable(uint64_t addr)
{
	const int nonsense = -1;

	return syscall(SYS_rt_sigprocmask, nonsense, addr, NULL, sizeof(uint64_t)) == -1 &&
	       errno != EFAULT;
}

bool cm_page_ask(uint64_t page)
{
	if (!cm_word_is_readable(page << CM_OS_PAGE_SHIFT))
		return false;
	atomic_store_explicit(&cm_pages_readable[page % CM_PAGES], page, memory_order_relaxed);
	return true;
}
