/* SPDX-License-Identifier: MIT */
/*
 * The caching allocator as the hooks see it: one per process, with one heap per CUDA context.
 *
 * It serves requests from memory that is ready, decides when freed memory becomes ready again
 * (epochs, see epoch.h), gets memory from the driver and gives it back. It does not know CUDA's
 * symbols, stream captures or the environment: ops.h and policy.h bring what it needs.
 *
 * Thread-safe. Results: 0, a driver code > 0 for the program, or a negative errno of ours.
 */
#ifndef CM_ALLOCATOR_CACHE_H
#define CM_ALLOCATOR_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/base/ops.h"
#include "allocator/base/policy.h"
#include "stats/layout.h"

struct cm_cache;
struct cm_heap;
struct cm_region;

struct cm_cache_params {
	const struct cm_driver_ops *ops; /* must outlive the cache */
	const struct cm_policy *policy;  /* copied */
	struct cm_region *region;        /* holds the tables and counters; must outlive the cache */
};

/* What the driver says of a context; read by the caller when it first sees the context. */
struct cm_context_info {
	uint64_t ctx;
	uint64_t id; /* cuCtxGetId, 0: unknown */
	int32_t ordinal;
	uint32_t can; /* CM_CAN_* */
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t open_to; /* devices that have access to its memory: see cm_cache_open_to */
	bool is_found;    /* it was there before it was known: it may have submitted anything */
	uint8_t uuid[16];
	char name[64];
	char pci[CM_PCI_BYTES]; /* empty: unknown */
	bool simulated;
};

/* What an address is to us. */
enum cm_place {
	CM_PLACE_FOREIGN,  /* not in memory of ours */
	CM_PLACE_LIVE,     /* the start of a block in use */
	CM_PLACE_INTERIOR, /* inside a block in use */
	CM_PLACE_IDLE,     /* in a block that is free or pending */
};

struct cm_place_info {
	enum cm_place place;
	uint64_t block_addr;
	uint64_t block_size;
	uint64_t requested;
	uint64_t segment_addr;
	uint64_t segment_size;
	uint64_t ctx;
	uint32_t segment_flags;
	bool segment_is_idle; /* no block of it is in use */
};

/* Allocates the cache. -ENOMEM. */
int cm_cache_create(const struct cm_cache_params *params, struct cm_cache **ret_cache);
/* Frees our own memory, never the driver's. Tests only: a process leaks its cache on purpose. */
void cm_cache_destroy(struct cm_cache *cache);

/* Whether policy and clock allow that requests call cm_take_first, and frees cm_free_usual, without
 * other checks. It never changes. */
bool cm_cache_has_hits(const struct cm_cache *cache);

/* The heap of a context, or NULL. Lock-free. */
struct cm_heap *cm_cache_find_heap(struct cm_cache *cache, uint64_t ctx);
/* The same for the requests of the calling thread: it may use another shard. */
struct cm_heap *cm_cache_heap_of_thread(struct cm_cache *cache, uint64_t ctx);
/* Returns the heap of a context; creates it if there is none. Waits for earlier work on memory that
 * was allocated behind a barrier, in all heaps whose memory the context can reach. -ENOSPC. */
int cm_cache_add_heap(struct cm_cache *cache, const struct cm_context_info *info,
		      struct cm_heap **ret_heap);
/*
 * Keeps other threads from recording or querying events while a context is destroyed.
 * cm_cache_forget_heap may only be called between the two. It forgets a context's heap, blocks and
 * segments without any driver call. Returns the heap, NULL for unknown contexts.
 */
void cm_cache_lock_contexts(struct cm_cache *cache);
void cm_cache_unlock_contexts(struct cm_cache *cache);
struct cm_heap *cm_cache_forget_heap(struct cm_cache *cache, uint64_t ctx);
/*
 * The same if only the driver knows whether it will destroy the context. From here on no driver
 * call is made for that heap. When the driver has answered, the contexts are locked again, and the
 * heap is forgotten or resumed. In between no memory becomes ready that its work can reach.
 * NULL: unknown.
 */
