/* SPDX-License-Identifier: MIT */
/*
 * Names for what the calling thread is doing, nested: those that the program gives (cudamem.h) and
 * its NVTX ranges. Events carry the innermost one. State is per thread; no locks.
 *
 * A domain separates users that nest independently: a pop removes the innermost name of its own
 * domain.
 */
#ifndef CM_INTERPOSE_STACKS_ANNOTATION_H
#define CM_INTERPOSE_STACKS_ANNOTATION_H

#include <stdint.h>

/* Returns the level of the name within its domain, from 0 on. Copies the text. */
int cm_annotation_push(uintptr_t domain, const char *name);
/* Returns the level that ended, or -1 if there is no name. */
int cm_annotation_pop(uintptr_t domain);

/* Once there is a region: records the names that the calling thread has pushed before. */
void cm_annotation_record_early(void);
/* In a forked child: the texts were in the parent's region. */
void cm_annotation_forget(void);

#endif
