/* SPDX-License-Identifier: MIT */
/*
 * Recorded stacks in the words of the process itself, in one line each: for the few that a message
 * has room for. Full names, with files and lines of C, are the tool's (tools/snapshot/symbols.h).
 */
#ifndef CM_INTERPOSE_STACKS_FRAMES_H
#define CM_INTERPOSE_STACKS_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/*
 * The innermost frames of a stack of this process's region, "forward model.py:88 < step
 * train.py:301": those of Python where there are any, else functions by the names that their
 * objects export, or places in objects; CUDA's own are left out at the near end. Cut to `bytes`,
 * which hold at least a word. Id 0 is "an unknown place". Uses dl_iterate_phdr, so no lock may be
 * held; allocates nothing.
 */
void cm_frames_describe(uint32_t stack, char *text, size_t bytes);

#endif
