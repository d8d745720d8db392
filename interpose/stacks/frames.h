/* SPDX-License-Identifier: MIT */
/*
 * Describes recorded stacks in one line, from inside the process, for the few that a message has
 * room for. The tool finds full names, also in separate debug files (tools/snapshot/symbols.h).
 */
#ifndef CM_INTERPOSE_STACKS_FRAMES_H
#define CM_INTERPOSE_STACKS_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes the innermost frames of a stack of this process's region, such as "forward model.py:88 <
 * step train.py:301": of the program's own code (stats/code_layers.def), Python frames if there are
 * any, else functions with their lines, if the file of their object has them, or offsets in
 * objects. If there are none, those of libraries. Cut to `bytes`, which hold at least a word. Id 0
 * is "an unknown place". Uses dl_iterate_phdr and reads files, so the caller holds no lock;
 * allocates nothing.
 */
void cm_frames_describe(uint32_t stack, char *text, size_t bytes);

#endif
