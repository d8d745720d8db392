/* SPDX-License-Identifier: MIT */
#include "interpose/driver/captured_graph.h"

#include <stdatomic.h>
#include <stddef.h>

#include "allocator/base/lock.h"

#define GRAPHS_MAX 256 /* a power of two */

/*
 * By a hash of their handles, guarded by the lock. A graph replaces another one with the same hash,
 * which then counts as unknown. A handle that comes back as another graph is not mistaken for the
 * old one: that graph is entered when its capture ends, or its making is a change.
 */
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_GRAPHS);
static struct captured {
	uintptr_t graph;
	uint64_t ctx, changes;
} captured[GRAPHS_MAX];

static _Atomic uint64_t changes_made;

void cm_captured_graph_note_change(void)
{
	atomic_fetch_add(&changes_made, 1);
}

uint64_t cm_captured_graph_changes(void)
{
	return atomic_load(&changes_made);
}

/* Handles are addresses of structures, so their low bits are equal. */
static struct captured *place_of(CUgraph graph)
{
	return &captured[((uintptr_t)graph >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

void cm_captured_graph_note(CUgraph graph, uint64_t ctx, uint64_t changes)
{
	cm_lock_acquire(&lock);
	*place_of(graph) = (struct captured){
		.graph = (uintptr_t)graph, .ctx = ctx, .changes = changes};
	cm_lock_release(&lock);
}

uint64_t cm_captured_graph_context(CUgraph graph)
{
	struct captured found;

	cm_lock_acquire(&lock);
	found = *place_of(graph);
	cm_lock_release(&lock);
	return found.graph == (uintptr_t)graph && found.changes == cm_captured_graph_changes()
		       ? found.ctx
		       : 0;
}

void cm_captured_graph_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock, CM_LOCK_GRAPHS, 0);
	for (i = 0; i < GRAPHS_MAX; i++)
		captured[i] = (struct captured){0};
}
