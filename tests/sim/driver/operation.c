/* SPDX-License-Identifier: MIT */
#include "operation.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "kernel.h"
#include "memory.h"
#include "plan.h"
#include "shared_event.h"

uint64_t sim_op_move_ns(uint64_t bytes)
{
	double ns = 0;

	if (sim_plan.copy_bandwidth)
		ns = (double)bytes * 1e9 / (double)sim_plan.copy_bandwidth;
	return sim_plan.copy_ns + (uint64_t)ns;
}

static uint64_t box_bytes(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
	return (depth - 1) * slice + (height - 1) * pitch + width;
}

static bool visit_copy(const struct sim_copy *copy,
		       bool (*see)(const struct sim_touch *touch, void *data), void *data)
{
	struct sim_touch from = {.addr = copy->src};
	struct sim_touch to = {.addr = copy->dst, .write = true};

	if (!copy->width || !copy->height || !copy->depth)
		return true;
	from.bytes = box_bytes(copy->width, copy->height, copy->depth, copy->src_pitch,
			       copy->src_slice);
	to.bytes = box_bytes(copy->width, copy->height, copy->depth, copy->dst_pitch,
			     copy->dst_slice);
	return (copy->staged || see(&from, data)) && see(&to, data);
}

static bool visit_fill(const struct sim_fill *fill,
		       bool (*see)(const struct sim_touch *touch, void *data), void *data)
{
	struct sim_touch to = {.addr = fill->dst, .write = true};

	if (!fill->width || !fill->height)
		return true;
	to.bytes = box_bytes(fill->width * fill->element, fill->height, 1, fill->pitch, 0);
	return see(&to, data);
}

static bool visit_word(const struct sim_op *op,
		       bool (*see)(const struct sim_touch *touch, void *data), void *data)
{
	struct sim_touch touch = {
		.addr = op->u.word.addr,
		.bytes = op->u.word.bytes,
		.write = op->kind == SIM_OP_WRITE_VALUE,
	};

	return see(&touch, data);
}

bool sim_op_visit(const struct sim_op *op, bool (*see)(const struct sim_touch *touch, void *data),
		  void *data)
{
	switch (op->kind) {
	case SIM_OP_COPY:
		return visit_copy(&op->u.copy, see, data);
	case SIM_OP_FILL:
		return visit_fill(&op->u.fill, see, data);
	case SIM_OP_WAIT_VALUE:
	case SIM_OP_WRITE_VALUE:
		return visit_word(op, see, data);
	case SIM_OP_KERNEL:
		return sim_kernel_visit(op->u.kernel, see, data);
	case SIM_OP_MARK:
	case SIM_OP_HOST:
	case SIM_OP_FREE:
	case SIM_OP_POST:
	case SIM_OP_AWAIT:
		break;
	}
	return true;
}

static bool is_live(const struct sim_touch *touch, void *unused)
{
	(void)unused;
	return sim_mem_is_live(touch->addr, touch->bytes, touch->write);
}

static void run_copy(const struct sim_copy *copy)
{
	const char *from = copy->staged ? copy->staged : (const char *)(uintptr_t)copy->src;
	char *to = (char *)(uintptr_t)copy->dst;

	for (size_t z = 0; z < copy->depth; z++) {
		for (size_t y = 0; y < copy->height; y++)
			memmove(to + z * copy->dst_slice + y * copy->dst_pitch,
				from + z * copy->src_slice + y * copy->src_pitch, copy->width);
	}
}

static void fill_row(char *to, const struct sim_fill *fill)
{
	if (fill->element == 1) {
		memset(to, (int)(fill->value & 0xff), fill->width);
		return;
	}
	for (size_t x = 0; x < fill->width; x++)
		memcpy(to + x * fill->element, &fill->value, fill->element);
}

static void run_fill(const struct sim_fill *fill)
{
	for (size_t y = 0; y < fill->height; y++)
		fill_row((char *)(uintptr_t)fill->dst + y * fill->pitch, fill);
}

static uint64_t read_word(const struct sim_word *word)
{
	const void *at = (const void *)(uintptr_t)word->addr;

	return word->bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE)
				: __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

static void run_write(const struct sim_word *word)
{
	void *at = (void *)(uintptr_t)word->addr;

	if (word->bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)word->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)at, word->value, __ATOMIC_RELEASE);
}

