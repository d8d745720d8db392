/* SPDX-License-Identifier: MIT */
#include "allocator/state/pending_release.h"

#include <assert.h>

#include "allocator/base/gate.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"

void cm_pending_release_begin_locked(struct cm_pending_releases *pieces,
				     struct cm_pending_release *piece)
{
	assert(cm_lock_is_held(pieces->lock));
	cm_heap_begin_call_locked(piece->heap);
	piece->next = pieces->first;
	pieces->first = piece;
}

void cm_pending_release_end(struct cm_pending_releases *pieces, struct cm_pending_release *piece)
{
	struct cm_pending_release **link = &pieces->first;

	/* Before it leaves the list, so that a thread that waits for that sees the number. */
	cm_cache_note_return(piece->heap->cache);
	cm_lock_acquire(pieces->lock);
	while (*link != piece)
		link = &(*link)->next;
	*link = piece->next;
	cm_lock_release(pieces->lock);
	cm_heap_end_call(piece->heap);
}

bool cm_pending_release_has_locked(const struct cm_pending_releases *pieces, uint64_t addr)
{
	const struct cm_pending_release *piece = pieces->first;

	assert(cm_lock_is_held(pieces->lock));
	while (piece && addr - piece->addr >= piece->size)
		piece = piece->next;
	return piece != NULL;
}

static bool is_leaving(const struct cm_pending_releases *pieces, uint64_t addr)
{
	return CM_WITH_LOCK(pieces->lock, cm_pending_release_has_locked(pieces, addr));
}

bool cm_pending_release_await(struct cm_pending_releases *pieces, const struct cm_driver_ops *ops,
			      uint64_t addr)
{
	const uint64_t end = ops->now_ns() + CM_STUCK_NS;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (is_leaving(pieces, addr)) {
		if (ops->now_ns() >= end)
			return false;
		cm_ops_backoff(ops, &backoff, CM_GATE_BACKOFF_MAX_NS);
	}
	return true;
}

bool cm_pending_releases_exist(struct cm_pending_releases *pieces)
{
	return CM_WITH_LOCK(pieces->lock, pieces->first);
}

bool cm_pending_releases_await(struct cm_pending_releases *pieces, const struct cm_driver_ops *ops,
			       uint64_t limit_ns)
{
	const uint64_t end = ops->now_ns() + limit_ns;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (cm_pending_releases_exist(pieces) && ops->now_ns() < end)
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}