struct cm_heap *cm_cache_suspend_heap(struct cm_cache *cache, uint64_t ctx);
void cm_cache_resume_heap(struct cm_heap *heap);
/* The driver has just allocated this memory. If our tables say that a suspended heap has it, that
 * context has been destroyed: waits until the heap is forgotten. No lock is held. */
void cm_cache_await_place(struct cm_cache *cache, uint64_t addr, uint64_t bytes);
/* Waits until this library has no driver call under way in the context of the heap, which is
 * forgotten or suspended. Call it before the driver destroys the context. No lock is held. NULL: no
 * wait. */
void cm_heap_await_calls(const struct cm_heap *heap);
/* The driver's answer of how much memory the context's device has left; -ENODEV: it has no heap;
 * -EBUSY: a capture is active. Waits while the context is suspended. */
int cm_cache_mem_info(struct cm_cache *cache, uint64_t ctx, uint64_t *ret_free,
		      uint64_t *ret_total);
/*
 * The first call says that the driver is about to destroy a context that has no heap, or no longer,
 * the second that it has answered. In between, work of the context may still run and touch memory
 * that other contexts free, and its events can no longer be queried: so no memory becomes ready.
 * The contexts are locked in both calls.
 */
void cm_cache_context_is_ending(struct cm_cache *cache);
void cm_cache_context_has_ended(struct cm_cache *cache);

/* After contexts were destroyed: returns their memory that the driver did not free with them. While
 * a capture is active, cm_cache_poll does that later. */
void cm_cache_forgotten(struct cm_cache *cache);

/*
 * Device memory of `bytes` in the heap's context, which is current on the calling thread. 0:
 * *ret_addr is set, 512-byte aligned. > 0: the driver's error, for the program. < 0: pass the
 * request on (size 0 or beyond 2^60, draining heap, tables full). May call the driver and wait for
 * it when no ready memory fits. The gate is entered by the callee; while a capture is active the
 * caller does not come here.
 */
int cm_cache_alloc(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
		   uint64_t *ret_addr);

/*
 * The same for a request that the driver has just refused for lack of memory, also while a capture
 * is active: only from what was freed before the capture began. Nothing returns to the driver. May
 * wait for the device, as the free would have waited natively. -ENOENT: nothing serves.
 */
int cm_cache_alloc_freed(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
			 uint64_t *ret_addr);

/*
 * Frees a block. 0: done. > 0: the driver's error. -ENOENT: not ours, pass the address on. -EFAULT:
 * inside our memory but no block in use; pass on *ret_forward, an address that is never the start
 * of a driver allocation, so that the driver answers as it does for a stale pointer. Never waits
 * for the device unless sync=free.
 */
int cm_cache_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);
/* The same for a thread whose signal handler may have interrupted a call of the cache: also -ENOENT
 * if the device's lock is not available within some milliseconds. */
int cm_cache_free_inside(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);

/*
 * Pinned host memory, made in the heap's context and of a kind of ops.h (CM_HOST_*). As
 * cm_cache_alloc, but if the driver is out of memory, idle pinned memory is returned and the
 * request repeated with exactly the program's size. Also -EINVAL, for unknown flags.
 */
int cm_cache_host_alloc(struct cm_cache *cache, struct cm_heap *heap, uint32_t kind, uint64_t bytes,
			uint64_t *ret_addr);
/* As cm_cache_free. Calls the driver if more is idle than the limit (pinned.h). An address inside a
 * block is -ENOENT: it is inside a driver allocation, so the driver has the right error for it. */
int cm_cache_host_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);

/* The block that contains the address can be reached from outside from now on: when it is freed, it
 * returns to the driver and is never reused. -EFAULT: it is freed, -ENOENT: not ours. */
int cm_cache_host_mark_exported(struct cm_cache *cache, uint64_t addr);

/* The program has registered memory of its own, or unregistered it; `ns`: how long the driver
 * took. The second wants to know which registration ended: another thread may have registered the
 * address anew since. So look it up before the driver's call. 0: it is not known. */
