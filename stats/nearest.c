/* SPDX-License-Identifier: MIT */
#include "stats/nearest.h"

#include <string.h>

#define NAME_LETTERS 63 /* longer words are no slip of a name */
#define PREFIX_LEAST 4  /* characters that say which name a cut word stands for */

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Slips between `typed` and `name`, by the table of distances between their prefixes, of which
 * three rows are kept. *ret_cut is the same for the best prefix of `name`.
 */
static unsigned count_slips(const char *typed, const char *name, unsigned *ret_cut)
{
	unsigned rows[3][NAME_LETTERS + 1] = {{0}};
	unsigned *before = rows[0], *last = rows[1], *row = rows[2], *oldest;
	size_t width = strlen(name), i, j;

	for (j = 0; j <= width; j++)
		row[j] = (unsigned)j;
	for (i = 1; typed[i - 1]; i++) {
		oldest = before;
		before = last;
		last = row;
		row = oldest;
		row[0] = (unsigned)i;
		for (j = 1; j <= width; j++) {
			row[j] = last[j - 1] + (typed[i - 1] != name[j - 1]);
			row[j] = least(row[j], 1 + least(last[j], row[j - 1]));
			if (i > 1 && j > 1 && typed[i - 1] == name[j - 2] &&
			    typed[i - 2] == name[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
	}
	*ret_cut = row[0];
	for (j = 1; j <= width; j++)
		*ret_cut = least(*ret_cut, row[j]);
	return row[width];
}

const char *cm_nearest_name(const char *typed, const char *const *names, size_t count)
{
	size_t length = strlen(typed), i;
	const char *nearest = NULL;
	unsigned allowed, best, slips, cut;

	if (!length || length > NAME_LETTERS)
		return NULL;
	allowed = length < 4 ? 1 : length < 8 ? 2 : 3;
	best = allowed + 1;
	for (i = 0; i < count; i++) {
		if (strlen(names[i]) > NAME_LETTERS)
			continue;
		slips = count_slips(typed, names[i], &cut);
		/* A whole name is preferred to the beginning of a longer one. */
		if (length >= PREFIX_LEAST && cut + 1 < allowed)
			slips = least(slips, cut + 1);
		if (slips < best) {
			best = slips;
			nearest = names[i];
		}
	}
	return nearest;
}
