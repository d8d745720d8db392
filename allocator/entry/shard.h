/* SPDX-License-Identifier: MIT */
/*
 * Which shard of a device (state/shards.h) a thread uses. All use the first one, until a thread has
 * waited for its lock for a good part of the time. That thread then takes another shard, by turns;
 * shards are made until there is one for each processor, or CM_SHARDS_MOST. So threads that never
 * contend share one shard, and its memory.
 *
 * A shard takes no memory from the driver while another one has memory that is idle: first a whole
 * segment moves, which then belongs to the shard; else a block is allocated where it is, unless it
 * is small. So each shard has small segments of its own.
 */
#ifndef CM_ALLOCATOR_ENTRY_SHARD_H
#define CM_ALLOCATOR_ENTRY_SHARD_H

#include <stdint.h>

#include "allocator/entry/slow_request.h"
#include "allocator/state/state.h"

/* The heap of the same context that the thread is to use from now on, which cm_thread.heap is then;
 * mostly the same heap. Takes the event lock if it makes a shard. No lock is held. */
struct cm_heap *cm_shard_choose(struct cm_heap *heap);

/* Serves the request from memory of other shards that is ready, or becomes ready by a poll.
 * -ENOENT: there is none. As cm_slow_reuse otherwise. */
int cm_shard_take_from_others(const struct cm_slow_request *request);

/* A ready block of any shard, wherever it is. -ENOENT: there is none, -EAGAIN: the context has
 * gone. */
int cm_shard_take_anywhere(const struct cm_slow_request *request);

#endif
