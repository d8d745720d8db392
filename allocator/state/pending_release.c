/* SPDX-License-Identifier: MIT */
#include "allocator/state/pending_release.h"

#include <assert.h>

#include "allocator/reuse/epoch.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/state.h"

void cm_piece_leave_locked(struct cm_pieces *pieces, struct cm_piece *piece)
{
	assert(cm_lock_is_held(pieces->lock));
	cm_heap_begin_call_locked(piece->heap);
	piece->next = pieces->first;
	pieces->first = piece;
}

void cm_piece_arrive(struct cm_pieces *pieces, struct cm_piece *piece)
{
	struct cm_piece **link = &pieces->first;

	/* Before it leaves the list: who waits for that sees the number. */
	cm_cache_note_return(piece->heap->cache);
	cm_lock_acquire(pieces->lock);
	while (*link != piece)
		link = &(*link)->next;
	*link = piece->next;
	cm_lock_release(pieces->lock);
	cm_heap_end_call(piece->heap);
}

bool cm_piece_is_leaving_locked(const struct cm_pieces *pieces, uint64_t addr)
{
	const struct cm_piece *piece = pieces->first;

	assert(cm_lock_is_held(pieces->lock));
	while (piece && addr - piece->addr >= piece->size)
		piece = piece->next;
	return piece != NULL;
}

static bool is_leaving(const struct cm_pieces *pieces, uint64_t addr)
{
	bool leaving;

	cm_lock_acquire(pieces->lock);
	leaving = cm_piece_is_leaving_locked(pieces, addr);
	cm_lock_release(pieces->lock);
	return leaving;
}

bool cm_piece_await(struct cm_pieces *pieces, const struct cm_driver_ops *ops, uint64_t addr)
{
	const uint64_t end = ops->now_ns() + CM_STUCK_NS;
	uint64_t nap = CM_FENCE_NAP_NS;

	while (is_leaving(pieces, addr)) {
		if (ops->now_ns() >= end)
			return false;
		cm_ops_nap(ops, &nap, CM_FENCE_NAP_MOST_NS);
	}
	return true;
}

bool cm_pieces_are_leaving(struct cm_pieces *pieces)
{
	bool leaving;

	cm_lock_acquire(pieces->lock);
	leaving = pieces->first;
	cm_lock_release(pieces->lock);
	return leaving;
}

bool cm_pieces_await(struct cm_pieces *pieces, const struct cm_driver_ops *ops, uint64_t limit_ns)
{
	const uint64_t end = ops->now_ns() + limit_ns;
	uint64_t nap = CM_FENCE_NAP_NS;

	while (cm_pieces_are_leaving(pieces) && ops->now_ns() < end)
		if (!cm_fence_nap(ops, &nap))
			return false;
	return true;
}
