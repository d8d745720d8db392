/* SPDX-License-Identifier: MIT */
/* The number of a card, by the folder in which the driver lists the cards. */
#include "tools/processes/smi_index.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

/* Makes, or removes, the folders that a driver with these cards has. */
static void change(const char *root, const char *const names[], size_t count, bool make)
{
	char path[128];
	size_t i;

	for (i = 0; i < count; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		assert_int_equal(make ? mkdir(path, 0700) : rmdir(path), 0);
	}
}

CM_TEST(cards_are_counted_by_their_place)
{
	static const char *const names[] = {"0000:b3:00.0", "0000:17:00.0", "0001:01:00.0",
					    "readme"};
	char root[] = "/tmp/cudamem-smi-XXXXXX";

	assert_non_null(mkdtemp(root));
	change(root, names, 4, true);
	assert_int_equal(cm_smi_index_in(root, "0000:17:00.0"), 0);
	assert_int_equal(cm_smi_index_in(root, "0000:B3:00.0"), 1);
	assert_int_equal(cm_smi_index_in(root, "00000001:01:00.0"), 2);
	assert_int_equal(cm_smi_index_in(root, "0000:18:00.0"), -1);
	assert_int_equal(cm_smi_index_in(root, ""), -1);
	assert_int_equal(cm_smi_index_in(root, "readme"), -1);
	change(root, names, 4, false);
	assert_int_equal(cm_smi_index_in(root, "0000:17:00.0"), -1);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(cm_smi_index_in(root, "0000:17:00.0"), -1);
}
