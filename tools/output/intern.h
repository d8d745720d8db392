/* SPDX-License-Identifier: MIT */
/*
 * Numbers for byte strings: equal strings have the same number, a new string gets the next one. The
 * table keeps a copy of each string, whose address does not change. Not thread-safe.
 */
#ifndef CM_TOOLS_OUTPUT_INTERN_H
#define CM_TOOLS_OUTPUT_INTERN_H

#include <stddef.h>
#include <stdint.h>

#define CM_INTERN_NONE UINT32_MAX

struct cm_intern {
	struct cm_intern_item *item;
	uint32_t count;
	uint32_t room;
	uint32_t *slot; /* number + 1, 0 empty; a power of two of them, at most half full */
	uint32_t slots;
	struct cm_intern_chunk *chunk;
};

void cm_intern_init(struct cm_intern *intern);
void cm_intern_fini(struct cm_intern *intern);

/* The number of these bytes; CM_INTERN_NONE: not enough memory. */
uint32_t cm_intern_add(struct cm_intern *intern, const void *bytes, size_t count);
/* The same for a text, including its terminating zero. */
uint32_t cm_intern_text(struct cm_intern *intern, const char *text);

/* The bytes of a number returned above. `ret_count` may be NULL. */
const void *cm_intern_bytes(const struct cm_intern *intern, uint32_t number, size_t *ret_count);

#endif
