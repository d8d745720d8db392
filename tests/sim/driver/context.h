/* SPDX-License-Identifier: MIT */
/*
 * Contexts: what is current on a thread, and what belongs to each. Caller locks.
 */
#ifndef CM_SIM_CONTEXT_H
#define CM_SIM_CONTEXT_H

#include "device.h"
#include "object.h"
#include "state.h"

struct sim_event;
struct sim_mem;
struct sim_module;
struct sim_stream;
struct sim_vector;
struct sim_work;

enum { SIM_LIMIT_COUNT = CU_LIMIT_MAX, SIM_PEERS = 32 };

struct sim_ctx {
	struct sim_object object;
	struct sim_device *device;
	struct sim_ctx *next; /* of the device */
	bool primary;
	unsigned users; /* beyond its maker: cuCtxAttach */
	unsigned flags;
	unsigned version;
	CUresult error; /* sticky: every later call that needs the context returns it */
	size_t limits[SIM_LIMIT_COUNT];
	CUfunc_cache cache;
	CUsharedconfig shared;
	struct sim_current peers[SIM_PEERS]; /* whose memory its work may touch */

	struct sim_mem *memory;
	struct sim_event *events;
	struct sim_module *modules;
	struct sim_stream *streams; /* all, the legacy one included */
	struct sim_stream *legacy;
	struct sim_work *running;     /* all that is not done */
	struct sim_work *gate;        /* all future work comes after it: cuCtxWaitEvent */
	struct sim_work *unreclaimed; /* the last work of destroyed streams */
	struct sim_vector *left;      /* what the work of destroyed streams came after */
};

/* The current context of the calling thread, healthy or not; NULL when none is. */
struct sim_ctx *sim_ctx_current(void);
/* The living context that the handle means; 0 means the current one. NULL: none. */
struct sim_ctx *sim_ctx_of(CUcontext handle);
static inline CUcontext sim_ctx_handle(struct sim_ctx *ctx)
{
	return (CUcontext)(void *)ctx;
}

/* All work of the context is over, or has no effect any more, and the calling thread knows. */
void sim_ctx_tell_end(struct sim_ctx *ctx);

/* What a call that needs the calling thread's context has to say of it. */
CUresult sim_ctx_check(const struct sim_thread *self);

/* A mark after all work of the context so far; a reference. NULL when memory is out. */
struct sim_work *sim_ctx_mark(struct sim_ctx *ctx);
/* The host waits for all work of the context so far. Its sticky error, if any. */
CUresult sim_ctx_synchronize(struct sim_ctx *ctx);
/* The same for all contexts of the device. */
void sim_device_synchronize(struct sim_device *device);
/* The same for the driver's own ends: the caller of the call can't count on it. */
void sim_device_drain(struct sim_device *device);

/* True when the context's own work may touch the memory: it is on its device, or a peer's, or open
 * to its device. */
bool sim_ctx_can_reach(struct sim_ctx *ctx, const struct sim_mem *mem, bool write);

#endif
