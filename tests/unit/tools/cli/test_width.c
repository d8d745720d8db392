/* SPDX-License-Identifier: MIT */
/* Lines that keep within a width. */
#include "tools/cli/width.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

static void assert_wrapped(const char *text, size_t width, const char *expected)
{
	char *wrapped = cm_text_wrap(text, width);

	assert_non_null(wrapped);
	assert_string_equal(wrapped, expected);
	free(wrapped);
}

CM_TEST(lines_break_at_blanks)
{
	assert_wrapped("", 10, "");
	assert_wrapped("one", 10, "one");
	assert_wrapped("one two", 7, "one two");
	assert_wrapped("one two", 6, "one\ntwo");
	assert_wrapped("one   two", 6, "one\ntwo");
	/* Blanks at the beginning stay, and are no place for a break. */
	assert_wrapped("  one two", 6, "  one\ntwo");
	assert_wrapped("   abcdef", 5, "   ab\ncdef");
}

CM_TEST(words_break_only_if_they_must)
{
	assert_wrapped("a abcdefgh b", 4, "a\nabcd\nefgh\nb");
	assert_wrapped("xyz", 1, "x\ny\nz");
}

CM_TEST(characters_have_their_width)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		cm_skip("no UTF-8 here");
	assert_int_equal(cm_text_width("\xe4\xb8\xad\xe6\x96\x87"), 4); /* two wide ones */
	assert_int_equal(cm_text_width("e\xcc\x81"), 1);                /* a combining accent */
	assert_int_equal(cm_text_width("\xc3\xa4\xff"), 2); /* a letter, and no character */
	assert_wrapped("\xe4\xb8\xad\xe6\x96\x87", 3, "\xe4\xb8\xad\n\xe6\x96\x87");
}
