/* SPDX-License-Identifier: MIT */
/* The cuMemcpy family: every form of it is a box of bytes from one place to another. */
#include "array.h"
#include "context.h"
#include "copy.h"
#include "plan.h"

/* One end of a plain copy: what kind of memory the caller says it is, and where. */
struct end {
	CUmemorytype type;
	uint64_t addr;
};

static struct end anywhere(uint64_t addr)
{
	return (struct end){CU_MEMORYTYPE_UNIFIED, addr};
}

static struct end on_device(CUdeviceptr addr)
{
	return (struct end){CU_MEMORYTYPE_DEVICE, addr};
}

static struct end on_host(const void *addr)
{
	return (struct end){CU_MEMORYTYPE_HOST, (uint64_t)(uintptr_t)addr};
}

/* A byte of a one-dimensional array; address 0, which no copy takes, when it is none of it. */
static struct end in_array(CUarray handle, size_t offset, size_t bytes)
{
	const struct sim_array *array = sim_array_of(handle);

	if (!array || offset > sim_array_bytes(array) || bytes > sim_array_bytes(array) - offset)
		return on_device(0);
	return on_device(array->base + offset);
}

static CUresult copy_box(const CUDA_MEMCPY3D *params, CUstream stream, bool wait)
{
	struct sim_op op;
	CUresult result = sim_copy_describe(params, &op);

	return result == CUDA_SUCCESS ? sim_copy_submit(stream, &op, wait) : result;
}

static CUresult copy(struct end dst, struct end src, size_t bytes, CUstream stream, bool wait)
{
	const CUDA_MEMCPY3D params = {
		.srcMemoryType = src.type,
		.srcHost = (const void *)(uintptr_t)src.addr,
		.srcDevice = src.addr,
		.dstMemoryType = dst.type,
		.dstHost = (void *)(uintptr_t)dst.addr,
		.dstDevice = dst.addr,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};

	return bytes ? copy_box(&params, stream, wait) : CUDA_SUCCESS;
}

CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return copy(anywhere(dst), anywhere(src), ByteCount, NULL, true);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return copy(anywhere(dst), anywhere(src), ByteCount, hStream, false);
}

/* One after the other: a stream promises no more. The attributes are hints. */
CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				   size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				   size_t numAttrs, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;

	if (!dsts || !srcs || !sizes || !count || !attrs || !attrsIdxs || !numAttrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = copy(anywhere(dsts[i]), anywhere(srcs[i]), sizes[i], hStream, false);
	return result;
}

/* Of pointers alone, without arrays. */
CUresult sim_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
				     unsigned long long flags, CUstream hStream)
{
	CUresult result = CUDA_SUCCESS;

	if (!numOps || !opList || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numOps && result == CUDA_SUCCESS; i++) {
		const CUDA_MEMCPY3D_BATCH_OP *op = &opList[i];

		if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
		    op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
			return CUDA_ERROR_NOT_SUPPORTED;
		result = copy(anywhere(op->dst.op.ptr.ptr), anywhere(op->src.op.ptr.ptr),
			      op->extent.width * op->extent.height * op->extent.depth, hStream,
			      false);
	}
	return result;
}

CUresult sim_cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
					 CUmemcpyAttributes *attr, CUstream hStream)
{
	return attr ? copy(anywhere(dst), anywhere(src), size, hStream, false)
		    : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					   CUstream hStream)
{
	return sim_cuMemcpy3DBatchAsync_v2(1, op, flags, hStream);
}

/* No codec is simulated: what is unpacked is what was packed. The number of bytes follows it. */
static CUresult unpack(const CUmemDecompressParams *params, CUstream stream)
{
	const size_t bytes = params->srcNumBytes;
	CUresult result;

	if (params->algo != CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE || !params->src || !params->dst)
		return CUDA_ERROR_INVALID_VALUE;
	result = copy(anywhere((uintptr_t)params->dst), anywhere((uintptr_t)params->src), bytes,
		      stream, false);
	if (result != CUDA_SUCCESS || !params->dstActBytes)
		return result;
	return sim_cuMemsetD32Async((uintptr_t)params->dstActBytes, (unsigned)bytes, 1, stream);
}

CUresult sim_cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
				       unsigned int flags, size_t *errorIndex, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	if (!sim_plan.abilities)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!paramsArray || !count || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = unpack(&paramsArray[i], stream);
		if (result != CUDA_SUCCESS && errorIndex)
			*errorIndex = i;
	}
	return result;
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			       CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	if (!sim_ctx_of(dstContext) || !sim_ctx_of(srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy(on_device(dstDevice), on_device(srcDevice), ByteCount, hStream, false);
}

CUresult sim_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			  CUcontext srcContext, size_t ByteCount)
{
	return sim_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return copy(on_device(dstDevice), on_host(srcHost), ByteCount, NULL, true);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
				  CUstream hStream)
{
	return copy(on_device(dstDevice), on_host(srcHost), ByteCount, hStream, false);
}

