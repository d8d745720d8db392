/* SPDX-License-Identifier: MIT */
/*
 * The frame that every exported function runs in. calls.def is the only list: from it come the
 * exported functions (entry_points.c), their counters, the map of cuGetProcAddress, and the
 * declarations of the functions that do the work. Those are called sim_<exported name>, run with
 * the lock held (unless the row says NOLOCK), and may call each other, never an exported one.
 */
#ifndef CM_SIM_CALL_H
#define CM_SIM_CALL_H

/* cuda.h then declares every exported name by itself, old and per-thread ones included. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/newer_cuda.h"

/* Those of cudaGL.h, which cannot be had without OpenGL's own headers. */
CUresult cuGLGetDevices_v2(unsigned int *pCudaDeviceCount, CUdevice *pCudaDevices,
			   unsigned int cudaDeviceCount, int deviceList);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image,
				   unsigned int target, unsigned int Flags);

/* Properties of a call, the fourth column of calls.def. */
enum sim_call_flags {
	SIM_ANYTIME = 1 << 0,    /* may be called before cuInit */
	SIM_CTX = 1 << 1,        /* a healthy context must be current */
	SIM_UNSAFE = 1 << 2,     /* not while a stream is being captured, by the thread's mode */
	SIM_NOLOCK = 1 << 3,     /* touches nothing but the calling thread's own state */
	SIM_SURE = 1 << 4,       /* failall skips it */
	SIM_PER_THREAD = 1 << 5, /* stream 0 is the thread's own one */
};

enum sim_call {
#define CALL(name, base, version, flags, params, args) SIM_CALL_##name,
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args) \
	SIM_CALL_##name, SIM_CALL_##name##suffix,
#include "calls.def"
#undef CALL
#undef PAIR
	SIM_CALL_COUNT
};

/* What is known of a call before it is made. */
struct sim_call_info {
	const char *name; /* the exported one */
	const char *base; /* what cuGetProcAddress is asked for */
	unsigned version; /* of CUDA, that brought this form of it */
	unsigned flags;
	void *function;
};
extern const struct sim_call_info sim_calls[SIM_CALL_COUNT];

/* The running call, on the entry point's stack. */
struct sim_frame {
	enum sim_call call;
	bool locked;
	uint64_t began_ns;
};

/*
 * Counts the call, takes the lock, lets the planned latency pass, and says whether the call may go
 * on: an injected failure, a missing cuInit, a missing or broken context, a forbidding capture.
 * sim_call_leave() must follow whatever the answer; it hands the result through.
 */
CUresult sim_call_enter(struct sim_frame *frame, enum sim_call call);
CUresult sim_call_leave(struct sim_frame *frame, CUresult result);

/* What the entry points call. */
#define CALL(name, base, version, flags, params, args) CUresult sim_##name params;
#define PAIR(name, suffix, base, version, ptsz_version, flags, params, args) \
	CUresult sim_##name params;
#include "calls.def"
#undef CALL
#undef PAIR

#endif
