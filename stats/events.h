/* SPDX-License-Identifier: MIT */
/*
 * Writing a device's event ring. Under the device's lock, between cm_books_begin and cm_books_end.
 */
#ifndef CM_STATS_EVENTS_H
#define CM_STATS_EVENTS_H

#include <stdint.h>

#include "stats/layout.h"

struct cm_ring {
	struct cm_event *row; /* NULL: not recorded */
	uint32_t mask;        /* rows - 1 */
};

/* Adds `event` as the next of the device; its number is set here. */
static inline void cm_ring_add(const struct cm_ring *ring, struct cm_device_row *device,
			       const struct cm_event *event)
{
	uint64_t number = ++device->event_next;
	struct cm_event *row;

	if (!ring->row)
		return;
	row = &ring->row[(number - 1) & ring->mask];
	/* Number 0 first and the true one last, so that a reader can tell a row in the making. */
	__atomic_store_n(&row->number, 0, __ATOMIC_RELAXED);
#if defined(__x86_64__)
	__asm__ __volatile__("" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
	row->tick = event->tick;
	row->addr = event->addr;
	row->size = event->size;
	row->thread = event->thread;
	row->stack = event->stack;
	row->action = event->action;
	row->pool = event->pool;
	row->heap = event->heap;
	__atomic_store_n(&row->number, number, __ATOMIC_RELEASE);
}

#endif
