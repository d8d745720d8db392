/* SPDX-License-Identifier: MIT */
#include "allocator/state/pending_release.h"

#include <assert.h>

#include "allocator/base/gate.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"

void cm_pending_release_begin_locked(struct cm_pending_releases *releases,
				     struct cm_pending_release *release)
{
	assert(cm_lock_is_held(releases->lock));
	cm_heap_begin_call_locked(release->heap);
	release->next = releases->first;
	releases->first = release;
}

bool cm_pending_release_begin_new_locked(struct cm_pending_releases *releases,
					 struct cm_pending_release *release, uint32_t gone)
{
	if (!cm_heap_stands(release->heap, release->ctx, gone) ||
	    cm_heap_is_suspended(release->heap))
		return false;
	cm_pending_release_begin_locked(releases, release);
	return true;
}

void cm_pending_release_end(struct cm_pending_releases *releases,
			    struct cm_pending_release *release)
{
	struct cm_pending_release **link = &releases->first;

	/* Before it leaves the list, so that a thread that waits for that sees the number. */
	cm_cache_note_return(release->heap->cache);
	cm_lock_acquire(releases->lock);
	while (*link != release)
		link = &(*link)->next;
	*link = release->next;
	cm_lock_release(releases->lock);
	cm_heap_end_call(release->heap);
}

bool cm_pending_release_has_locked(const struct cm_pending_releases *releases, uint64_t addr)
{
	const struct cm_pending_release *release = releases->first;

	assert(cm_lock_is_held(releases->lock));
	while (release && addr - release->addr >= release->size)
		release = release->next;
	return release != NULL;
}

static bool is_leaving(const struct cm_pending_releases *releases, uint64_t addr)
{
	return CM_WITH_LOCK(releases->lock, cm_pending_release_has_locked(releases, addr));
}

bool cm_pending_release_await(struct cm_pending_releases *releases, const struct cm_driver_ops *ops,
			      uint64_t addr)
{
	const uint64_t end = ops->now_ns() + CM_STUCK_NS;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (is_leaving(releases, addr)) {
		if (ops->now_ns() >= end)
			return false;
		cm_ops_backoff(ops, &backoff, CM_GATE_BACKOFF_MAX_NS);
	}
	return true;
}

bool cm_pending_releases_exist(struct cm_pending_releases *releases)
{
	return CM_WITH_LOCK(releases->lock, releases->first);
}

bool cm_pending_releases_await(struct cm_pending_releases *releases,
			       const struct cm_driver_ops *ops, uint64_t limit_ns)
{
	const uint64_t end = ops->now_ns() + limit_ns;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (cm_pending_releases_exist(releases) && ops->now_ns() < end)
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}
