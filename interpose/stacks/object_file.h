/* SPDX-License-Identifier: MIT */
/*
 * The file of a loaded object, for the few names that a message needs. It is read, not mapped, as
 * its owner may cut it short. All that stands in it is foreign: every place is checked against the
 * file's size, and what cannot be read is 0. One thread uses an object_file.
 */
#ifndef CM_INTERPOSE_STACKS_OBJECT_FILE_H
#define CM_INTERPOSE_STACKS_OBJECT_FILE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes from `at` to `end` of the file; none: there is no such part. */
struct cm_object_part {
	uint64_t at;
	uint64_t end;
};

struct cm_object_file {
	int fd;
	uint64_t bytes; /* of the file */
	unsigned char *buffer;
	uint64_t buffered; /* where in the file the buffer begins */
	size_t buffered_bytes;
	struct cm_object_part symbols; /* the whole symbol table, with static functions ... */
	struct cm_object_part symbol_names;
	struct cm_object_part lines; /* .debug_line */
	struct cm_object_part line_texts;
	struct cm_object_part texts;
};

/* Opens the file of a loaded object, unless another file has taken its place. Blocks for the file
 * system. False: it cannot be read. Changes errno. */
bool cm_object_file_open(const struct dl_phdr_info *info, struct cm_object_file *file);
void cm_object_file_close(struct cm_object_file *file);

/* A place to read from, that moves on. Behind the end there are zeros, and `ended` is set. */
struct cm_object_cursor {
	struct cm_object_file *file;
	uint64_t at;
	uint64_t end;
	bool ended;
};

static inline struct cm_object_cursor cm_object_cursor(struct cm_object_file *file,
						       struct cm_object_part part)
{
	return (struct cm_object_cursor){file, part.at, part.end, false};
}

void cm_object_read_bytes(struct cm_object_cursor *cursor, void *to, size_t bytes);
uint8_t cm_object_read_u8(struct cm_object_cursor *cursor);
/* A little-endian number of 1 to 8 bytes. */
uint64_t cm_object_read_number(struct cm_object_cursor *cursor, size_t bytes);
/* DWARF's numbers of variable length. */
uint64_t cm_object_read_uleb(struct cm_object_cursor *cursor);
int64_t cm_object_read_sleb(struct cm_object_cursor *cursor);
void cm_object_skip(struct cm_object_cursor *cursor, uint64_t bytes);
/* Reads a text up to its zero; what does not fit into `to` is dropped. Returns its length in the
 * file. `to` may be NULL. */
uint64_t cm_object_read_text(struct cm_object_cursor *cursor, char *to, size_t bytes);

#endif
