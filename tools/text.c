/* SPDX-License-Identifier: MIT */
#include "tools/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

static bool is_tail(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The table of well-formed sequences of the Unicode standard, section 3.9. */
size_t cm_text_character(const char *text)
{
	const unsigned char c = (unsigned char)text[0], d = (unsigned char)text[1];

	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4 || !is_tail(text[1]))
		return 0;
	if (c < 0xe0)
		return 2;
	if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || !is_tail(text[2]))
		return 0;
	if (c < 0xf0)
		return 3;
	if ((c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f) || !is_tail(text[3]))
		return 0;
	return 4;
}

/* U+0000 to U+001F, U+007F, and U+0080 to U+009F, which some terminals obey too. */
static bool is_control(const char *text, size_t bytes)
{
	const unsigned char c = (unsigned char)text[0];

	return (bytes == 1 && (c < 0x20 || c == 0x7f)) ||
	       (bytes == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

void cm_text_clean(char *to, size_t bytes, const char *text)
{
	size_t at = 0, n;

	while (*text) {
		n = cm_text_character(text);
		if (at + (n ? n : 1) >= bytes)
			break;
		if (!n || is_control(text, n)) {
			to[at++] = '?';
		} else {
			memcpy(to + at, text, n);
			at += n;
		}
		text += n ? n : 1;
	}
	to[at] = '\0';
}

char *cm_uuid_format(const uint8_t uuid[16], char text[CM_UUID_TEXT])
{
	size_t at, i;

	at = (size_t)snprintf(text, CM_UUID_TEXT, "GPU-");
	for (i = 0; i < 16; i++)
		at += (size_t)snprintf(text + at, CM_UUID_TEXT - at, "%s%02x",
				       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return text;
}

char *cm_time_format(uint64_t ns, char text[CM_TIME_TEXT])
{
	const time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm = {0};
	size_t n;

	(void)gmtime_r(&seconds, &tm);
	n = strftime(text, CM_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text + n, CM_TIME_TEXT - n, ".%03uZ", (unsigned)(ns % NS_PER_S / NS_PER_MS));
	return text;
}

uint64_t cm_time_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}
