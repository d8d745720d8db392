/* SPDX-License-Identifier: MIT */
/* Small inputs for large files: a list of patches, each of two bytes of place, one of length and
 * the bytes themselves. */
#ifndef CM_TESTS_FUZZ_PATCH_H
#define CM_TESTS_FUZZ_PATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Patches the file; the bytes of `data` that are too few for one more. */
static inline size_t fuzz_patch(uint8_t *file, size_t file_bytes, const uint8_t *data, size_t bytes)
{
	size_t at, length;

	while (bytes > 3) {
		at = (data[0] | (size_t)data[1] << 8) % file_bytes;
		length = data[2];
		data += 3;
		bytes -= 3;
		if (length > bytes)
			length = bytes;
		if (length > file_bytes - at)
			length = file_bytes - at;
		memcpy(file + at, data, length);
		data += length;
		bytes -= length;
	}
	return bytes;
}

#endif
