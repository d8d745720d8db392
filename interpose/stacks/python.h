/* SPDX-License-Identifier: MIT */
/*
 * The Python frames of the calling thread, if the process runs CPython 3.9 or later and the thread
 * holds the GIL; nothing otherwise, and it never waits. Uses the public C API, found by name in the
 * process: the library neither links nor loads Python. Thread-safe.
 *
 * While frames are read, garbage collection is off, since a finalizer could call CUDA.
 */
#ifndef CM_INTERPOSE_STACKS_PYTHON_H
#define CM_INTERPOSE_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks for Python unless it was found. Uses dlsym, which may wait for another thread's dlopen,
 * whose constructors may wait for our locks: not under a lock, nor in a request. */
void cm_python_find(void);

/* Adds `text` to the region and returns its id, or 0. */
typedef uint32_t cm_python_text_fn(const char *text);

/* Fills `frames` with at most `max` Python frames (cm_frame_python), innermost first. *ret_cut:
 * there were more. Changes errno. */
size_t cm_python_stack(uint64_t *frames, size_t max, cm_python_text_fn *add_text, bool *ret_cut);

/* In a forked child: the texts were in the parent's region. */
void cm_python_forget(void);

#endif