void cm_cache_host_add_registered(struct cm_cache *cache, struct cm_heap *heap, uint64_t addr,
				  uint64_t bytes, uint64_t ns);
uint64_t cm_cache_host_find_registered(struct cm_cache *cache, uint64_t addr);
void cm_cache_host_remove_registered(struct cm_cache *cache, uint64_t addr, uint64_t which,
				     uint64_t ns);

/* What `addr` is. If it is ours, takes the device's lock for a moment. */
void cm_cache_lookup(struct cm_cache *cache, uint64_t addr, struct cm_place_info *ret_info);

/* Marks the segment that holds addr: its blocks return to the driver, and are never reused.
 * -ENOENT. */
int cm_cache_mark_exported(struct cm_cache *cache, uint64_t addr);
/* Something outside the context can reach its memory from now on: no more ordered barriers. */
void cm_cache_mark_shared(struct cm_cache *cache, uint64_t ctx);
/*
 * The program names this range to another device, such as a network card, which may access it at
 * any time while the program has the memory, in the order of no stream. Marks the segments in it
 * for as long as they last, as no call tells when the last access is over. Their blocks, once
 * freed, are reused after events have shown them to be idle, never behind a barrier. Waits until
 * what was allocated behind a barrier is idle, as cm_cache_mark_exported does. Foreign memory is
 * ignored. Call it before the device learns of the range. No lock is held; also while a capture is
 * active. Returns whether it marked any memory.
 */
bool cm_cache_mark_named(struct cm_cache *cache, uint64_t addr, uint64_t bytes);
/* The same for all memory, present and future. */
void cm_cache_mark_reached(struct cm_cache *cache);
/*
 * Devices have been given access to the context's memory, bit n: of ordinal n. Marks it as shared,
 * and gives them access to each of its pages, present and future. 0, also if it has no heap; or the
 * driver's error: then only some pages are open.
 */
int cm_cache_open_to(struct cm_cache *cache, uint64_t ctx, uint64_t ordinals);
/* Stops caching in the context: frees return whole segments, requests are passed on. */
void cm_cache_drain_heap(struct cm_cache *cache, uint64_t ctx);
/* The same for every context that has a heap now. */
void cm_cache_drain_all(struct cm_cache *cache);

/* Whether the cache has had memory of more than one device; once true it stays true. Only then the
 * calls below have an effect. */
bool cm_cache_has_devices(const struct cm_cache *cache);
/* The device rows that the address may belong to, a bit each. Takes no lock. */
uint64_t cm_cache_rows_of(const struct cm_cache *cache, uint64_t addr);
/* The same for an address that is not known. */
uint64_t cm_cache_all_rows(const struct cm_cache *cache);
/* The same for devices that are given by a bit for each ordinal. */
uint64_t cm_cache_rows_of_devices(const struct cm_cache *cache, uint64_t ordinals);

/* Work of a context that reaches memory of other devices. */
struct cm_submission {
	uint64_t named; /* rows of these devices */
	uint32_t by;    /* row of the device whose context it is */
};
/*
 * The hooks call this before they submit work to a stream of the context if the work names memory
 * of these rows, and cm_cache_end_reach when the driver has answered, also with an error. Nothing
 * else makes memory of a device wait for work of other devices (reuse/reach.h). If other devices
 * are named, waits until memory of theirs that was allocated behind a barrier is idle. No lock is
 * held. May be called while a capture is active. Such work is counted in work_number before it is
 * announced, and in work_ended behind the end.
 */
struct cm_submission cm_cache_begin_reach(struct cm_cache *cache, uint64_t ctx, uint64_t named);
void cm_cache_end_reach(struct cm_cache *cache, struct cm_submission submission);

/* Work that may run without bound is about to be submitted to a stream of the context, or later
 * work of the context may be ordered behind such work. `ctx` 0: of any context. Called behind
 * the counting in work_number of struct cm_driver_ops, and in addition to it. */
void cm_cache_note_work(struct cm_cache *cache, uint64_t ctx);

/*
 * Called by the hooks before work that may run without bound is submitted: closes open epochs that
 * are worth an event, so that the event captures no more than a cudaFree would have waited for.
 */
