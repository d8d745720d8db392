/* SPDX-License-Identifier: MIT */
#include "interpose/driver/reach.h"

#include "interpose/driver/current.h"
#include "interpose/driver/driver_ops.h"

uint64_t cm_reach_of(CUdeviceptr addr)
{
	return cm_cache_rows_of(cm_process_cache_if_made(), addr);
}

uint64_t cm_reach_of_box(CUmemorytype type, CUdeviceptr addr)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? cm_reach_of(addr)
									     : 0;
}

uint64_t cm_reach_of_list(const CUdeviceptr *list, size_t count)
{
	uint64_t named = 0;
	size_t i;

	for (i = 0; list && i < count; i++)
		named |= cm_reach_of(list[i]);
	return named;
}

static uint64_t reach_of_operand(const CUmemcpy3DOperand *operand)
{
	return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? cm_reach_of(operand->op.ptr.ptr)
							       : 0;
}

uint64_t cm_reach_of_boxes(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
	uint64_t named = 0;
	size_t i;

	for (i = 0; list && i < count; i++)
		named |= reach_of_operand(&list[i].src) | reach_of_operand(&list[i].dst);
	return named;
}

uint64_t cm_reach_of_unpacked(const CUmemDecompressParams *list, size_t count)
{
	uint64_t named = 0;
	size_t i;

	for (i = 0; list && i < count; i++)
		named |= cm_reach_of((uintptr_t)list[i].src) | cm_reach_of((uintptr_t)list[i].dst) |
			 cm_reach_of((uintptr_t)list[i].dstActBytes);
	return named;
}

/* The address has the same place in a wait and in a write; two others have none. What is not known
 * may name any memory. */
uint64_t cm_reach_of_words(const CUstreamBatchMemOpParams *ops, unsigned int count)
{
	uint64_t named = 0;
	unsigned int i;

	for (i = 0; ops && i < count; i++)
		switch ((unsigned int)ops[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			named |= cm_reach_of(ops[i].writeValue.address);
			break;
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		case CU_STREAM_MEM_OP_BARRIER:
			break;
		default:
			named |= cm_cache_all_rows(cm_process_cache_if_made());
		}
	return named;
}

/* Also in a thread whose hook depth longjmp or cancellation left set: its work reaches memory,
 * too. */
struct cm_submission cm_reach_begin(CUstream stream, uint64_t named)
{
	struct cm_submission submission = {0};
	bool entered;

	if (!named)
		return submission;
	entered = cm_hook_enter();
	/* First: a thread that sees it counted for a device sees that it is under way. */
	cm_work_note();
	submission = cm_cache_begin_reach(cm_process_cache_if_made(), cm_context_of_stream(stream),
					  named);
	if (!submission.named)
		cm_work_end();
	if (entered)
		cm_hook_leave();
	return submission;
}

void cm_reach_end(struct cm_submission submission)
{
	if (!submission.named)
		return;
	cm_cache_end_reach(cm_process_cache_if_made(), submission);
	cm_work_end();
}

void cm_reach_note_work(CUstream stream)
{
	cm_cache_note_work(cm_process_cache_if_made(), cm_context_of_stream(stream));
}

void cm_reach_note_work_in(CUcontext ctx)
{
	cm_cache_note_work(cm_process_cache_if_made(), (uintptr_t)ctx);
}
