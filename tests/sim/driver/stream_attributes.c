/* SPDX-License-Identifier: MIT */
/* Attributes of streams: kept and given back; none has an effect here. */
#include <string.h>

#include "stream.h"

static CUstreamAttrValue *find(struct sim_stream *stream, CUstreamAttrID attr)
{
	return (unsigned)attr < SIM_STREAM_ATTRIBUTES ? &stream->attributes[attr] : NULL;
}

CUresult sim_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream)
		return error;
	if (!value || !find(stream, attr))
		return CUDA_ERROR_INVALID_VALUE;
	*value = *find(stream, attr);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
				  const CUstreamAttrValue *param)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream)
		return error;
	if (!param || !find(stream, attr))
		return CUDA_ERROR_INVALID_VALUE;
	*find(stream, attr) = *param;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamCopyAttributes(CUstream dstStream, CUstream srcStream)
{
	CUresult error;
	struct sim_stream *dst = sim_stream_of(dstStream, &error);
	const struct sim_stream *src = dst ? sim_stream_of(srcStream, &error) : NULL;

	if (!src)
		return error;
	memcpy(dst->attributes, src->attributes, sizeof(dst->attributes));
	return CUDA_SUCCESS;
}