void cm_cache_before_work(struct cm_cache *cache);
/* Whether cm_cache_before_work has something to do: one relaxed load. */
bool cm_cache_wants_close(const struct cm_cache *cache);

/*
 * The program is about to begin a capture, in which no event can be recorded: records one now
 * behind what it has freed. No lock is held.
 */
void cm_cache_before_capture(struct cm_cache *cache);

/*
 * The program waits for all work of a context (cuCtxSynchronize). The hook calls begin before the
 * wait, and end after a wait that succeeded. If no other context can reach the memory, what was
 * freed before begin is then ready, without any driver call. Neither waits for a lock.
 */
struct cm_program_wait {
	uint64_t ctx;
	uint32_t shards; /* 0: there is nothing to make ready */
	struct cm_shard_wait {
		struct cm_heap *heap;
		uint64_t epoch;  /* the open one */
		uint64_t blocks; /* in it at the begin */
	} shard[CM_SHARDS_MOST];
};
struct cm_program_wait cm_cache_begin_wait(struct cm_cache *cache, uint64_t ctx);
void cm_cache_end_wait(const struct cm_program_wait *wait);

/*
 * Waits for freed blocks and returns every wholly free segment of the device row to the driver;
 * UINT32_MAX: of all devices, and idle pinned host memory. *ret_bytes may be NULL. -EBUSY while a
 * capture is active; -ETIME if work does not end within a second.
 */
int cm_cache_trim(struct cm_cache *cache, uint32_t device, uint64_t *ret_bytes);
/*
 * Another allocator of the process ran out of memory in this context: as cm_cache_trim, for the
 * context's device. Returns the bytes that went back to the driver.
 */
uint64_t cm_cache_make_room(struct cm_cache *cache, uint64_t ctx);
/* The same for a device row. */
uint64_t cm_cache_make_room_on(struct cm_cache *cache, uint32_t row);
/* The same for a call that wants pages of the host, and memory of the context's device to map them:
 * returns idle pinned memory, too. */
uint64_t cm_cache_make_host_room(struct cm_cache *cache, uint64_t ctx);
/*
 * A number that grows whenever memory has returned to the driver, by us or with its context, and
 * whenever memory may be returned again because its context was not destroyed. Read it before a
 * driver call. If the call fails for lack of memory and the number has changed, retry: some thread
 * has made room.
 */
uint64_t cm_cache_returns(const struct cm_cache *cache);
/* Whether the device row has memory that is not in use; and whether it can ever have so much. */
bool cm_cache_may_have(struct cm_cache *cache, uint32_t row, uint64_t bytes);
bool cm_cache_has_cached(struct cm_cache *cache, uint32_t row);
/*
 * Another process wants memory of the device: returns idle memory, the longest idle first, up to
 * `wanted` bytes and for about `limit_ns`. -ENODEV; -EBUSY while a capture is active, or while a
 * request of this process returns idle memory for itself.
 */
int cm_cache_give_back(struct cm_cache *cache, uint32_t row, uint64_t wanted, uint64_t limit_ns,
		       uint64_t *ret_bytes);

/*
 * A step of the decay of idle memory (decay.h); only the helper thread calls it. Returns at most
 * one segment or run of pages of each device, and none while the device works or other threads need
 * the locks. What exceeds a limit is returned at any age. Returns the ns after which the next step
 * is due, UINT64_MAX: never.
 */
uint64_t cm_cache_decay(struct cm_cache *cache);
/* Sets the decay time, 0: no decay. For the thread that takes these steps. */
void cm_cache_set_decay(struct cm_cache *cache, uint64_t decay_ns);

/* Sets what is reported about requests that fail from now on. */
void cm_cache_set_oom_report(struct cm_cache *cache, enum cm_oom_report report);

/* Bytes of the context's device that a trim could return now or after a wait. Without the memory of
 * a context that is being destroyed, which the driver may have already. */
uint64_t cm_cache_returnable(struct cm_cache *cache, uint64_t ctx);

