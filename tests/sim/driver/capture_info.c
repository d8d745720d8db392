/* SPDX-License-Identifier: MIT */
/* What can be asked of a stream's capture. None of it disturbs a capture, but for the legacy
 * stream, which has no capture of its own and an implicit part in the others. */
#include "capture.h"
#include "stream.h"

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	CUresult result;
	const struct sim_stream *stream = sim_stream_of(hStream, &result);

	if (!stream || !captureStatus)
		return stream ? CUDA_ERROR_INVALID_VALUE : result;
	result = sim_capture_ask_stream(stream);
	if (result == CUDA_SUCCESS)
		*captureStatus = status_of(stream);
	return result;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				       cuuint64_t *id_out, CUgraph *graph_out,
				       const CUgraphNode **dependencies_out,
				       const CUgraphEdgeData **edgeData_out,
				       size_t *numDependencies_out)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);

	if (!stream || !captureStatus_out)
		return stream ? CUDA_ERROR_INVALID_VALUE : result;
	result = sim_capture_ask_stream(stream);
	if (result != CUDA_SUCCESS)
		return result;
	*captureStatus_out = status_of(stream);
	if (*captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id_out)
		*id_out = stream->capture->id;
	if (graph_out)
		*graph_out = sim_graph_handle(stream->capture->graph);
	if (dependencies_out)
		*dependencies_out = (const CUgraphNode *)(const void *)stream->frontier.items;
	if (edgeData_out)
		*edgeData_out = NULL;
	if (numDependencies_out)
		*numDependencies_out = stream->frontier.count;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				       cuuint64_t *id_out, CUgraph *graph_out,
				       const CUgraphNode **dependencies_out,
				       size_t *numDependencies_out)
{
	return sim_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					     dependencies_out, NULL, numDependencies_out);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				    cuuint64_t *id_out)
{
	return sim_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL,
					     NULL);
}
