/* SPDX-License-Identifier: MIT */
/* Streams, events, captures and graphs: the driver's, under other names. */
#include <stdlib.h>

#include "runtime.h"

cudaError_t rt_cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
	return rt_error(rt_driver()->cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t rt_cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	return rt_cudaStreamCreateWithPriority(pStream, flags, 0);
}

cudaError_t rt_cudaStreamCreate(cudaStream_t *pStream)
{
	return rt_cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t rt_cudaStreamDestroy(cudaStream_t stream)
{
	return rt_error(rt_driver()->cuStreamDestroy_v2(stream));
}

cudaError_t rt_cudaStreamSynchronize(cudaStream_t stream)
{
	return rt_error(rt_driver()->cuStreamSynchronize(stream));
}

cudaError_t rt_cudaStreamQuery(cudaStream_t stream)
{
	return rt_error(rt_driver()->cuStreamQuery(stream));
}

cudaError_t rt_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return rt_error(rt_driver()->cuStreamWaitEvent(stream, event, flags));
}

/* The runtime's callback takes the runtime's error. */
struct callback {
	cudaStreamCallback_t function;
	void *data;
};

static void call_back(CUstream stream, CUresult status, void *data)
{
	struct callback callback = *(struct callback *)data;

	free(data);
	callback.function(stream, rt_error(status), callback.data);
}

cudaError_t rt_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
				     void *userData, unsigned int flags)
{
	struct callback *kept;
	CUresult result;

	if (!callback)
		return cudaErrorInvalidValue;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return cudaErrorMemoryAllocation;
	*kept = (struct callback){.function = callback, .data = userData};
	result = rt_driver()->cuStreamAddCallback(stream, call_back, kept, flags);
	if (result != CUDA_SUCCESS)
		free(kept);
	return rt_error(result);
}

cudaError_t rt_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	return rt_error(rt_driver()->cuLaunchHostFunc(stream, fn, userData));
}

cudaError_t rt_cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
					unsigned int flags)
{
	return rt_error(rt_driver()->cuStreamAttachMemAsync(stream, (CUdeviceptr)(uintptr_t)devPtr,
							    length, flags));
}

cudaError_t rt_cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
	return rt_error(rt_driver()->cuStreamGetFlags(hStream, flags));
}

cudaError_t rt_cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
	return rt_error(rt_driver()->cuStreamGetPriority(hStream, priority));
}

cudaError_t rt_cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
	return rt_error(rt_driver()->cuStreamGetId(hStream, streamId));
}

cudaError_t rt_cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
	return rt_error(rt_driver()->cuStreamGetDevice(hStream, device));
}

cudaError_t rt_cudaStreamCopyAttributes(cudaStream_t dstStream, cudaStream_t srcStream)
{
	return rt_error(rt_driver()->cuStreamCopyAttributes(dstStream, srcStream));
}

cudaError_t rt_cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attr,
				      cudaLaunchAttributeValue *value)
{
	return rt_error(rt_driver()->cuStreamGetAttribute(stream, (CUstreamAttrID)attr,
							  (CUstreamAttrValue *)(void *)value));
}

cudaError_t rt_cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attr,
				      const cudaLaunchAttributeValue *value)
{
	return rt_error(rt_driver()->cuStreamSetAttribute(
		stream, (CUstreamAttrID)attr, (const CUstreamAttrValue *)(const void *)value));
}

/* Events. */

cudaError_t rt_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return rt_error(rt_driver()->cuEventCreate(event, flags));
}

cudaError_t rt_cudaEventCreate(cudaEvent_t *event)
{
	return rt_cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t rt_cudaEventDestroy(cudaEvent_t event)
{
	return rt_error(rt_driver()->cuEventDestroy_v2(event));
}

cudaError_t rt_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return rt_error(rt_driver()->cuEventRecord(event, stream));
}

cudaError_t rt_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return rt_error(rt_driver()->cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t rt_cudaEventQuery(cudaEvent_t event)
{
	return rt_error(rt_driver()->cuEventQuery(event));
}

cudaError_t rt_cudaEventSynchronize(cudaEvent_t event)
{
	return rt_error(rt_driver()->cuEventSynchronize(event));
}

cudaError_t rt_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	return rt_error(rt_driver()->cuEventElapsedTime(ms, start, end));
}

