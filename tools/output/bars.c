/* SPDX-License-Identifier: MIT */
#include "tools/output/bars.h"

#include <langinfo.h>
#include <stdio.h>
#include <string.h>

#define NAME_WIDTH 31 /* a line then has the 80 columns of a terminal */
#define BAR_WIDTH  24
#define EIGHTHS    8

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

void cm_bars_round(const int64_t *values, size_t count, uint64_t scale, uint64_t unit,
		   int64_t *ret_rounded, int64_t *ret_total)
{
	uint64_t rest[CM_BARS_MAX] = {0}, unused;
	wide sum = 0, rounded = 0;
	size_t i, largest;

	for (i = 0; i < count; i++) {
		ret_rounded[i] = divide((wide)values[i] * scale, unit, &rest[i]);
		sum += values[i];
		rounded += ret_rounded[i];
	}
	*ret_total = divide(sum * scale + unit / 2, unit, &unused);
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

static void print_bar(double share, bool ascii)
{
	static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int eighths, i;

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	eighths = (int)(share * BAR_WIDTH * EIGHTHS + 0.5);
	if (ascii)
		eighths = (eighths + EIGHTHS / 2) / EIGHTHS * EIGHTHS;
	if (eighths)
		(void)fputs("  ", stdout);
	for (i = 0; i < eighths / EIGHTHS; i++)
		(void)fputs(ascii ? "#" : "█", stdout);
	(void)fputs(parts[eighths % EIGHTHS], stdout);
}

/* GiB if the total is at least one, else MiB. */
static uint64_t choose_unit(int64_t total, const char **ret_name)
{
	if (total >= INT64_C(1) << 30) {
		*ret_name = "GiB";
		return UINT64_C(1) << 30;
	}
	*ret_name = "MiB";
	return UINT64_C(1) << 20;
}

static void print_amount(int64_t hundredths, const char *unit, int64_t thousandths)
{
	const char *sign = hundredths < 0 ? "-" : "";
	const uint64_t n = hundredths < 0 ? -(uint64_t)hundredths : (uint64_t)hundredths;
	char amount[32];

	(void)snprintf(amount, sizeof(amount), "%s%llu.%02llu", sign, (unsigned long long)n / 100,
		       (unsigned long long)n % 100);
	(void)printf("%10s %s", amount, unit);
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
	int64_t values[CM_BARS_MAX] = {0}, amounts[CM_BARS_MAX], shares[CM_BARS_MAX];
	int64_t total, all;
	const char *unit;
	uint64_t step;
	size_t i;

	if (strcmp(nl_langinfo(CODESET), "UTF-8"))
		ascii = true;
	step = choose_unit(sum, &unit);
	for (i = 0; i < count; i++)
		values[i] = bars[i].bytes;
	cm_bars_round(values, count, 100, step, amounts, &total);
	cm_bars_round(values, count, 1000, whole, shares, &all);
	for (i = 0; i < count; i++) {
		if (bars[i].optional && !bars[i].bytes)
			continue;
		(void)printf("  %-*s", NAME_WIDTH, bars[i].name);
		print_amount(amounts[i], unit, shares[i]);
		print_bar((double)bars[i].bytes / (double)whole, ascii);
		(void)putchar('\n');
	}
	(void)printf("  %-*s%10s\n  %-*s", NAME_WIDTH, "", "-------", NAME_WIDTH, "total");
	print_amount(total, unit, all);
	(void)putchar('\n');
}
