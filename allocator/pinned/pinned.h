/* SPDX-License-Identifier: MIT */
/*
 * The cache of pinned host memory; its structures are in state.h.
 *
 * Every block is a driver allocation of its own and is never split, so that what the driver says of
 * it (device pointer, flags, attributes) holds for the program's block. Blocks are kept apart by
 * context, by kind (ops.h: CM_HOST_*) and by size class: eight classes for each power of two,
 * multiples of 512 bytes, so that at most an eighth of a request is lost, or 511 bytes. The driver
 * itself places small host allocations at multiples of 512.
 *
 * The CPU can touch a block the moment it is allocated. So no barrier on a device makes one ready:
 * a freed block is used again only when a fence over every context (fence.h) has completed.
 *
 * Idle pinned memory is taken from the whole machine, which can't swap it. So no more of it is kept
 * than is in use, plus CM_PINNED_IDLE_BYTES for programs that free their one buffer and request it
 * again; beyond that a free goes to the driver, as it does without us. A limit by the peak would
 * keep one-time buffers for ever. What has been idle for the decay time goes back, too.
 *
 * Threads: `lock` guards lists, rows and counters, the cache's event lock the fences; numbers of
 * batches change under both. Rows are taken and given back under the lock of the context's device
 * too. The driver is never called with `lock` held. Functions named *_locked want `lock`, those
 * named *_event_locked the event lock and the capture gate.
 */
#ifndef CM_ALLOCATOR_PINNED_PINNED_H
#define CM_ALLOCATOR_PINNED_PINNED_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* The class that serves `bytes` (1 to CM_PINNED_MAX), and the size of its blocks. */
uint32_t cm_pinned_class(uint64_t bytes);
uint64_t cm_pinned_class_bytes(uint32_t class);

void cm_pinned_init(struct cm_cache *cache);

/* Freed memory, ready or not, and what may be kept of it. */
uint64_t cm_pinned_idle_locked(const struct cm_pinned *pinned);
uint64_t cm_pinned_limit_locked(const struct cm_pinned *pinned);

/* As cm_cache_host_alloc and cm_cache_host_free (cache.h), without a report of failures. */
int cm_pinned_alloc(struct cm_heap *heap, uint32_t kind, uint64_t bytes, uint64_t *ret_addr);
int cm_pinned_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);

/* Allocates a ready block of the heap, or returns false. */
bool cm_pinned_take_locked(struct cm_heap *heap, uint32_t kind, uint64_t bytes, uint64_t *ret_addr);

/*
 * Enters new memory as a block in use. What the tables have at its address was freed, or unmapped,
 * without our hooks, and leaves them. `flags`: CM_SEGMENT_DIRECT, CM_SEGMENT_REGISTERED. `ns`: what
 * the driver call took. -ENOSPC: no rows, -ENOMEM: no room for the pointer; nothing was entered.
 */
int cm_pinned_enter_locked(struct cm_heap *heap, uint64_t addr, uint64_t size, uint32_t kind,
			   uint32_t flags, uint64_t bytes, uint64_t ns);

/* A block in use becomes PENDING and joins the open batch. */
void cm_pinned_free_locked(struct cm_cache *cache, uint32_t index);

/* Counts a failure and adds an event: a request of the heap's failed for lack of memory. */
void cm_pinned_note_oom(struct cm_heap *heap, uint64_t bytes);

/* Takes a block out of lists, counters and tables, whatever its state. */
struct cm_pending_release cm_pinned_remove_locked(struct cm_cache *cache, uint32_t index);

/* Counts a driver call that freed memory. */
void cm_pinned_count_release_locked(struct cm_pinned *pinned, uint64_t ns);

/* Whether the open batch deserves a fence of its own before more work is put on top of it. */
bool cm_pinned_is_worth_closing_locked(const struct cm_pinned *pinned);

/* Closes the open batch; false: it is empty, there are too many, or the driver has no fences. */
bool cm_pinned_close_event_locked(struct cm_cache *cache);
/* The same if that is worth it. */
void cm_pinned_close_worthy_event_locked(struct cm_cache *cache);
/* Queries the closed batches; true if any became ready. */
bool cm_pinned_poll_event_locked(struct cm_cache *cache);
/* The host waits for every context; all that was freed before is ready. False on an error. */
bool cm_pinned_synchronize_event_locked(struct cm_cache *cache);
/* The context is going away, and its memory and work with it. No driver call. */
void cm_pinned_forget_event_locked(struct cm_cache *cache, const struct cm_heap *gone);

/* Bytes that are freed and not ready. */
uint64_t cm_pinned_pending(struct cm_cache *cache);

/* Whether memory is freed that the driver has not got back. */
bool cm_pinned_has_idle(struct cm_cache *cache);

/*
 * Returns the oldest block of the device's contexts to the driver if it has been ready since `tick`
 * or before; true if there was one. The caller holds the device's reclaim lock, is inside the gate,
 * and knows that the device is idle, since the driver may wait for it.
 */
bool cm_pinned_release_aged(struct cm_device *device, uint64_t tick);

/* Waits until all that was freed before is ready, `limit_ns` at most. The gate is entered; false: a
 * capture is active, and the caller outside of it (cm_gate_enter). */
CM_NODISCARD bool cm_pinned_wait(struct cm_cache *cache, uint64_t limit_ns);

/*
 * The same, and returns all that is ready to the driver; adds the bytes to *bytes. -ETIME: work on
 * a device does not end within the limit, and the driver might wait for it; the memory of its
 * contexts stays. -EBUSY: outside the gate.
 */
CM_NODISCARD int cm_pinned_flush(struct cm_cache *cache, uint64_t limit_ns, uint64_t *bytes);

#endif
