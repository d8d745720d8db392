/* SPDX-License-Identifier: MIT */
/* Numbers, changes and texts come back as they were put; what is no such thing is refused. */
#include "tools/watch/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

CM_TEST(changes_come_back)
{
	static const int64_t cases[] = {
		0,         1,        -1,   15,        16,   -16,       512,       -512,
		513,       512 * 15, -512, 512 << 20, -513, INT64_MAX, INT64_MIN, INT64_MIN + 1,
		INT64_MAX, 1,        4096, -4096};
	struct cm_bytes_recent put = {0}, got = {0};
	struct cm_bytes_reader reader;
	struct cm_bytes bytes = {0};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cm_bytes_put_change(&bytes, cases[i], &put);
	reader = (struct cm_bytes_reader){bytes.data, bytes.count, false};
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cm_bytes_get_change(&reader, &got), cases[i]);
	assert_false(reader.bad);
	assert_int_equal(reader.left, 0);
	free(bytes.data);
}

CM_TEST(usual_changes_are_short)
{
	struct cm_bytes_recent recent = {0};
	struct cm_bytes bytes = {0};

	cm_bytes_put_change(&bytes, 512 * 1000, &recent);
	assert_int_equal(bytes.count, 2);
	cm_bytes_put_change(&bytes, -512 * 1000, &recent); /* another figure lost it */
	assert_int_equal(bytes.count, 3);
	cm_bytes_put_change(&bytes, 7, &recent);
	assert_int_equal(bytes.count, 4);
	free(bytes.data);
}

CM_TEST(numbers_have_limits)
{
	static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					  0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	struct cm_bytes_reader reader = {endless, sizeof(endless), false};
	struct cm_bytes_recent recent = {0};
	static const uint8_t ten = 10, bad_kind = 3;

	assert_int_equal(cm_bytes_get_number(&reader, UINT64_MAX), 0);
	assert_true(reader.bad);
	reader = (struct cm_bytes_reader){&ten, 1, false};
	assert_int_equal(cm_bytes_get_number(&reader, 10), 10);
	assert_false(reader.bad);
	reader = (struct cm_bytes_reader){&ten, 1, false};
	assert_int_equal(cm_bytes_get_number(&reader, 9), 0);
	assert_true(reader.bad);
	assert_int_equal(cm_bytes_get_number(&reader, 100), 0); /* from then on */
	reader = (struct cm_bytes_reader){&ten, 0, false};
	assert_int_equal(cm_bytes_get_number(&reader, 10), 0);
	assert_true(reader.bad);
	reader = (struct cm_bytes_reader){&bad_kind, 1, false};
	assert_int_equal(cm_bytes_get_change(&reader, &recent), 0);
	assert_true(reader.bad);
}

CM_TEST(texts_are_clean_and_fit)
{
	struct cm_bytes bytes = {0};
	struct cm_bytes_reader reader;
	char text[8];

	cm_bytes_put_text(&bytes, "a\033[2Jb and more");
	cm_bytes_put_text(&bytes, "");
	reader = (struct cm_bytes_reader){bytes.data, bytes.count, false};
	cm_bytes_get_text(&reader, text, sizeof(text));
	assert_string_equal(text, "a?[2Jb ");
	cm_bytes_get_text(&reader, text, sizeof(text));
	assert_string_equal(text, "");
	assert_false(reader.bad);
	reader = (struct cm_bytes_reader){bytes.data, 5, false};
	cm_bytes_get_text(&reader, text, sizeof(text));
	assert_true(reader.bad);
	assert_string_equal(text, "");
	free(bytes.data);
}
