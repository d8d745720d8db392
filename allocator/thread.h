/* SPDX-License-Identifier: MIT */
/*
 * The kernel's id of the calling thread, asked for once and kept in a thread-local.
 */
#ifndef CM_ALLOCATOR_THREAD_H
#define CM_ALLOCATOR_THREAD_H

#include <stdint.h>

#include "allocator/attr.h"

extern __thread uint32_t cm_thread_known_id __attribute__((visibility("hidden")));

uint32_t cm_thread_ask_id(void);

CM_ALWAYS_INLINE uint32_t cm_thread_id(void)
{
	return CM_LIKELY(cm_thread_known_id) ? cm_thread_known_id : cm_thread_ask_id();
}

/* In a forked child: its thread has another id than the one it inherited. */
void cm_thread_forget(void);

#endif
