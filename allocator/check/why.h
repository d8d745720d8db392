/* SPDX-License-Identifier: MIT */
/*
 * The sentence that says what the checker found.
 */
#ifndef CM_ALLOCATOR_CHECK_WHY_H
#define CM_ALLOCATOR_CHECK_WHY_H

#include <stdbool.h>
#include <stddef.h>

/* Where the sentence goes. */
struct cm_why {
	char *text;
	size_t bytes;
};

/* Writes the sentence; always false, so that a check can return it. */
bool cm_why_set(const struct cm_why *why, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
