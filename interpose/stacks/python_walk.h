/* SPDX-License-Identifier: MIT */
/*
 * Reads the Python frames of the calling thread from the interpreter's memory, without its lock and
 * without touching a reference count.
 *
 * While a thread is inside a call, its frames stay where they are and hold their code objects,
 * whose names and line tables never change. So everything to which a frame refers lasts as long as
 * the walk. Each object is read only if its pages are readable and its type is the expected one, so
 * a layout that does not fit ends the walk, not the program. Thread-safe.
 */
#ifndef CM_INTERPOSE_STACKS_PYTHON_WALK_H
#define CM_INTERPOSE_STACKS_PYTHON_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "interpose/stacks/python.h"
#include "interpose/stacks/python_layout.h"

struct cm_python_reader {
	struct cm_python_layout layout;
	uintptr_t code_type; /* the addresses of PyCode_Type ... */
	uintptr_t text_type; /* PyUnicode_Type ... */
	uintptr_t byte_type; /* and PyBytes_Type */
};

/* The frames of a thread state, innermost first, at most `max`; as cm_python_stack. False: the walk
 * met what it does not know, and *to has the frames before that. Never blocks. Changes errno. */
bool cm_python_walk(const struct cm_python_reader *reader, uintptr_t state,
		    struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text);

/* Remembered frames, by a word that stands for a code object and a place in it. A frame that is not
 * remembered is 0. */
uint64_t cm_python_recall(uint64_t key);
/* For a frame whose code object stays held: it replaces no other frame, and is never replaced.
 * Returns whether it is remembered. */
bool cm_python_remember_held(uint64_t key, uint64_t frame);
void cm_python_forget_all(void);

#endif
