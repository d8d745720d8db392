/* SPDX-License-Identifier: MIT */
#include "tools/output/bars.h"

#include <langinfo.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/width.h"
#include "tools/output/size.h"

#define NAME_WIDTH 28 /* of the longest, and a blank */
#define TEXT_WIDTH \
	((size_t)(2 + NAME_WIDTH + 7 + 2)) /* beside amount and bar: blanks, name, share */
#define BAR_WIDTH ((size_t)24)
#define EIGHTHS   8

__extension__ typedef __int128 wide;

/* Division that rounds down, negative values too. */
static int64_t divide(wide value, uint64_t by, uint64_t *ret_rest)
{
	wide quotient = value / (wide)by, rest = value % (wide)by;

	if (rest < 0) {
		rest += by;
		quotient--;
	}
	*ret_rest = (uint64_t)rest;
	return (int64_t)quotient;
}

/*
 * Rounds each value to thousandths of the whole by the method of the largest remainder, so that
 * they add up to the rounded total.
 */
static void round_shares(const int64_t *values, size_t count, uint64_t whole, int64_t *ret_rounded,
			 int64_t *ret_total)
{
	uint64_t rest[CM_BARS_MAX] = {0}, unused;
	wide sum = 0, rounded = 0;
	size_t i, largest;

	for (i = 0; i < count; i++) {
		ret_rounded[i] = divide((wide)values[i] * 1000, whole, &rest[i]);
		sum += values[i];
		rounded += ret_rounded[i];
	}
	*ret_total = divide(sum * 1000 + whole / 2, whole, &unused);
	/* Rounding down takes less than one from each value: at most `count` steps are missing. */
	for (; rounded < *ret_total; rounded++) {
		largest = 0;
		for (i = 1; i < count; i++)
			if (rest[i] > rest[largest])
				largest = i;
		ret_rounded[largest]++;
		rest[largest] = 0;
	}
}

static int64_t add_up(const struct cm_bar *bars, size_t count)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < count; i++)
		sum += (uint64_t)bars[i].bytes;
	return (int64_t)sum;
}

static void print_bar(double share, size_t width, bool ascii)
{
	static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int eighths, i;

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	eighths = (int)(share * (double)width * EIGHTHS + 0.5);
	if (ascii)
		eighths = (eighths + EIGHTHS / 2) / EIGHTHS * EIGHTHS;
	if (eighths)
		(void)fputs("  ", stdout);
	for (i = 0; i < eighths / EIGHTHS; i++)
		(void)fputs(ascii ? "#" : "█", stdout);
	(void)fputs(parts[eighths % EIGHTHS], stdout);
}

static void print_amount(int64_t bytes, int64_t thousandths)
{
	(void)printf("%*s", cm_size_width(), cm_size_format(bytes).text);
	/* The counters of a damaged region can give any share. */
	if (thousandths > -10000 && thousandths < 10000)
		(void)printf(" %5.1f%%", (double)thousandths / 10);
	else
		(void)printf(" %6s", "-");
}

void cm_bars_print(const struct cm_bar *bars, size_t count, bool ascii)
{
	const int64_t sum = add_up(bars, count);
	const uint64_t whole = sum > 0 ? (uint64_t)sum : 1;
	const size_t room = cm_line_width(stdout) - TEXT_WIDTH - (size_t)cm_size_width();
	const size_t width = room < BAR_WIDTH ? room : BAR_WIDTH;
	int64_t values[CM_BARS_MAX] = {0}, shares[CM_BARS_MAX], all;
	size_t i;

	if (strcmp(nl_langinfo(CODESET), "UTF-8"))
		ascii = true;
	for (i = 0; i < count; i++)
		values[i] = bars[i].bytes;
	round_shares(values, count, whole, shares, &all);
	for (i = 0; i < count; i++) {
		if (bars[i].optional && !bars[i].bytes)
			continue;
		(void)printf("  %-*s", NAME_WIDTH, bars[i].name);
		print_amount(bars[i].bytes, shares[i]);
		print_bar((double)bars[i].bytes / (double)whole, width, ascii);
		(void)putchar('\n');
	}
	(void)printf("  %-*s%*s\n  %-*s", NAME_WIDTH, "", cm_size_width(), "-------", NAME_WIDTH,
		     "total");
	print_amount(sum, all);
	(void)putchar('\n');
}
