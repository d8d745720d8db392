/* SPDX-License-Identifier: MIT */
/*
 * The kernel's id of the calling thread, asked for once and kept in a thread-local.
 */
#ifndef CM_ALLOCATOR_THREAD_H
#define CM_ALLOCATOR_THREAD_H

#include <stdint.h>

uint32_t cm_thread_id(void);

/* In a forked child: its thread has another id than the one it inherited. */
void cm_thread_forget(void);

#endif
