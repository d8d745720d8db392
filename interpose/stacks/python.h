/* SPDX-License-Identifier: MIT */
/*
 * The Python frames of the calling thread, where the process runs CPython (3.9 or later) and the
 * thread holds the GIL; nothing otherwise, and nobody is waited for. The public C API, found by
 * name in the process: the library neither links nor loads Python.
 *
 * While frames are read the garbage collector is held back, since what it runs could call CUDA.
 */
#ifndef CM_INTERPOSE_STACKS_PYTHON_H
#define CM_INTERPOSE_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks for Python, where it has not been found. Uses dlsym, which may wait for another thread's
 * dlopen, whose constructors may wait for what we hold: not under a lock, nor in a request. */
void cm_python_find(void);

/* Adds `text` to the region and returns its id, or 0. */
typedef uint32_t cm_python_text_fn(const char *text);

/*
 * Fills `frames` with at most `max` Python frames (cm_frame_python), innermost first. *ret_cut:
 * there were more. errno is not preserved.
 */
size_t cm_python_stack(uint64_t *frames, size_t max, cm_python_text_fn *add_text, bool *ret_cut);

/* In a forked child: the texts were the parent's. */
void cm_python_forget(void);

#endif
