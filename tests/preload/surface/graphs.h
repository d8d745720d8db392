/* SPDX-License-Identifier: MIT */
/*
 * What the roles with graphs of two devices share: a block on each, streams and kernels, and graphs
 * with a node. A failure ends the role.
 */
#ifndef CM_TESTS_PRELOAD_SURFACE_GRAPHS_H
#define CM_TESTS_PRELOAD_SURFACE_GRAPHS_H

#include "tests/preload/surface/surface.h"

#define CM_SCENE_BLOCK (16 * MIB)

struct cm_scene {
	CUcontext first, second;
	CUdeviceptr own, other; /* of devices 1 and 0 */
	CUstream stream;        /* of device 1 */
	CUfunction on_first, on_second;
};

/* The second context is current then. */
struct cm_scene cm_scene_open(void);

/* How a graph is made: on a stream of device 1, with a node that works on a block of it. */
typedef CUgraph cm_graph_maker(const struct cm_scene *scene);

/* Launches one of the scene's functions. */
void cm_touch(CUfunction function, CUstream stream, CUdeviceptr addr);

void cm_capture_begin(CUstream stream);
CUgraph cm_capture_end(CUstream stream);
CUgraph cm_graph_create(void);
CUgraphExec cm_graph_instantiate(CUgraph graph);

/* Kernels run until it is set: never, as far as a role is concerned. */
extern volatile uint32_t cm_flag;

/* The arguments of such a kernel. */
struct cm_held_kernel {
	CUdeviceptr addr;
	uint64_t bytes;
	const volatile uint32_t *flag;
	void *params[3];
};

void cm_hold_fill_in(struct cm_held_kernel *hold, CUdeviceptr addr);

/* The fields that all versions of the node's parameters have. */
#define CM_HOLD_PARAMS(function, hold)                                                   \
	.func = (function), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, \
	.blockDimY = 1, .blockDimZ = 1, .kernelParams = (hold)->params

/* The kernel of a library. */
CUkernel cm_load_hold_kernel(void);

/* Adds a node with a function from cm_load_hold, for a block. */
CUgraphNode cm_graph_add_hold(CUgraph graph, CUfunction function, CUdeviceptr addr);

/* A graph with a kernel of a library, in a context or the current one (NULL). */
CUgraph cm_graph_hold_in(CUcontext ctx, CUdeviceptr addr);

#endif
