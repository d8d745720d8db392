/* SPDX-License-Identifier: MIT */
/*
 * Functions of hooks.def that are newer than the oldest supported CUDA headers (13.0), declared as
 * in cuda.h of CUDA 13.5. Include after cuda.h. Declarations only.
 */
#ifndef CM_INTERPOSE_SYMBOLS_NEWER_CUDA_H
#define CM_INTERPOSE_SYMBOLS_NEWER_CUDA_H

#include <cuda.h>

#if CUDA_VERSION < 13010
CUresult CUDAAPI cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data, unsigned int mode);
CUresult CUDAAPI cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn fn, void *data,
					  unsigned int mode);
CUresult CUDAAPI cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
				       size_t mcOffset, CUmemGenericAllocationHandle memHandle,
				       size_t memOffset, size_t size, unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
					size_t mcOffset, CUdeviceptr memptr, size_t size,
					unsigned long long flags);
#endif

#if CUDA_VERSION < 13020
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
					     CUmemcpyAttributes *attributes, CUstream stream);
CUresult CUDAAPI cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
						  CUmemcpyAttributes *attributes, CUstream stream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					       CUstream stream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *op,
						    unsigned long long flags, CUstream stream);
#endif

#if CUDA_VERSION < 13030
typedef enum { CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE } CUgraphRecaptureStatus;
typedef CUresult(CUDA_CB *CUgraphRecaptureCallback)(void *data, CUgraphNode node,
						    const CUgraphNodeParams *original,
						    const CUgraphNodeParams *recaptured,
						    CUgraphRecaptureStatus status);

CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode,
					       CUgraph graph, CUgraphRecaptureCallback callback,
					       void *data);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode,
						    CUgraph graph,
						    CUgraphRecaptureCallback callback, void *data);
#endif

#endif
