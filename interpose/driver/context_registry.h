/* SPDX-License-Identifier: MIT */
/*
 * The contexts of the process that are known: those made through our doors, and those that were
 * current at a request. Who wants to name one that need not be current anywhere visits it; who ends
 * one bids it leave. Never calls the driver. Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_CONTEXT_REGISTRY_H
#define CM_INTERPOSE_DRIVER_CONTEXT_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/reuse/fence.h"
#include "interpose/symbols/hooks.h"

enum cm_context_kind {
	CM_CONTEXT_MET = 1,     /* past our doors: it may be of either kind below */
	CM_CONTEXT_MADE = 2,    /* by cuCtxCreate */
	CM_CONTEXT_PRIMARY = 4, /* it goes and stays by the driver's word alone */
};
#define CM_CONTEXT_ANY 7u

struct cm_known_context {
	CUcontext ctx;
	CUdevice device;
	enum cm_context_kind kind;
	bool leaving;     /* the driver may be destroying it; the handle may be a new one's */
	unsigned visits;  /* threads that make it current for a while, see cm_registry_pin_all */
	unsigned users;   /* beyond its maker: cuCtxAttach */
	uint64_t open_to; /* devices that have access to its memory, bit n: of ordinal n */
};

/* What is known of the context; nothing but zeroes where it is not noted. */
struct cm_known_context cm_registry_read(CUcontext ctx);

/* The last noted context of the device that is of one of these kinds. NULL: there is none. */
CUcontext cm_registry_find(CUdevice device, unsigned kinds);

/* Notes a context that the program has; one that is noted stays what it is where it has only been
 * met. False: there are too many, as a fence captures no more. */
bool cm_registry_add(CUcontext ctx, CUdevice device, enum cm_context_kind kind);
void cm_registry_remove(CUcontext ctx);

/* These do nothing where the context is not noted. */
void cm_registry_count_users(CUcontext ctx, int change);
void cm_registry_open_to(CUcontext ctx, CUdevice device);

/*
 * All noted contexts, none of which need be current anywhere, are about to be named in calls that
 * the program knows nothing of: who ends one waits for end_visits. False, and nothing is begun: one
 * of them is leaving. That is not waited for: its end may take as long as its work, and that may
 * take until the caller goes on.
 */
bool cm_registry_pin_all(CUcontext ret_list[CM_FENCE_CONTEXTS], size_t *ret_count);
void cm_registry_unpin_all(const CUcontext *list, size_t n);

/* From here on nobody visits the context; waits for those who do. No lock is held that a visitor
 * may want. It leaves until it is removed, or has stayed. */
void cm_registry_begin_teardown(CUcontext ctx);
void cm_registry_abort_teardown(CUcontext ctx);

/* The driver has just made the context: where another one of this handle is leaving, that one is
 * gone, and about to be removed, which is waited for. */
void cm_registry_await_removal(CUcontext ctx);

/* In a forked child, where no context is usable. */
void cm_registry_forget_all(void);

#endif
