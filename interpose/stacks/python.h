/* SPDX-License-Identifier: MIT */
/*
 * The Python frames of the calling thread, if the process runs CPython 3.9 or later; nothing
 * otherwise, and it never waits. The library neither links nor loads Python.
 *
 * Frames are read from the interpreter's memory (python_walk.h), whether or not the thread holds
 * the GIL: most clients let go of it before they call CUDA. The result is compared once with that
 * of the public C API: when a thread comes that holds the GIL, or, if one without it comes first,
 * when the interpreter makes the call that it is then asked for (Py_AddPendingCall). If they
 * differ, or the layout of this Python is not known, the API alone is used, and threads without the
 * GIL have no Python frames. While the API is used, garbage collection is off, since a finalizer
 * could call CUDA.
 *
 * Thread-safe.
 */
#ifndef CM_INTERPOSE_STACKS_PYTHON_H
#define CM_INTERPOSE_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/config.h"
#include "stats/layout.h"

/* Looks for Python unless it was found. Uses dlsym, which may wait for another thread's dlopen,
 * whose constructors may wait for our locks: not under a lock, nor in a request. */
void cm_python_find(void);

/* Adds `text` to the region and returns its id, or 0. */
typedef uint32_t cm_python_text_fn(const char *text);

#define CM_PYTHON_TEXT 1024 /* bytes of a text at most */

/* Python frames (cm_frame_python), innermost first. */
struct cm_python_frames {
	uint64_t frame[CM_STACK_DEPTH_MAX];
	/* The C function of the interpreter that runs this frame runs none further out. */
	bool entry[CM_STACK_DEPTH_MAX];
	size_t count;
	bool placed; /* `entry` is known */
	bool cut;    /* there were more */
};

/* At most `max` frames of the calling thread. Changes errno. */
void cm_python_stack(struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text);

/* Whether a return address lies in the function of the interpreter that runs Python frames. Some
 * builds never have it on the stack. */
bool cm_python_is_eval(uint64_t address);
/* Whether it lies in any code of the interpreter. */
bool cm_python_is_interpreter(uint64_t address);

/* How frames are read now; *ret_minor: the version, 3.minor, 0 if it is not known. */
enum cm_python cm_python_state(uint32_t *ret_minor);

/* In a forked child: the texts were in the parent's region. */
void cm_python_forget(void);

#endif
