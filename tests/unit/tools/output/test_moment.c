/* SPDX-License-Identifier: MIT */
/* Times of a recording, as they are typed. */
#include "tools/output/moment.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/cmocka_all.h"

/* 2026-03-04 14:00:00 and 26 hours later, in UTC. */
#define FIRST UINT64_C(1772632800000000000)
#define LAST  (FIRST + 26 * HOUR)
#define HOUR  (3600 * SECOND)

#define SECOND UINT64_C(1000000000)

CM_TEST(times_are_understood)
{
	static const struct {
		const char *text;
		uint64_t time_ns;
	} cases[] = {
		{"+0", FIRST},
		{"+90", FIRST + 90 * SECOND},
		{"+90s", FIRST + 90 * SECOND},
		{"+1.5m", FIRST + 90 * SECOND},
		{"+2h", FIRST + 2 * HOUR},
		{"-10m", LAST - 600 * SECOND},
		{"-1000000h", 0},
		{"14:00", FIRST},
		{"14:05:30", FIRST + 330 * SECOND},
		{"13:59", FIRST + 24 * HOUR - 60 * SECOND}, /* the next day */
		{"2026-03-04 14:00", FIRST},
		{"2026-03-05T15:00:01", FIRST + 25 * HOUR + SECOND},
		{"2020-01-01 00:00", UINT64_C(1577836800000000000)},
		{"2026-03-05T15:00:01Z", FIRST + 25 * HOUR + SECOND},
		{"2026-03-05T15:00:01.250Z", FIRST + 25 * HOUR + SECOND + SECOND / 4},
		{"2026-03-05 15:00:01.000000007", FIRST + 25 * HOUR + SECOND + 7},
	};
	uint64_t time_ns;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(cm_moment_parse(cases[i].text, FIRST, LAST, &time_ns), 0);
		assert_int_equal(time_ns, cases[i].time_ns);
	}
}

CM_TEST(a_minute_is_that_of_the_begin)
{
	const uint64_t first = FIRST + 330 * SECOND; /* 14:05:30 */
	uint64_t time_ns;

	assert_int_equal(cm_moment_parse("14:05", first, LAST, &time_ns), 0);
	assert_int_equal(time_ns, FIRST + 300 * SECOND);
	assert_int_equal(cm_moment_parse("14:05:29", first, LAST, &time_ns), 0);
	assert_int_equal(time_ns, FIRST + 24 * HOUR + 329 * SECOND);
	assert_int_equal(cm_moment_parse("14:04", first, LAST, &time_ns), 0);
	assert_int_equal(time_ns, FIRST + 24 * HOUR + 240 * SECOND);
}

CM_TEST(other_words_are_not)
{
	static const char *const words[] = {"",
					    "+",
					    "-",
					    "+5d",
					    "5m",
					    "noon",
					    "25:00",
					    "14:5x",
					    "14:00 ",
					    "2026-03-04",
					    "2026-03-04 14:00:00.",
					    "2026-03-04 14:00:00.5x",
					    "+-5m",
					    "+99999999999999999h",
					    "9999-01-01 00:00"};
	uint64_t time_ns = 1;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(cm_moment_parse(words[i], FIRST, LAST, &time_ns), -EINVAL);
	assert_int_equal(time_ns, 1);
}

int main(void)
{
	(void)setenv("TZ", "UTC", 1);
	tzset();
	return cm_run_tests(NULL, NULL);
}
