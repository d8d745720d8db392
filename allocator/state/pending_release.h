/* SPDX-License-Identifier: MIT */
/*
 * A driver allocation that has left the tables and is on its way to the driver.
 *
 * Until the driver has answered the address is in no table, and a program's second free of it would
 * be taken for a free of the driver's own memory and forwarded: the driver would free it there, and
 * our own call whatever had come to that address by then. So what is on its way stands in a list
 * beside the tables, and who finds an address in neither may forward it.
 */
#ifndef CM_ALLOCATOR_STATE_PENDING_RELEASE_H
#define CM_ALLOCATOR_STATE_PENDING_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock.h"

struct cm_driver_ops;
struct cm_heap;

/* Belongs to who gives it back, and stays where it is meanwhile. */
struct cm_piece {
	struct cm_heap *heap;
	uint64_t ctx;
	uint64_t addr; /* 0: none */
	uint64_t size;
	struct cm_piece *next;
};

/* Those on their way, guarded by the lock of the tables that they have left. */
struct cm_pieces {
	struct cm_lock *lock;
	struct cm_piece *first;
};

/* The piece leaves the tables. The context's end waits until it has arrived. */
void cm_piece_leave_locked(struct cm_pieces *pieces, struct cm_piece *piece);
/* The driver has answered. Takes the lock. */
void cm_piece_arrive(struct cm_pieces *pieces, struct cm_piece *piece);

/* Whether the address lies in one of them. */
bool cm_piece_is_leaving_locked(const struct cm_pieces *pieces, uint64_t addr);

/*
 * Waits, with no lock held, until nothing in which addr lies is on its way, as the program's own
 * free would wait for the driver's lock. False: it is after CM_STUCK_NS; a signal handler in the
 * very call that gives it back would wait for itself.
 */
bool cm_piece_await(struct cm_pieces *pieces, const struct cm_driver_ops *ops, uint64_t addr);

/* Whether anything is on its way. Takes the lock. */
bool cm_pieces_are_leaving(struct cm_pieces *pieces);

/* Waits, from inside the gate, until nothing is, for `limit_ns` at most. False: a capture is
 * active, and the caller outside of the gate (cm_fence_enter). */
CM_NODISCARD bool cm_pieces_await(struct cm_pieces *pieces, const struct cm_driver_ops *ops,
				  uint64_t limit_ns);

#endif
