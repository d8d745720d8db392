/* SPDX-License-Identifier: MIT */
/*
 * What is known of the calling thread, in a thread-local: its kernel id, and what the hooks know
 * about the call under way, for the events that it causes.
 */
#ifndef CM_ALLOCATOR_BASE_THREAD_H
#define CM_ALLOCATOR_BASE_THREAD_H

#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock_order.h"

struct cm_heap;

struct cm_thread {
	uint32_t id;         /* 0: not asked for yet */
	uint32_t stack;      /* of the call under way, in CM_TABLE_STACK; 0: not recorded */
	uint32_t annotation; /* the thread's ranges, in CM_TABLE_TEXT; 0: none */
	/* The heap of the context that was current at the last query; by now another context may
	 * have it. NULL: none. If there is one, the id is known. */
	struct cm_heap *heap;
	uint32_t shard;  /* number + 1 of the shards of devices that it uses; 0: not chosen */
	uint32_t pauses; /* in waits for locks of devices since this moment, see entry/shard.c */
	uint64_t pauses_since_ns;
	uint32_t remote_frees; /* of memory of other shards than its own, since then */
	uint32_t remote_times; /* how often these were many */
	struct cm_lock_holds locks;
};

extern __thread struct cm_thread cm_thread __attribute__((visibility("hidden")));

uint32_t cm_thread_ask_id(void);

CM_ALWAYS_INLINE uint32_t cm_thread_id(void)
{
	return CM_LIKELY(cm_thread.id) ? cm_thread.id : cm_thread_ask_id();
}

/* In a forked child: its thread has an id of its own, and the tables that the rest refers to belong
 * to the parent. */
void cm_thread_forget(void);

#endif
