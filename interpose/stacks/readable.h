/* SPDX-License-Identifier: MIT */
/*
 * Whether memory that is not ours can be read. Asks the kernel about each page. Thread-safe.
 */
#ifndef CM_INTERPOSE_STACKS_READABLE_H
#define CM_INTERPOSE_STACKS_READABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the 8 bytes at an aligned address are readable. Changes errno. */
bool cm_word_is_readable(uint64_t addr);

/* Pages that were readable, by their number, direct mapped; 0: none. */
#define CM_OS_PAGE_SHIFT 12
#define CM_PAGES         1024u
extern _Atomic uint64_t cm_pages_readable[CM_PAGES] __attribute__((visibility("hidden")));
/* Asks the kernel whether a page is readable, and remembers it if so. Changes errno. */
bool cm_page_ask(uint64_t page);

/* Whether a page is readable, or was when it was last asked for. Changes errno. */
static inline bool cm_page_was_readable(uint64_t page)
{
	return atomic_load_explicit(&cm_pages_readable[page % CM_PAGES], memory_order_relaxed) ==
		       page ||
	       cm_page_ask(page);
}

/* Whether these bytes, at most a page of them, are readable, or were when their pages were last
 * asked for. Only for memory that the caller knows to stay mapped. Changes errno. */
static inline bool cm_memory_was_readable(uint64_t addr, size_t bytes)
{
	const uint64_t first = addr >> CM_OS_PAGE_SHIFT,
		       last = (addr + bytes - 1) >> CM_OS_PAGE_SHIFT;

	return first && last >= first && cm_page_was_readable(first) &&
	       (last == first || cm_page_was_readable(last));
}

#endif
