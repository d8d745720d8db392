/* SPDX-License-Identifier: MIT */
/*
 * Turns the stack table of a region into frames with names. An address without a symbol is named
 * after its object and the offset in it, "libfoo.so.1+0x2b40", which addr2line accepts.
 */
#ifndef CM_TOOLS_SNAPSHOT_STACKS_H
#define CM_TOOLS_SNAPSHOT_STACKS_H

#include "tools/snapshot/snapshot.h"

/* Fills the frames and stacks of a snapshot. -ENOMEM. */
int cm_stacks_build(struct cm_snapshot *snapshot);

/* Calls fn for each stack of the table, with its id, its first word and its frames. */
void cm_stacks_each(const struct cm_image *image,
		    void (*fn)(void *data, uint32_t id, uint64_t word, const uint64_t *frames),
		    void *data);

#endif
