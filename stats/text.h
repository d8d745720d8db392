/* SPDX-License-Identifier: MIT */
/* Texts of limited length, and text that others wrote, for a terminal. Pure. */
#ifndef CM_STATS_TEXT_H
#define CM_STATS_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character at `text`, which is not empty; 0: none begins here. */
size_t cm_text_character(const char *text);

/*
 * Copies `text` to `to`: control characters, which could command a terminal, those that change the
 * direction of the text, and bytes that are no UTF-8 become '?'. Cut at a character's border;
 * `bytes` is at least 1. Returns how many bytes of `text` that were.
 */
size_t cm_text_clean(char *to, size_t bytes, const char *text);

/*
 * Prints behind the first `used` of the `bytes` bytes of `text`, `used` < `bytes`; what does not
 * fit is cut. Returns the new length, the old one if printing fails.
 */
size_t cm_text_append(char *text, size_t bytes, size_t used, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