bool sim_op_is_possible(const struct sim_op *op)
{
	return sim_op_visit(op, is_live, NULL);
}

/* Copies between devices find their way without peer access; kernels do not. */
static bool is_reachable(const struct sim_touch *touch, void *ctx)
{
	const struct sim_mem *mem;
	uint64_t at;

	if (!ctx || !is_live(touch, NULL))
		return false;
	for (at = touch->addr; at == touch->addr || at < touch->addr + touch->bytes;
	     at = mem->base + mem->bytes) {
		mem = sim_mem_find(at);
		if (!mem)
			return sim_plan.pageable;
		if (!sim_ctx_can_reach(ctx, mem, touch->write))
			return false;
	}
	return true;
}

static bool touches_what_is_there(struct sim_op *op)
{
	if (op->kind == SIM_OP_KERNEL)
		return sim_op_visit(op, is_reachable, sim_ctx_of(op->u.kernel->ctx));
	return sim_op_visit(op, is_live, NULL);
}

CUresult sim_op_run(struct sim_op *op)
{
	if (!touches_what_is_there(op))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	switch (op->kind) {
	case SIM_OP_COPY:
		run_copy(&op->u.copy);
		break;
	case SIM_OP_FILL:
		run_fill(&op->u.fill);
		break;
	case SIM_OP_WRITE_VALUE:
		run_write(&op->u.word);
		break;
	case SIM_OP_KERNEL:
		sim_kernel_execute(op->u.kernel);
		break;
	case SIM_OP_FREE:
		sim_op_release(op);
		break;
	case SIM_OP_MARK:
	case SIM_OP_HOST:
	case SIM_OP_WAIT_VALUE:
	case SIM_OP_POST: /* however it ends: work.c */
	case SIM_OP_AWAIT:
		break;
	}
	return CUDA_SUCCESS;
}

/* The comparisons of CUstreamWaitValue_flags; "greater or equal" is cyclic, as cuda.h says. */
static bool word_holds(const struct sim_word *word)
{
	uint64_t value = read_word(word);

	switch (word->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return word->bytes == 4 ? (int32_t)((uint32_t)value - (uint32_t)word->value) >= 0
					: (int64_t)(value - word->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return value == word->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (value & word->value) != 0;
	default:
		return ~(value | word->value) != 0;
	}
}

bool sim_op_polls(const struct sim_op *op)
{
	return op->kind == SIM_OP_WAIT_VALUE || op->kind == SIM_OP_AWAIT ||
	       (op->kind == SIM_OP_KERNEL && op->u.kernel->kernel.until >= 0);
}

bool sim_op_is_over(const struct sim_op *op)
{
	/* What touches memory that is gone ends at once, with an error. */
	if (!sim_op_is_possible(op))
		return true;
	if (op->kind == SIM_OP_AWAIT)
		return sim_shared_event_is_complete(op->u.record.event, op->u.record.number);
	return op->kind == SIM_OP_KERNEL ? sim_kernel_is_over(op->u.kernel)
					 : word_holds(&op->u.word);
}

bool sim_op_clone(const struct sim_op *op, struct sim_op *ret_op)
{
	*ret_op = *op;
	if (op->kind == SIM_OP_KERNEL) {
		ret_op->u.kernel = malloc(sizeof(*op->u.kernel));
		if (!ret_op->u.kernel)
			return false;
		*ret_op->u.kernel = *op->u.kernel;
	}
	if (op->kind == SIM_OP_COPY && op->u.copy.staged) {
		size_t bytes = op->u.copy.width * op->u.copy.height * op->u.copy.depth;

		ret_op->u.copy.staged = malloc(bytes);
		if (!ret_op->u.copy.staged)
			return false;
		memcpy(ret_op->u.copy.staged, op->u.copy.staged, bytes);
	}
	return true;
}

void sim_op_release(struct sim_op *op)
{
	if (op->kind == SIM_OP_COPY)
		free(op->u.copy.staged);
	if (op->kind == SIM_OP_KERNEL)
		free(op->u.kernel);
	if (op->kind == SIM_OP_POST || op->kind == SIM_OP_AWAIT)
		sim_shared_event_unref(op->u.record.event);
	if (op->kind == SIM_OP_FREE && op->u.freed) {
		sim_mem_free(op->u.freed);
		op->u.freed = NULL;
	}
}
