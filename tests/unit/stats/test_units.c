/* SPDX-License-Identifier: MIT */
#include "stats/units.h"

#include <errno.h>

#include "tests/unit/cmocka_all.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

CM_TEST(bytes_have_one_decimal_and_the_unit_that_fits)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1, "1B"},
		{1023, "1023B"},
		{KIB, "1.0K"},
		{KIB + 51, "1.0K"},
		{KIB + 52, "1.1K"},
		{MIB - 52, "1023.9K"},
		{MIB - 51, "1.0M"}, /* never 1024.0K */
		{438 * MIB, "438.0M"},
		{78 * GIB + 205 * MIB, "78.2G"},
		{1024 * GIB, "1.0T"},
		{INT64_MAX, "8.0E"},
		{INT64_MIN, "-8.0E"},
		{-1536, "-1.5K"},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(cm_bytes_format(cases[i].bytes).text, cases[i].text);
}

CM_TEST(counts_are_set_apart_by_thousands)
{
	static const struct {
		int64_t count;
		const char *text;
	} cases[] = {
		{0, "0"},
		{999, "999"},
		{1000, "1 000"},
		{-1234567, "-1 234 567"},
		{INT64_MIN, "-9 223 372 036 854 775 808"},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(cm_count_format(cases[i].count).text, cases[i].text);
	assert_string_equal(cm_count_of(1, "block").text, "1 block");
	assert_string_equal(cm_count_of(0, "block").text, "0 blocks");
	assert_string_equal(cm_count_of(INT64_MIN, "allocation").text,
			    "-9 223 372 036 854 775 808 allocations");
}

CM_TEST(durations_read_as_a_clock)
{
	const uint64_t s = 1000000000;

	assert_string_equal(cm_duration_format(0).text, "00:00:00");
	assert_string_equal(cm_duration_format(8047 * s + 1).text, "02:14:07");
	assert_string_equal(cm_duration_format(86399 * s).text, "23:59:59");
	assert_string_equal(cm_duration_format((3 * 86400 + 8047) * s).text, "3d 02:14");
	assert_string_equal(cm_duration_format(UINT64_MAX).text, "213503d 23:34");
}

CM_TEST(decimals_are_read_whole_or_refused)
{
	static const struct {
		const char *text;
		char unit;
		int result;
		uint64_t nano;
	} cases[] = {
		{"0", 0, 0, 0},
		{"1", 0, 0, 1000000000},
		{"0.5", 0, 0, 500000000},
		{"2.000000001", 0, 0, 2000000001},
		{"5s", 's', 0, 5000000000},
		{"12.5%", '%', 0, 12500000000},
		{"1000000000", 0, 0, UINT64_C(1000000000000000000)},
		{"1000000001", 0, -ERANGE, 0},
		{"99999999999999999999999", 0, -ERANGE, 0},
		{"", 0, -EINVAL, 0},
		{"5x", 's', -EINVAL, 0},
		{"5s", 0, -EINVAL, 0},
		{"5ss", 's', -EINVAL, 0},
		{"-1", 0, -EINVAL, 0},
		{"+1", 0, -EINVAL, 0},
		{" 1", 0, -EINVAL, 0},
		{".5", 0, -EINVAL, 0},
		{"1.", 0, -EINVAL, 0},
		{"0.0000000001", 0, -EINVAL, 0}, /* finer than we keep */
		{"1e3", 0, -EINVAL, 0},
	};
	uint64_t nano;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		nano = 77;
		if (cm_decimal_parse(cases[i].text, cases[i].unit, &nano) != cases[i].result ||
		    nano != (cases[i].result ? 77 : cases[i].nano))
			fail_msg("'%s' gave %llu", cases[i].text, (unsigned long long)nano);
	}
}

CM_TEST(numbers_are_read_whole_or_refused)
{
	static const struct {
		const char *text;
		uint64_t max;
		int result;
		uint64_t number;
	} cases[] = {
		{"0", 0, 0, 0},
		{"41873", INT32_MAX, 0, 41873},
		{"2147483647", INT32_MAX, 0, INT32_MAX},
		{"2147483648", INT32_MAX, -ERANGE, 0},
		{"18446744073709551615", UINT64_MAX, 0, UINT64_MAX},
		{"18446744073709551616", UINT64_MAX, -ERANGE, 0},
		{"9", 8, -ERANGE, 0},
		{"", 8, -EINVAL, 0},
		{"7x", 8, -EINVAL, 0},
		{"-7", 8, -EINVAL, 0},
		{"0x7", 8, -EINVAL, 0},
		{"99999999999999999999x", 8, -EINVAL, 0}, /* no number, rather than one too large */
	};
	uint64_t number;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		number = 77;
		if (cm_number_parse(cases[i].text, cases[i].max, &number) != cases[i].result ||
		    number != (cases[i].result ? 77 : cases[i].number))
			fail_msg("'%s' gave %llu", cases[i].text, (unsigned long long)number);
	}
}
