/* SPDX-License-Identifier: MIT */
/*
 * Arrays that grow: an array, the number of its items that there is memory for, and the caller's
 * count.
 */
#ifndef CM_TOOLS_OUTPUT_RESERVE_H
#define CM_TOOLS_OUTPUT_RESERVE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* `array` is the address of the pointer. Memory that is new is zero. */
static inline bool cm_reserve_bytes(void *array, size_t *room, size_t want, size_t item_bytes)
{
	const size_t next = *room * 2 > want ? *room * 2 : want + 64;
	void *items, *grown;

	if (want <= *room)
		return true;
	memcpy(&items, array, sizeof(items));
	grown = reallocarray(items, next, item_bytes);
	if (!grown)
		return false;
	memset((char *)grown + *room * item_bytes, 0, (next - *room) * item_bytes);
	memcpy(array, &grown, sizeof(grown));
	*room = next;
	/* cppcheck-suppress memleak; *array has it */
	return true;
}

/* Makes room for `want` items of *array. False: not enough memory; the array is as it was. */
#define cm_reserve(array, room, want) cm_reserve_bytes(array, room, want, sizeof(**(array)))

#endif
