/* SPDX-License-Identifier: MIT */
#include "tools/output/moment.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "stats/tick.h"
#include "stats/units.h"

#define MINUTE_S 60
#define DAY_S    86400

/* Seconds, or minutes or hours if they are named. 0, -EINVAL. */
static int parse_duration(const char *text, uint64_t *ret_ns)
{
	const size_t length = strlen(text);
	const char unit = length ? text[length - 1] : '\0';
	const uint64_t seconds = unit == 'h' ? 3600 : unit == 'm' ? 60 : 1;
	uint64_t ns;

	if (cm_decimal_parse(text, seconds > 1 ? unit : 's', &ns) ||
	    __builtin_mul_overflow(ns, seconds, ret_ns))
		return -EINVAL;
	return 0;
}

static bool parse_time(const char *text, const char *format, struct tm *tm)
{
	const char *end = strptime(text, format, tm);

	return end && !*end;
}

/* The time zone of a date: UTC if it ends in Z, which is cut off. */
static bool cut_zone(char *text)
{
	const size_t length = strlen(text);
	const bool utc = length && text[length - 1] == 'Z';

	if (utc)
		text[length - 1] = '\0';
	return utc;
}

/* The fraction of a second at the end, which is cut off; 0 if there is none. False: it is none. */
static bool cut_fraction(char *text, uint64_t *ret_ns)
{
	char *point = strchr(text, '.'), *at;
	uint64_t ns = 0, unit = CM_NS_PER_S / 10;

	if (point) {
		for (at = point + 1; *at >= '0' && *at <= '9'; at++, unit /= 10)
			ns += unit * (uint64_t)(*at - '0');
		if (*at || at == point + 1)
			return false;
		*point = '\0';
	}
	*ret_ns = ns;
	return true;
}

/* 0, -EINVAL. */
static int parse_date(const char *text, uint64_t *ret_ns)
{
	static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
					      "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"};
	char date[32];
	uint64_t ns, fraction;
	size_t i;
	time_t at;
	bool utc;

	if (strlen(text) >= sizeof(date))
		return -EINVAL;
	memcpy(date, text, strlen(text) + 1);
	utc = cut_zone(date);
	if (!cut_fraction(date, &fraction))
		return -EINVAL;
	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm = {.tm_isdst = -1};

		if (!parse_time(date, formats[i], &tm))
			continue;
		at = utc ? timegm(&tm) : mktime(&tm);
		if (at < 0 || __builtin_mul_overflow((uint64_t)at, CM_NS_PER_S, &ns) ||
		    __builtin_add_overflow(ns, fraction, ret_ns))
			return -EINVAL;
		return 0;
	}
	return -EINVAL;
}

/* A time of day, at or after the begin of the recording, or in the same minute if no second was
 * named. 0, -EINVAL. */
static int parse_clock(const char *text, uint64_t first_ns, uint64_t *ret_ns)
{
	const time_t first = (time_t)(first_ns / CM_NS_PER_S);
	const bool has_seconds = strchr(text, ':') != strrchr(text, ':');
	struct tm tm = {0}, clock = {0};
	time_t at;

	if (!parse_time(text, has_seconds ? "%H:%M:%S" : "%H:%M", &clock))
		return -EINVAL;
	(void)localtime_r(&first, &tm);
	tm.tm_hour = clock.tm_hour;
	tm.tm_min = clock.tm_min;
	tm.tm_sec = clock.tm_sec;
	tm.tm_isdst = -1;
	at = mktime(&tm);
	if (at < 0)
		return -EINVAL;
	*ret_ns = (uint64_t)(at + (has_seconds ? 0 : MINUTE_S - 1) < first ? at + DAY_S : at) *
		  CM_NS_PER_S;
	return 0;
}

int cm_moment_parse(const char *text, uint64_t first_ns, uint64_t last_ns, uint64_t *ret_ns)
{
	uint64_t ns;

	if (*text == '+' || *text == '-') {
		if (parse_duration(text + 1, &ns))
			return -EINVAL;
		if (*text == '-')
			*ret_ns = last_ns > ns ? last_ns - ns : 0;
		else if (__builtin_add_overflow(first_ns, ns, ret_ns))
			*ret_ns = UINT64_MAX;
		return 0;
	}
	return parse_date(text, ret_ns) && parse_clock(text, first_ns, ret_ns) ? -EINVAL : 0;
}
