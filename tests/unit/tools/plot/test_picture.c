/* SPDX-License-Identifier: MIT */
/* A picture is drawn in time, wherever its lines lie: times and sizes are foreign data. */
#include "tools/plot/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define SIDE 20

static size_t count_colored(const struct cm_picture *picture)
{
	size_t i, count = 0;

	for (i = 0; i < (size_t)3 * SIDE * SIDE; i += 3)
		count += picture->pixels[i] != 0xff;
	return count;
}

CM_TEST(a_line_is_cut_at_the_sides)
{
	static const struct {
		double x0, y0, x1, y1;
		size_t colored;
	} lines[] = {
		{5, 0, 5, SIDE, 2 * SIDE}, /* half a pixel wide on both sides */
		{1e20, 0, 1e20, SIDE, 0},
		{-1e20, 0, -1e20, SIDE, 0},
		{0, 1e20, SIDE, 1e20, 0},
	};
	struct cm_picture picture;
	char *bytes = NULL;
	size_t count = 0, i;
	FILE *file = open_memstream(&bytes, &count);

	assert_non_null(file);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (cm_picture_open(&picture, CM_PICTURE_PNG, SIDE, SIDE, file))
			break; /* this build has no zlib */
		cm_picture_line(&picture, lines[i].x0, lines[i].y0, lines[i].x1, lines[i].y1, 1, 0);
		assert_int_equal(count_colored(&picture), lines[i].colored);
		assert_int_equal(cm_picture_close(&picture, file), 0);
	}
	assert_int_equal(fclose(file), 0);
	free(bytes);
}
