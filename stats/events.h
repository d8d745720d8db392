/* SPDX-License-Identifier: MIT */
/*
 * Writing a ring of events: a device's, under its lock, or that of pinned memory, under its own; in
 * both cases between the begin and the end of the row's change.
 */
#ifndef CM_STATS_EVENTS_H
#define CM_STATS_EVENTS_H

#include <stdint.h>

#include "stats/counters.h"
#include "stats/layout.h"

struct cm_ring {
	struct cm_event *row; /* NULL: not recorded */
	uint32_t mask;        /* rows - 1 */
};

/* Who does it, and from where: all 0 but the thread where it is not recorded. */
struct cm_event_origin {
	uint32_t thread;
	uint32_t stack;
	uint32_t annotation;
};

/* Adds the next event, whose number it takes from *next; see struct cm_event. */
static inline void cm_ring_add(const struct cm_ring *ring, uint64_t *next, enum cm_action action,
			       enum cm_pool pool, uint32_t heap, struct cm_event_origin origin,
			       uint64_t tick, uint64_t addr, uint64_t size)
{
	struct cm_event *row;
	uint64_t number;

	if (!ring->row)
		return;
	number = ++*next;
	row = &ring->row[(number - 1) & ring->mask];
	/* Number 0 first and the true one last, so that a reader can tell a row in the making. */
	__atomic_store_n(&row->number, 0, __ATOMIC_RELAXED);
	cm_counters_order();
	row->tick = tick;
	row->addr = addr;
	row->size = size;
	row->thread = origin.thread;
	row->stack = origin.stack;
	row->annotation = origin.annotation;
	row->action = (uint8_t)action;
	row->pool = (uint8_t)pool;
	row->heap = (uint16_t)heap;
	__atomic_store_n(&row->number, number, __ATOMIC_RELEASE);
}

#endif
