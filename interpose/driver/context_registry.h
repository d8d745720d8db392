/* SPDX-License-Identifier: MIT */
/*
 * The known contexts of the process: those created through our hooks, and those that were current
 * at an allocation. Pin a context before using its handle on a thread where it is not current;
 * teardown waits for the pins. Never calls the driver. Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_CONTEXT_REGISTRY_H
#define CM_INTERPOSE_DRIVER_CONTEXT_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/state/state.h"
#include "interpose/symbols/hooks.h"

enum cm_context_kind {
	CM_CONTEXT_SEEN = 1,    /* seen current; it may be of either kind below */
	CM_CONTEXT_CREATED = 2, /* created by cuCtxCreate */
	CM_CONTEXT_PRIMARY = 4, /* a primary context: only the driver knows when it ends */
};
#define CM_CONTEXT_ANY 7u

struct cm_known_context {
	CUcontext ctx;
	CUdevice device;
	enum cm_context_kind kind;
	bool is_found;    /* it was there when it was registered, and may have work */
	bool in_teardown; /* the driver may be destroying it; its handle may be reused */
	unsigned pins;    /* threads that pin it, see cm_registry_pin_all */
	unsigned users;   /* references beyond its creator's: cuCtxAttach */
	uint64_t open_to; /* devices with access to its memory; bit n: ordinal n */
};

/* A copy of the entry; all zeroes if the context is not registered. */
struct cm_known_context cm_registry_read(CUcontext ctx);

/* The last registered context of the device that is of one of these kinds, or NULL. */
CUcontext cm_registry_find(CUdevice device, unsigned kinds);

/* Registers a context. An entry keeps its kind when the context is merely seen again. Returns false
 * if the table is full: a fence covers no more contexts. */
bool cm_registry_add(CUcontext ctx, CUdevice device, enum cm_context_kind kind);
void cm_registry_remove(CUcontext ctx);

/* These do nothing if the context is not registered. */
void cm_registry_count_users(CUcontext ctx, int change);
void cm_registry_open_to(CUcontext ctx, CUdevice device);

/*
 * Pins all registered contexts, for calls that name them on a thread where they are not current; a
 * teardown waits for the unpin. Returns false and pins nothing if one of them is being torn down.
 * It does not wait for that: the teardown may wait for work that itself waits for the caller.
 */
bool cm_registry_pin_all(CUcontext ret_list[CM_FENCE_CONTEXTS], size_t *ret_count);
/* The same for one context; false also if it is not known. */
bool cm_registry_pin(CUcontext ctx);
void cm_registry_unpin_all(const CUcontext *list, size_t n);

/* From now on no thread can pin the context; waits until no thread does. The caller holds no lock
 * that such a thread may want. Ends with cm_registry_remove or cm_registry_abort_teardown. */
void cm_registry_begin_teardown(CUcontext ctx);
void cm_registry_abort_teardown(CUcontext ctx);

/* The driver has just created the context. Waits until an older one of the same handle, which is
 * being torn down, is removed. */
void cm_registry_await_removal(CUcontext ctx);

/* In a forked child, where no context is usable. */
void cm_registry_forget_all(void);

#endif
