/* SPDX-License-Identifier: MIT */
#include "interpose/wrappers/array_size.h"

/* Bits of an element: of each channel, or of all channels if the format fixes their number. Formats
 * that share colour between pixels count the average per pixel. */
static const struct format {
	CUarray_format first;
	CUarray_format last;
	unsigned int bits;
	bool per_channel;
	bool in_blocks; /* compressed in blocks of 4 * 4 elements */
} formats[] = {
	{CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT8, 8, true, false},
	{CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT16, 16, true, false},
	{CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_UNSIGNED_INT32, 32, true, false},
	{CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8, 8, true, false},
	{CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16, 16, true, false},
	{CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32, 32, true, false},
	{CU_AD_FORMAT_HALF, CU_AD_FORMAT_HALF, 16, true, false},
	{CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_FLOAT, 32, true, false},
	{CU_AD_FORMAT_UNORM_INT_101010_2, CU_AD_FORMAT_UNORM_INT_101010_2, 32, false, false},
	{CU_AD_FORMAT_UNORM_INT8X1, CU_AD_FORMAT_UNORM_INT8X1, 8, false, false},
	{CU_AD_FORMAT_UNORM_INT8X2, CU_AD_FORMAT_UNORM_INT8X2, 16, false, false},
	{CU_AD_FORMAT_UNORM_INT8X4, CU_AD_FORMAT_UNORM_INT8X4, 32, false, false},
	{CU_AD_FORMAT_UNORM_INT16X1, CU_AD_FORMAT_UNORM_INT16X1, 16, false, false},
	{CU_AD_FORMAT_UNORM_INT16X2, CU_AD_FORMAT_UNORM_INT16X2, 32, false, false},
	{CU_AD_FORMAT_UNORM_INT16X4, CU_AD_FORMAT_UNORM_INT16X4, 64, false, false},
	{CU_AD_FORMAT_SNORM_INT8X1, CU_AD_FORMAT_SNORM_INT8X1, 8, false, false},
	{CU_AD_FORMAT_SNORM_INT8X2, CU_AD_FORMAT_SNORM_INT8X2, 16, false, false},
	{CU_AD_FORMAT_SNORM_INT8X4, CU_AD_FORMAT_SNORM_INT8X4, 32, false, false},
	{CU_AD_FORMAT_SNORM_INT16X1, CU_AD_FORMAT_SNORM_INT16X1, 16, false, false},
	{CU_AD_FORMAT_SNORM_INT16X2, CU_AD_FORMAT_SNORM_INT16X2, 32, false, false},
	{CU_AD_FORMAT_SNORM_INT16X4, CU_AD_FORMAT_SNORM_INT16X4, 64, false, false},
	{CU_AD_FORMAT_BC1_UNORM, CU_AD_FORMAT_BC1_UNORM_SRGB, 4, false, true},
	{CU_AD_FORMAT_BC2_UNORM, CU_AD_FORMAT_BC3_UNORM_SRGB, 8, false, true},
	{CU_AD_FORMAT_BC4_UNORM, CU_AD_FORMAT_BC4_SNORM, 4, false, true},
	{CU_AD_FORMAT_BC5_UNORM, CU_AD_FORMAT_BC7_UNORM_SRGB, 8, false, true},
	{CU_AD_FORMAT_NV12, CU_AD_FORMAT_NV12, 12, false, false},
	{CU_AD_FORMAT_P010, CU_AD_FORMAT_P010, 24, false, false},
	{CU_AD_FORMAT_P016, CU_AD_FORMAT_P016, 24, false, false},
	{CU_AD_FORMAT_NV16, CU_AD_FORMAT_NV16, 16, false, false},
	{CU_AD_FORMAT_P210, CU_AD_FORMAT_P216, 32, false, false},
	{CU_AD_FORMAT_YUY2, CU_AD_FORMAT_YUY2, 16, false, false},
	{CU_AD_FORMAT_Y210, CU_AD_FORMAT_Y410, 32, false, false},
	{CU_AD_FORMAT_Y416, CU_AD_FORMAT_Y416, 64, false, false},
	{CU_AD_FORMAT_Y444_PLANAR8, CU_AD_FORMAT_Y444_PLANAR8, 24, false, false},
	{CU_AD_FORMAT_Y444_PLANAR10, CU_AD_FORMAT_Y444_PLANAR10, 48, false, false},
	{CU_AD_FORMAT_YUV444_8bit_SemiPlanar, CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 24, false,
	 false},
	{CU_AD_FORMAT_YUV444_16bit_SemiPlanar, CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 48, false,
	 false},
};

static const struct format *find_format(CUarray_format value)
{
	size_t i;

	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (value >= formats[i].first && value <= formats[i].last)
			return &formats[i];
	return NULL;
}

struct extent {
	uint64_t width;
	uint64_t height;
	uint64_t depth;
};

static uint64_t whole_blocks(uint64_t n)
{
	return (n + 3) / 4 * 4;
}

static uint64_t level_bytes(const struct format *format, const struct extent *at,
			    unsigned int channels)
{
	uint64_t width = at->width, height = at->height;
	uint64_t bits = format->per_channel ? (uint64_t)format->bits * channels : format->bits;

	if (format->in_blocks) {
		width = whole_blocks(width);
		height = whole_blocks(height);
	}
	return (width * height * at->depth * bits + 7) / 8;
}

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

uint64_t cm_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	const struct format *format = find_format(shape->Format);
	const bool layers = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	struct extent at = {shape->Width, at_least_one(shape->Height), at_least_one(shape->Depth)};
	uint64_t bytes = 0;

	if (!format || shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (; levels; levels--) {
		bytes += level_bytes(format, &at, shape->NumChannels);
		/* Levels beyond 1 * 1 * 1 do not exist (cuMipmappedArrayCreate). */
		if (at.width == 1 && at.height == 1 && (layers || at.depth == 1))
			break;
		at.width = at_least_one(at.width / 2);
		at.height = at_least_one(at.height / 2);
		if (!layers)
			at.depth = at_least_one(at.depth / 2);
	}
	return bytes;
}

uint64_t cm_array_size_2d(const CUDA_ARRAY_DESCRIPTOR *shape)
{
	const CUDA_ARRAY3D_DESCRIPTOR whole = {
		.Width = shape->Width,
		.Height = shape->Height,
		.Format = shape->Format,
		.NumChannels = shape->NumChannels,
	};

	return cm_array_size(&whole, 1);
}
