/* SPDX-License-Identifier: MIT */
/*
 * What a piece of work does: how long it takes, which memory it touches, what effect it has when it
 * ends. Caller locks.
 */
#ifndef CM_SIM_OPERATION_H
#define CM_SIM_OPERATION_H

#include "call.h"

struct sim_ctx;
struct sim_kernel_run;
struct sim_mem;
struct sim_shared_event;

enum sim_op_kind {
	SIM_OP_MARK, /* nothing: an event, a wait, a join */
	SIM_OP_COPY,
	SIM_OP_FILL,
	SIM_OP_HOST,
	SIM_OP_KERNEL,
	SIM_OP_WAIT_VALUE,
	SIM_OP_WRITE_VALUE,
	SIM_OP_FREE,  /* of stream-ordered memory */
	SIM_OP_POST,  /* other processes learn that a record of a shared event is complete */
	SIM_OP_AWAIT, /* lasts until such a record, of another process, is complete */
};

/* Bytes of a box of rows; a plain copy is one row. */
struct sim_copy {
	uint64_t dst;
	uint64_t src;
	size_t width; /* bytes */
	size_t height;
	size_t depth;
	size_t dst_pitch;
	size_t src_pitch;
	size_t dst_slice;
	size_t src_slice;
	void *staged; /* malloc'd copy of pageable source bytes, or NULL */
};

struct sim_fill {
	uint64_t dst;
	size_t pitch;
	size_t width; /* elements */
	size_t height;
	uint32_t value;
	unsigned element; /* bytes: 1, 2 or 4 */
};

/* A function of cuLaunchHostFunc, or, where there is none, a callback of cuStreamAddCallback. */
struct sim_host_call {
	CUhostFn function;
	CUstreamCallback callback;
	CUstream stream; /* the handle, for the callback */
	void *data;
};

/* A word of memory that a stream waits for or writes. */
struct sim_word {
	uint64_t addr;
	uint64_t value;
	unsigned flags; /* CUstreamWaitValue_flags */
	unsigned bytes; /* 4 or 8 */
};

/* A record of a shared event; a reference to it. */
struct sim_record {
	struct sim_shared_event *event;
	uint64_t number;
};

struct sim_op {
	enum sim_op_kind kind;
	uint64_t duration_ns;
	union {
		struct sim_copy copy;
		struct sim_fill fill;
		struct sim_host_call host;
		struct sim_word word;
		struct sim_kernel_run *kernel; /* malloc'd */
		struct sim_mem *freed;         /* NULL once it is */
		struct sim_record record;
	} u;
};

/* A run of bytes that an operation reads or writes. */
struct sim_touch {
	uint64_t addr;
	uint64_t bytes;
	bool write;
};

/* Calls `see` for everything the operation touches until it says false; the last answer. */
bool sim_op_visit(const struct sim_op *op, bool (*see)(const struct sim_touch *touch, void *data),
		  void *data);

/* True when all that it touches is there. */
bool sim_op_is_possible(const struct sim_op *op);

/*
 * Carries it out. CUDA_ERROR_ILLEGAL_ADDRESS when it touches memory that is not
 * there, or, being a kernel, that the context of its function cannot reach.
 */
CUresult sim_op_run(struct sim_op *op);

/* False while the operation must go on whatever time has passed. */
bool sim_op_is_over(const struct sim_op *op);
/* True for those that sim_op_is_over() must be asked about. */
bool sim_op_polls(const struct sim_op *op);

/* An operation of the same kind with its own copies of what this one holds; false: no memory. */
bool sim_op_clone(const struct sim_op *op, struct sim_op *ret_op);
/* Gives back what the operation holds. */
void sim_op_release(struct sim_op *op);

/* How long `bytes` take to be moved. */
uint64_t sim_op_move_ns(uint64_t bytes);

#endif
