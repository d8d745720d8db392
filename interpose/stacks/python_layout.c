/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/python_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT CM_PYTHON_ABSENT
/* Owners from this one on: the frame is the interpreter's own. */
#define OWNER_SHIM  3
#define STATE_BYTES 4096 /* of a thread state, or of a code object up to its instructions */

static const struct cm_python_layout layouts[] = {
#define CM_PYTHON_LAYOUT(...) {__VA_ARGS__},
#define CM_PYTHON_OFFSETS(...)
#include "interpose/stacks/python_layouts.def"
};

/* The first words of _PyRuntime. */
enum { COOKIE, VERSION, FREE_THREADED };
#define COOKIE_TEXT "xdebugpy"

static const struct offsets {
	uint16_t minor;
	uint16_t state_frame;
	uint16_t frame_code, frame_previous, frame_place, frame_owner;
	uint16_t code_name, code_file, code_line, code_table, code_start;
} offsets[] = {
#define CM_PYTHON_LAYOUT(...)
#define CM_PYTHON_OFFSETS(...) {__VA_ARGS__},
#include "interpose/stacks/python_layouts.def"
};

/* A word as an offset into so many bytes. False: it cannot be one. */
static bool take_offset(const uint64_t *runtime, uint16_t word, uint64_t bytes,
			uint16_t *ret_offset)
{
	if (runtime[word] > bytes - sizeof(uint64_t))
		return false;
	*ret_offset = (uint16_t)runtime[word];
	return true;
}

static enum cm_python read_offsets(const struct offsets *at, const uint64_t *runtime,
				   struct cm_python_layout *ret_layout)
{
	struct cm_python_layout layout = {
		.minor = at->minor,
		.cframe_frame = ABSENT,
		.flag_least = OWNER_SHIM,
		.shims = true,
		/* struct PyASCIIObject and PyCompactUnicodeObject, as since 3.12. */
		.text_ascii = 40,
		.text_wide = 56,
	};

	if (!runtime || memcmp(&runtime[COOKIE], COOKIE_TEXT, sizeof(runtime[COOKIE])) != 0 ||
	    runtime[VERSION] >> 16 != (3u << 8 | at->minor))
		return CM_PYTHON_UNKNOWN;
	if (runtime[FREE_THREADED])
		return CM_PYTHON_FREE_THREADED;
	if (!take_offset(runtime, at->state_frame, STATE_BYTES, &layout.state_frame) ||
	    !take_offset(runtime, at->frame_code, CM_PYTHON_FRAME_BYTES, &layout.frame_code) ||
	    !take_offset(runtime, at->frame_previous, CM_PYTHON_FRAME_BYTES,
			 &layout.frame_previous) ||
	    !take_offset(runtime, at->frame_place, CM_PYTHON_FRAME_BYTES, &layout.frame_place) ||
	    !take_offset(runtime, at->frame_owner, CM_PYTHON_FRAME_BYTES, &layout.frame_flag) ||
	    !take_offset(runtime, at->code_name, CM_PYTHON_CODE_BYTES, &layout.code_name) ||
	    !take_offset(runtime, at->code_file, CM_PYTHON_CODE_BYTES, &layout.code_file) ||
	    !take_offset(runtime, at->code_line, CM_PYTHON_CODE_BYTES, &layout.code_line) ||
	    !take_offset(runtime, at->code_table, CM_PYTHON_CODE_BYTES, &layout.code_table) ||
	    !take_offset(runtime, at->code_start, STATE_BYTES, &layout.code_start))
		return CM_PYTHON_UNKNOWN;
	*ret_layout = layout;
	return CM_PYTHON_UNCHECKED;
}

enum cm_python cm_python_layout_find(const char *version, const uint64_t *runtime,
				     struct cm_python_layout *ret_layout)
{
	char *end;
	unsigned long minor;
	size_t i;

	if (strncmp(version, "3.", 2) != 0 || strstr(version, "PyPy"))
		return CM_PYTHON_UNKNOWN;
	minor = strtoul(version + 2, &end, 10);
	if (*end != '.')
		return CM_PYTHON_UNKNOWN;
	if (strstr(version, "free-threading"))
		return CM_PYTHON_FREE_THREADED;
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].minor != minor)
			continue;
		*ret_layout = layouts[i];
		return CM_PYTHON_UNCHECKED;
	}
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		if (offsets[i].minor == minor)
			return read_offsets(&offsets[i], runtime, ret_layout);
	return CM_PYTHON_UNKNOWN;
}
