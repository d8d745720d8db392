/* SPDX-License-Identifier: MIT */
/*
 * The cuMemset family. The forms without Async do not wait for device memory either, as the
 * driver's manual says; for host memory they do.
 */
#include "memory.h"
#include "operation.h"
#include "plan.h"
#include "stream.h"

static CUresult fill(CUstream handle, const struct sim_fill *what, bool wait)
{
	struct sim_op op = {
		.kind = SIM_OP_FILL,
		.duration_ns = sim_op_move_ns(what->width * what->height * what->element),
		.u.fill = *what,
	};
	const struct sim_mem *mem = sim_mem_find(what->dst);
	CUresult result;
	struct sim_stream *stream = sim_stream_of(handle, &result);

	if (!stream)
		return result;
	if (!what->width || !what->height)
		return CUDA_SUCCESS;
	if ((!mem && !sim_plan.pageable) || what->dst % what->element ||
	    (what->height > 1 && what->pitch < what->width * what->element) ||
	    !sim_mem_is_live(what->dst,
			     (what->height - 1) * what->pitch + what->width * what->element, true))
		return CUDA_ERROR_INVALID_VALUE;
	if (wait && !(mem && sim_mem_is_on_device(mem)))
		return sim_stream_submit_and_wait(stream, &op);
	return sim_stream_submit(stream, &op, NULL);
}

static CUresult fill_row(CUdeviceptr dst, unsigned value, unsigned element, size_t count,
			 CUstream stream, bool wait)
{
	const struct sim_fill what = {
		.dst = dst, .width = count, .height = 1, .value = value, .element = element};

	return fill(stream, &what, wait);
}

static CUresult fill_plane(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element,
			   size_t width, size_t height, CUstream stream, bool wait)
{
	const struct sim_fill what = {
		.dst = dst,
		.pitch = pitch,
		.width = width,
		.height = height,
		.value = value,
		.element = element,
	};

	return fill(stream, &what, wait);
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return fill_row(dstDevice, uc, 1, N, NULL, true);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return fill_row(dstDevice, us, 2, N, NULL, true);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return fill_row(dstDevice, ui, 4, N, NULL, true);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return fill_row(dstDevice, uc, 1, N, hStream, false);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return fill_row(dstDevice, us, 2, N, hStream, false);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return fill_row(dstDevice, ui, 4, N, hStream, false);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
			     size_t Height)
{
	return fill_plane(dstDevice, dstPitch, uc, 1, Width, Height, NULL, true);
}

CUresult sim_cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
			      size_t Width, size_t Height)
{
	return fill_plane(dstDevice, dstPitch, us, 2, Width, Height, NULL, true);
}

CUresult sim_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
			      size_t Height)
{
	return fill_plane(dstDevice, dstPitch, ui, 4, Width, Height, NULL, true);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
			       size_t Width, size_t Height, CUstream hStream)
{
	return fill_plane(dstDevice, dstPitch, uc, 1, Width, Height, hStream, false);
}

CUresult sim_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
				size_t Width, size_t Height, CUstream hStream)
{
	return fill_plane(dstDevice, dstPitch, us, 2, Width, Height, hStream, false);
}

CUresult sim_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
				size_t Width, size_t Height, CUstream hStream)
{
	return fill_plane(dstDevice, dstPitch, ui, 4, Width, Height, hStream, false);
}
