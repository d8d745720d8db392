/* SPDX-License-Identifier: MIT */
/*
 * Text that others wrote, for the terminal, and a few spellings of our own. Pure.
 */
#ifndef CM_TOOLS_TEXT_H
#define CM_TOOLS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define CM_UUID_TEXT 48
#define CM_TIME_TEXT 40

/* Bytes of the UTF-8 character at `text`, which is not empty; 0: none begins here. */
size_t cm_text_character(const char *text);

/*
 * Copies `text` to `to`: control characters, which could command a terminal, and bytes that are no
 * UTF-8 become '?'. Cut at a character's border; `bytes` is at least 1.
 */
void cm_text_clean(char *to, size_t bytes, const char *text);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as the driver's own tools spell it. */
char *cm_uuid_format(const uint8_t uuid[16], char text[CM_UUID_TEXT]);

/* Nanoseconds since 1970 as "2026-03-04T13:22:07.104Z". */
char *cm_time_format(uint64_t ns, char text[CM_TIME_TEXT]);

/* CLOCK_REALTIME in nanoseconds. */
uint64_t cm_time_now(void);

#endif
