/* SPDX-License-Identifier: MIT */
/* Host functions in streams, and words of memory that streams wait for and write. */
#include "capture.h"
#include "memory.h"
#include "stream.h"

static CUresult submit(CUstream handle, struct sim_op *op)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(handle, &result);

	return stream ? sim_stream_submit(stream, op, NULL) : result;
}

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct sim_op op = {
		.kind = SIM_OP_HOST,
		.u.host = {.function = fn, .data = userData},
	};

	return fn ? submit(hStream, &op) : CUDA_ERROR_INVALID_VALUE;
}

/* How the host waits makes no difference here: CU_HOST_TASK_BLOCKING, CU_HOST_TASK_SPINWAIT. */
CUresult sim_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
				 unsigned int syncMode)
{
	return syncMode > 1 ? CUDA_ERROR_INVALID_VALUE
			    : sim_cuLaunchHostFunc(hStream, fn, userData);
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				 unsigned int flags)
{
	struct sim_op op = {
		.kind = SIM_OP_HOST,
		.u.host = {.callback = callback, .data = userData, .stream = hStream},
	};
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);

	if (!stream)
		return result;
	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_capture_refuse(stream);
	return result == CUDA_SUCCESS ? submit(hStream, &op) : result;
}

static CUresult submit_word(CUstream stream, enum sim_op_kind kind, const struct sim_word *word)
{
	struct sim_op op = {.kind = kind, .u.word = *word};

	if (!word->addr || word->addr % word->bytes || !sim_mem_find(word->addr))
		return CUDA_ERROR_INVALID_VALUE;
	return submit(stream, &op);
}

static CUresult wait_value(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags,
			   unsigned bytes)
{
	const struct sim_word word = {.addr = addr, .value = value, .flags = flags, .bytes = bytes};

	if (flags & ~(unsigned)(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH))
		return CUDA_ERROR_INVALID_VALUE;
	return submit_word(stream, SIM_OP_WAIT_VALUE, &word);
}

static CUresult write_value(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags,
			    unsigned bytes)
{
	const struct sim_word word = {.addr = addr, .value = value, .bytes = bytes};

	if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_word(stream, SIM_OP_WRITE_VALUE, &word);
}

CUresult sim_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				    unsigned int flags)
{
	return wait_value(stream, addr, value, flags, 4);
}

CUresult sim_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				    unsigned int flags)
{
	return wait_value(stream, addr, value, flags, 8);
}

CUresult sim_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				     unsigned int flags)
{
	return write_value(stream, addr, value, flags, 4);
}

CUresult sim_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				     unsigned int flags)
{
	return write_value(stream, addr, value, flags, 8);
}

CUresult sim_cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				 unsigned int flags)
{
	return sim_cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult sim_cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				 unsigned int flags)
{
	return sim_cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult sim_cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				  unsigned int flags)
{
	return sim_cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult sim_cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				  unsigned int flags)
{
	return sim_cuStreamWriteValue64_v2(stream, addr, value, flags);
}

static CUresult submit_one(CUstream stream, const CUstreamBatchMemOpParams *op)
{
	switch ((unsigned)op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return wait_value(stream, op->waitValue.address, op->waitValue.value,
				  op->waitValue.flags, 4);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return wait_value(stream, op->waitValue.address, op->waitValue.value64,
				  op->waitValue.flags, 8);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return write_value(stream, op->writeValue.address, op->writeValue.value,
				   op->writeValue.flags, 4);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return write_value(stream, op->writeValue.address, op->writeValue.value64,
				   op->writeValue.flags, 8);
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
				   CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!paramArray || !count || count > 256 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = submit_one(stream, &paramArray[i]);
	return result;
}
