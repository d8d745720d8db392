/* SPDX-License-Identifier: MIT */
/*
 * A driver allocation that has left the tables and is on its way to the driver.
 *
 * Until the driver has answered, the address is in no table. A second free by the program would
 * look like a free of foreign memory, and be forwarded: the driver would free the memory then, and
 * our own call would free whatever had come to that address by then. So pending releases stand in a
 * list, and an address is forwarded only if it is neither in the tables nor in the list.
 */
#ifndef CM_ALLOCATOR_STATE_PENDING_RELEASE_H
#define CM_ALLOCATOR_STATE_PENDING_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock.h"

struct cm_driver_ops;
struct cm_heap;

/* Owned by the releasing thread; must not move. */
struct cm_pending_release {
	struct cm_heap *heap;
	uint64_t ctx;
	uint64_t addr; /* 0: none */
	uint64_t size;
	struct cm_pending_release *next;
};

/* The pending releases, guarded by the lock of the tables that they have left. */
struct cm_pending_releases {
	struct cm_lock *lock;
	struct cm_pending_release *first;
};

/* The memory leaves the tables. The end of its context waits for cm_pending_release_end. */
void cm_pending_release_begin_locked(struct cm_pending_releases *releases,
				     struct cm_pending_release *release);
/* The same for memory that the driver has just given, and that enters no table. `gone`: of the
 * heap, before the driver was asked. False: the context has ended, or may be ending, and takes the
 * memory along; no call may name it. */
bool cm_pending_release_begin_new_locked(struct cm_pending_releases *releases,
					 struct cm_pending_release *release, uint32_t gone);
/* The driver has answered. Takes the lock. */
void cm_pending_release_end(struct cm_pending_releases *releases,
			    struct cm_pending_release *release);

/* Whether the address lies in one of them. */
bool cm_pending_release_has_locked(const struct cm_pending_releases *releases, uint64_t addr);

/*
 * Waits, with no lock held, until no pending release contains addr, as the program's own free would
 * wait for the driver's lock. False: one still does after CM_STUCK_NS; a signal handler that
 * interrupts that very release would wait for itself.
 */
bool cm_pending_release_await(struct cm_pending_releases *releases, const struct cm_driver_ops *ops,
			      uint64_t addr);

/* Whether any release is pending. Takes the lock. */
bool cm_pending_releases_exist(struct cm_pending_releases *releases);

/* Waits, from inside the gate, until nothing is, for `limit_ns` at most. False: a capture is
 * active, and the caller outside of the gate (cm_gate_enter). */
CM_NODISCARD bool cm_pending_releases_await(struct cm_pending_releases *releases,
					    const struct cm_driver_ops *ops, uint64_t limit_ns);

#endif