/*
 * For the sum of the free bytes that the driver reports and the bytes that could be returned: query
 * them in this order. In the other order, memory that another thread allocates and frees in between
 * would count twice. Memory that is returned in between still counts twice; memory on its way back,
 * or of a context that ends, counts nowhere. So take a snapshot first, and query both again while
 * cm_cache_info_must_retry is true, a few times at most, as other threads may never stop. May
 * sleep.
 */
struct cm_info_snapshot {
	uint64_t returns;
	uint64_t begun_ns;
	uint64_t backoff_ns;
	uint32_t looks; /* without success, as others were faster */
};
struct cm_info_snapshot cm_cache_info_begin(const struct cm_cache *cache);
bool cm_cache_info_must_retry(struct cm_cache *cache, uint64_t ctx, struct cm_info_snapshot *look);

/* Polls closed epochs and returns what is not recycled, so that the counters are up to date. Does
 * nothing while a capture is active. */
void cm_cache_poll(struct cm_cache *cache);

/* The device row of a heap. */
uint32_t cm_heap_device(const struct cm_heap *heap);
/* Device row of an ordinal, or UINT32_MAX. */
uint32_t cm_cache_device_row(struct cm_cache *cache, int32_t ordinal);
/* Copies a device's counters under its lock. -ENOENT. */
int cm_cache_read_device(struct cm_cache *cache, uint32_t row, struct cm_device_row *ret_row);
void cm_cache_reset_peak(struct cm_cache *cache, uint32_t row);
void cm_cache_reset_accumulated(struct cm_cache *cache, uint32_t row);

/* The same for pinned host memory. */
void cm_cache_read_host(struct cm_cache *cache, struct cm_host_row *ret_row);
void cm_cache_host_reset_peak(struct cm_cache *cache);
void cm_cache_host_reset_accumulated(struct cm_cache *cache);

/*
 * Holds every lock that guards rows, counters and rings, so that they can be copied as of one
 * moment. Requests and frees of other threads wait. The caller calls nothing else of the cache
 * meanwhile, and releases the locks within a millisecond.
 */
void cm_cache_hold(struct cm_cache *cache);
void cm_cache_resume(struct cm_cache *cache);
/* Between the two: writes an event into every ring that says that a snapshot was taken. */
void cm_cache_note_snapshot(struct cm_cache *cache);

/*
 * Starts, stops or empties the rings of events. `devices` has a bit for each device row;
 * CM_ALL_DEVICES is all of them, later ones and pinned memory. *ret_devices: whose rings are
 * written now. -ENOSPC: a ring has no space, its events are not recorded.
 */
#define CM_ALL_DEVICES UINT64_MAX
int cm_cache_record_events(struct cm_cache *cache, uint64_t devices, bool on,
			   uint64_t *ret_devices);
void cm_cache_clear_events(struct cm_cache *cache, uint64_t devices);

/* Counts memory of another kind: bytes > 0 adds one, bytes < 0 takes one away. An event of the
 * device tells of it under the name `key`. */
void cm_cache_count_uncached(struct cm_cache *cache, uint32_t row, enum cm_uncached_kind kind,
			     uint64_t key, int64_t bytes);
/* Counts and reports such a request of the context `ctx` that the driver, or the limit on the
 * process, has refused. */
void cm_cache_report_uncached_oom(struct cm_cache *cache, uint32_t row, uint64_t ctx,
				  enum cm_uncached_kind kind, uint64_t bytes, bool limited);
/* The same for pinned host memory, requested or registered by a thread whose current context is the
 * heap's. */
void cm_cache_report_host_oom(struct cm_heap *heap, uint64_t bytes);
/* Adds to a scalar counter of the device. */
void cm_cache_count(struct cm_cache *cache, uint32_t row, enum cm_scalar scalar, int64_t n);

/*
 * Walks everything and verifies every invariant and identity (check.c). 0, or -EUCLEAN with a
 * sentence in `why`. Takes all locks. For tests and -Dinvariants=true.
 */
int cm_cache_check(struct cm_cache *cache, char *why, size_t why_bytes);

#endif
