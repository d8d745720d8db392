/* SPDX-License-Identifier: MIT */
#include "stats/units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NANO          UINT64_C(1000000000)
#define NANO_DIGITS   9
#define DECIMAL_WHOLE NANO /* the largest whole part of a decimal number */

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

struct cm_units_text cm_bytes_format(int64_t bytes)
{
	static const char unit[] = "BKMGTPE";
	const uint64_t n = magnitude(bytes);
	const char *sign = bytes < 0 ? "-" : "";
	uint64_t whole = n, tenths = 0;
	struct cm_units_text to;
	unsigned u;

	for (u = 0; whole >= 1024 && unit[u + 1]; u++) {
		const unsigned shift = 10 * (u + 1);
		const uint64_t rest = n & ((UINT64_C(1) << shift) - 1);

		tenths = (rest * 10 + (UINT64_C(1) << (shift - 1))) >> shift;
		whole = (n >> shift) + tenths / 10; /* 0.95 rounds up to the next whole */
		tenths %= 10;
	}
	if (!n)
		(void)snprintf(to.text, sizeof(to.text), "0");
	else if (!u)
		(void)snprintf(to.text, sizeof(to.text), "%s%lluB", sign, (unsigned long long)n);
	else
		(void)snprintf(to.text, sizeof(to.text), "%s%llu.%llu%c", sign,
			       (unsigned long long)whole, (unsigned long long)tenths, unit[u]);
	return to;
}

struct cm_units_text cm_count_format(int64_t count)
{
	struct cm_units_text to = {.text = ""};
	char digits[CM_UNITS_BYTES];
	size_t length, i;
	char *out = to.text;

	length = (size_t)snprintf(digits, sizeof(digits), "%llu",
				  (unsigned long long)magnitude(count));
	if (count < 0)
		*out++ = '-';
	for (i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ' ';
		*out++ = digits[i];
	}
	*out = '\0';
	return to;
}

struct cm_count_text cm_count_of(int64_t count, const char *thing)
{
	struct cm_count_text out;

	(void)snprintf(out.text, sizeof(out.text), "%.27s %.16s%s", cm_count_format(count).text,
		       thing, count == 1 ? "" : "s");
	return out;
}

struct cm_units_text cm_duration_format(uint64_t ns)
{
	const unsigned long long s = ns / NANO, days = s / 86400;
	struct cm_units_text to;

	if (days)
		(void)snprintf(to.text, sizeof(to.text), "%llud %02llu:%02llu", days, s / 3600 % 24,
			       s / 60 % 60);
	else
		(void)snprintf(to.text, sizeof(to.text), "%02llu:%02llu:%02llu", s / 3600,
			       s / 60 % 60, s % 60);
	return to;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads digits up to `max`. Returns the first character that is none, or NULL above `max`. */
static const char *read_digits(const char *text, uint64_t max, uint64_t *ret_number)
{
	uint64_t n = 0;

	for (; is_digit(*text); text++) {
		const uint64_t digit = (uint64_t)(*text - '0');

		if (n > (max - digit) / 10 || digit > max)
			return NULL;
		n = n * 10 + digit;
	}
	*ret_number = n;
	return text;
}

int cm_number_parse(const char *text, uint64_t max, uint64_t *ret_number)
{
	const char *end;
	uint64_t n;

	if (!is_digit(*text) || text[strspn(text, "0123456789")])
		return -EINVAL;
	end = read_digits(text, max, &n);
	if (!end)
		return -ERANGE;
	*ret_number = n;
	return 0;
}

int cm_decimal_parse(const char *text, char unit, uint64_t *ret_nano)
{
	uint64_t whole, nano = 0, place = NANO / 10;
	const char *end;
	int digits;

	if (!is_digit(*text))
		return -EINVAL;
	end = read_digits(text, DECIMAL_WHOLE, &whole);
	if (!end)
		return -ERANGE;
	if (*end == '.') {
		end++;
		for (digits = 0; is_digit(*end) && digits < NANO_DIGITS; digits++, place /= 10)
			nano += (uint64_t)(*end++ - '0') * place;
		if (!digits)
			return -EINVAL;
	}
	if (unit && *end == unit)
		end++;
	if (*end)
		return -EINVAL;
	*ret_nano = whole * NANO + nano;
	return 0;
}
