/* SPDX-License-Identifier: MIT */
/*
 * Where this CPython keeps its frames and code objects, by its version (python_layouts.def). The
 * layout is used only after python.c has confirmed it in the process.
 */
#ifndef CM_INTERPOSE_STACKS_PYTHON_LAYOUT_H
#define CM_INTERPOSE_STACKS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"

#define CM_PYTHON_ABSENT UINT16_MAX

/* A walk reads at most so many bytes from the begin of a frame, and of a code object. */
#define CM_PYTHON_FRAME_BYTES 112
#define CM_PYTHON_CODE_BYTES  144

/* Offsets in bytes; CM_PYTHON_ABSENT: there is no such field. */
struct cm_python_layout {
	uint16_t minor;
	uint16_t state_frame; /* of the thread state; leads to the frame if cframe_frame is there */
	uint16_t cframe_frame;
	uint16_t frame_code;
	uint16_t frame_previous;
	uint16_t frame_place; /* an int before 3.11, then the address of the instruction */
	/* A byte that is `flag_least` or more in the outermost frame that a C function of the
	 * interpreter runs; with `shims` that frame is the interpreter's own. */
	uint16_t frame_flag;
	uint8_t flag_least;
	bool shims;
	uint16_t code_name;
	uint16_t code_file;
	uint16_t code_line; /* an int */
	uint16_t code_table;
	uint16_t code_start; /* of the instructions */
	uint16_t text_ascii; /* where the characters of an ASCII text begin */
	uint16_t text_wide;  /* ... of any other */
};

/*
 * `version` is that of Py_GetVersion(), `runtime` is _PyRuntime or NULL. CM_PYTHON_UNCHECKED with
 * *ret_layout; else CM_PYTHON_UNKNOWN or CM_PYTHON_FREE_THREADED.
 */
enum cm_python cm_python_layout_find(const char *version, const uint64_t *runtime,
				     struct cm_python_layout *ret_layout);

#endif
