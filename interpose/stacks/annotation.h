/* SPDX-License-Identifier: MIT */
/*
 * Names for what the calling thread is doing, one inside the other: those that the program gives
 * (cudamem.h) and its NVTX ranges. Events bear the innermost one.
 *
 * A domain tells apart who nests: a pop takes away the innermost name of its own domain.
 */
#ifndef CM_INTERPOSE_STACKS_ANNOTATION_H
#define CM_INTERPOSE_STACKS_ANNOTATION_H

#include <stdint.h>

/* Level of the name within its domain, from 0 on. The text is copied. */
int cm_annotation_push(uintptr_t domain, const char *name);
/* The level that ends, or -1: there is none. */
int cm_annotation_pop(uintptr_t domain);

/* In a forked child: the names were in its parent's region. */
void cm_annotation_forget(void);

#endif
