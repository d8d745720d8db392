/* SPDX-License-Identifier: MIT */
/* Text that others wrote, for a terminal. Pure. */
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

#endif