CUresult sim_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy(on_host(dstHost), on_device(srcDevice), ByteCount, NULL, true);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
				  CUstream hStream)
{
	return copy(on_host(dstHost), on_device(srcDevice), ByteCount, hStream, false);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy(on_device(dstDevice), on_device(srcDevice), ByteCount, NULL, true);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
				  CUstream hStream)
{
	return copy(on_device(dstDevice), on_device(srcDevice), ByteCount, hStream, false);
}

CUresult sim_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
			     size_t ByteCount)
{
	return copy(in_array(dstArray, dstOffset, ByteCount), on_host(srcHost), ByteCount, NULL,
		    true);
}

CUresult sim_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return copy(on_host(dstHost), in_array(srcArray, srcOffset, ByteCount), ByteCount, NULL,
		    true);
}

CUresult sim_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
			     size_t ByteCount)
{
	return copy(in_array(dstArray, dstOffset, ByteCount), on_device(srcDevice), ByteCount, NULL,
		    true);
}

CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
			     size_t ByteCount)
{
	return copy(on_device(dstDevice), in_array(srcArray, srcOffset, ByteCount), ByteCount, NULL,
		    true);
}

CUresult sim_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
			     size_t ByteCount)
{
	return copy(in_array(dstArray, dstOffset, ByteCount),
		    in_array(srcArray, srcOffset, ByteCount), ByteCount, NULL, true);
}

CUresult sim_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				  size_t ByteCount, CUstream hStream)
{
	return copy(in_array(dstArray, dstOffset, ByteCount), on_host(srcHost), ByteCount, hStream,
		    false);
}

CUresult sim_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
				  size_t ByteCount, CUstream hStream)
{
	return copy(on_host(dstHost), in_array(srcArray, srcOffset, ByteCount), ByteCount, hStream,
		    false);
}

static CUDA_MEMCPY3D box_of_plane(const CUDA_MEMCPY2D *plane)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = plane->srcXInBytes,
		.srcY = plane->srcY,
		.srcMemoryType = plane->srcMemoryType,
		.srcHost = plane->srcHost,
		.srcDevice = plane->srcDevice,
		.srcArray = plane->srcArray,
		.srcPitch = plane->srcPitch,
		.dstXInBytes = plane->dstXInBytes,
		.dstY = plane->dstY,
		.dstMemoryType = plane->dstMemoryType,
		.dstHost = plane->dstHost,
		.dstDevice = plane->dstDevice,
		.dstArray = plane->dstArray,
		.dstPitch = plane->dstPitch,
		.WidthInBytes = plane->WidthInBytes,
		.Height = plane->Height,
		.Depth = 1,
	};
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D box;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	box = box_of_plane(pCopy);
	return copy_box(&box, hStream, false);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	CUDA_MEMCPY3D box;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	box = box_of_plane(pCopy);
	return copy_box(&box, NULL, true);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return sim_cuMemcpy2D_v2(pCopy);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	return copy_box(pCopy, NULL, true);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return copy_box(pCopy, hStream, false);
}

CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D box;

	if (!pCopy)
		return CUDA_ERROR_INVALID_VALUE;
	box = (CUDA_MEMCPY3D){
		.srcXInBytes = pCopy->srcXInBytes,
		.srcY = pCopy->srcY,
		.srcZ = pCopy->srcZ,
		.srcMemoryType = pCopy->srcMemoryType,
		.srcHost = pCopy->srcHost,
		.srcDevice = pCopy->srcDevice,
		.srcArray = pCopy->srcArray,
		.srcPitch = pCopy->srcPitch,
		.srcHeight = pCopy->srcHeight,
		.dstXInBytes = pCopy->dstXInBytes,
		.dstY = pCopy->dstY,
		.dstZ = pCopy->dstZ,
		.dstMemoryType = pCopy->dstMemoryType,
		.dstHost = pCopy->dstHost,
		.dstDevice = pCopy->dstDevice,
		.dstArray = pCopy->dstArray,
		.dstPitch = pCopy->dstPitch,
		.dstHeight = pCopy->dstHeight,
		.WidthInBytes = pCopy->WidthInBytes,
		.Height = pCopy->Height,
		.Depth = pCopy->Depth,
	};
	return copy_box(&box, hStream, false);
}

CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	return sim_cuMemcpy3DPeerAsync(pCopy, NULL);
}