/* Captures. */

cudaError_t rt_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return rt_error(rt_driver()->cuThreadExchangeStreamCaptureMode(
		(CUstreamCaptureMode *)(void *)mode));
}

cudaError_t rt_cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return rt_error(rt_driver()->cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
}

cudaError_t rt_cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
					     const cudaGraphNode_t *dependencies,
					     const cudaGraphEdgeData *dependencyData,
					     size_t numDependencies,
					     enum cudaStreamCaptureMode mode)
{
	return rt_error(rt_driver()->cuStreamBeginCaptureToGraph(
		stream, graph, dependencies, (const CUgraphEdgeData *)(const void *)dependencyData,
		numDependencies, (CUstreamCaptureMode)mode));
}

cudaError_t rt_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
	return rt_error(rt_driver()->cuStreamEndCapture(stream, pGraph));
}

cudaError_t rt_cudaStreamIsCapturing(cudaStream_t stream,
				     enum cudaStreamCaptureStatus *pCaptureStatus)
{
	return rt_error(rt_driver()->cuStreamIsCapturing(
		stream, (CUstreamCaptureStatus *)(void *)pCaptureStatus));
}

cudaError_t rt_cudaStreamGetCaptureInfo(cudaStream_t stream,
					enum cudaStreamCaptureStatus *captureStatus_out,
					unsigned long long *id_out, cudaGraph_t *graph_out,
					const cudaGraphNode_t **dependencies_out,
					const cudaGraphEdgeData **edgeData_out,
					size_t *numDependencies_out)
{
	cuuint64_t id = 0;
	CUresult result = rt_driver()->cuStreamGetCaptureInfo_v3(
		stream, (CUstreamCaptureStatus *)(void *)captureStatus_out, &id, graph_out,
		dependencies_out, (const CUgraphEdgeData **)(void *)edgeData_out,
		numDependencies_out);

	if (result == CUDA_SUCCESS && id_out)
		*id_out = id;
	return rt_error(result);
}

/* Graphs. */

cudaError_t rt_cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
						   cudaGraphNode_t *dependencies,
						   const cudaGraphEdgeData *dependencyData,
						   size_t numDependencies, unsigned int flags)
{
	return rt_error(rt_driver()->cuStreamUpdateCaptureDependencies_v2(
		stream, dependencies, (const CUgraphEdgeData *)(const void *)dependencyData,
		numDependencies, flags));
}

cudaError_t rt_cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
	return rt_error(rt_driver()->cuGraphCreate(pGraph, flags));
}

cudaError_t rt_cudaGraphDestroy(cudaGraph_t graph)
{
	return rt_error(rt_driver()->cuGraphDestroy(graph));
}

cudaError_t rt_cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
					     unsigned long long flags)
{
	return rt_error(rt_driver()->cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t rt_cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
				    unsigned long long flags)
{
	return rt_cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
}

cudaError_t rt_cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	return rt_error(rt_driver()->cuGraphLaunch(graphExec, stream));
}

cudaError_t rt_cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	return rt_error(rt_driver()->cuGraphUpload(graphExec, stream));
}

cudaError_t rt_cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
	return rt_error(rt_driver()->cuGraphExecDestroy(graphExec));
}

cudaError_t rt_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
	return rt_error(rt_driver()->cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t rt_cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
				     size_t *pNumRootNodes)
{
	return rt_error(rt_driver()->cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t rt_cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				     const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
	return rt_error(rt_driver()->cuGraphAddEmptyNode(pGraphNode, graph, pDependencies,
							 numDependencies));
}

cudaError_t rt_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
					    cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
	return rt_error(rt_driver()->cuGraphNodeGetDependencies_v2(
		node, pDependencies, (CUgraphEdgeData *)(void *)edgeData, pNumDependencies));
}

cudaError_t rt_cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to,
					const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
	return rt_error(rt_driver()->cuGraphAddDependencies_v2(
		graph, from, to, (const CUgraphEdgeData *)(const void *)edgeData, numDependencies));
}
