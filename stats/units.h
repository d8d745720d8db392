/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people read and type them. Pure, thread-safe, independent of the locale.
 */
#ifndef CM_STATS_UNITS_H
#define CM_STATS_UNITS_H

#include <stdint.h>

#define CM_UNITS_BYTES 32

/* A number as text. As the result of a call, `.text` lives until the end of the whole
 * expression, so it may be an argument of printf(). */
struct cm_units_text {
	char text[CM_UNITS_BYTES];
};

/* A number of things, the name of which is at most 16 bytes. */
struct cm_count_text {
	char text[CM_UNITS_BYTES + 16];
};

/* Binary units with one decimal: "0", "512B", "78.2G", "-1.5M". */
struct cm_units_text cm_bytes_format(int64_t bytes);
/* Thousands set apart by blanks: "3 114". */
struct cm_units_text cm_count_format(int64_t count);
/* The same of things: "1 block", "3 114 blocks". */
struct cm_count_text cm_count_of(int64_t count, const char *thing);
/* Hours, minutes, seconds: "02:14:07"; from a day on "3d 02:14". */
struct cm_units_text cm_duration_format(uint64_t ns);

/*
 * A decimal number, 0 to 10^9, in thousand-millionths: "0.5" is 500000000. The whole of `text` must
 * be the number, except one letter `unit` at its end, if that is not 0. -EINVAL, -ERANGE.
 */
int cm_decimal_parse(const char *text, char unit, uint64_t *ret_nano);
/* A whole number without sign, at most `max`; the whole of `text`. -EINVAL, -ERANGE. */
int cm_number_parse(const char *text, uint64_t max, uint64_t *ret_number);

#endif
