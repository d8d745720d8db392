/* SPDX-License-Identifier: MIT */
/* Texts of every length are written in the form that has room for it. */
#include "tools/output/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define HEAD 2 /* bytes before the first value: the protocol */

/* The pickle of a text of so many bytes, and how long it is. */
static unsigned char *write_text(size_t bytes, size_t *ret_count)
{
	char *text = calloc(1, bytes + 1), *written = NULL;
	FILE *file = open_memstream(&written, ret_count);
	struct cm_pickle *pickle;

	assert_non_null(text);
	assert_non_null(file);
	memset(text, 'x', bytes);
	pickle = cm_pickle_open(file);
	assert_non_null(pickle);
	cm_pickle_text(pickle, text);
	assert_int_equal(cm_pickle_close(pickle), 0);
	assert_int_equal(fclose(file), 0);
	free(text);
	return (unsigned char *)written;
}

CM_TEST(a_text_is_as_long_as_it_says)
{
	static const size_t bytes[] = {0, 1, 255, 256, 257, 70000};
	unsigned char *written;
	size_t i, count, head;
	uint32_t said;

	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		written = write_text(bytes[i], &count);
		assert_true(count > HEAD + 2);
		if (written[HEAD] == 0x8c) { /* SHORT_BINUNICODE */
			said = written[HEAD + 1];
			head = HEAD + 2;
		} else {
			assert_int_equal(written[HEAD], 'X'); /* BINUNICODE */
			assert_true(count > HEAD + 5);
			said = written[HEAD + 1] | (uint32_t)written[HEAD + 2] << 8 |
			       (uint32_t)written[HEAD + 3] << 16 |
			       (uint32_t)written[HEAD + 4] << 24;
			head = HEAD + 5;
		}
		assert_int_equal(said, bytes[i]);
		assert_int_equal(count, head + bytes[i] + 1);
		assert_int_equal(written[count - 1], '.');
		free(written);
	}
}
