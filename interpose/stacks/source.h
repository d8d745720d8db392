/* SPDX-License-Identifier: MIT */
/*
 * The function and the line of an address of the program, from the symbol table and the line table
 * (DWARF 2 to 5) in its object's file. Static functions, which no loaded table has, are found too.
 * Separate debug files are left to the tool (tools/snapshot/symbols.h).
 */
#ifndef CM_INTERPOSE_STACKS_SOURCE_H
#define CM_INTERPOSE_STACKS_SOURCE_H

#include <link.h>
#include <stdint.h>

#define CM_SOURCE_BYTES 64

struct cm_source {
	char function[CM_SOURCE_BYTES]; /* as people read it; "": not found */
	char file[CM_SOURCE_BYTES];     /* without its folders; "": no line */
	uint32_t line;
};

/* `address` as linked, without the object's bias. Reads the file: some ms, up to some tens of
 * them in large objects, in which it looks no further. What is not found stays as it is in
 * `source`. Allocates memory only by mmap. Changes errno. */
void cm_source_find(const struct dl_phdr_info *info, uint64_t address, struct cm_source *source);

#endif
