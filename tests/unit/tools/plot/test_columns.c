/* SPDX-License-Identifier: MIT */
/* A column holds each of its values, however they are packed. */
#include "tools/plot/columns.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define ADDRESS UINT64_C(0x7f0000000000)

static uint64_t value_of(const void *data, size_t i)
{
	return ((const uint64_t *)data)[i];
}

/* Packs three values into one column, which is to be of this type, and reads them back. */
static void must_hold(const uint64_t values[3], const char *type)
{
	unsigned long long base = 0, factor = 0;
	struct cm_columns columns;
	uint32_t stored;
	char found[8];
	size_t i, bytes;

	assert_int_equal(cm_columns_open(&columns), 0);
	cm_columns_add(&columns, "c", 3, value_of, values);
	assert_int_equal(cm_columns_close(&columns), 0);
	/* ["c", "u16", 0, 3, 0, 1, false], whatever stands between them. */
	for (i = 0; i < columns.text_count; i++)
		if (strchr(",[]\"\n", columns.text[i]))
			columns.text[i] = ' ';
	assert_int_equal(sscanf(columns.text, " c %7s 0 3 %llu %llu", found, &base, &factor), 3);
	assert_string_equal(found, type);
	bytes = !strcmp(type, "u8") ? 1 : !strcmp(type, "u16") ? 2 : 4;
	assert_int_equal(columns.count, 3 * bytes);
	for (i = 0; i < 3; i++) {
		stored = 0;
		memcpy(&stored, columns.bytes + i * bytes, bytes);
		assert_int_equal(base + le32toh(stored) * factor, values[i]);
	}
	cm_columns_free(&columns);
}

CM_TEST(small_numbers_are_stored_as_they_are)
{
	must_hold((const uint64_t[]){0, 7, 255}, "u8");
	must_hold((const uint64_t[]){1, 256, 2}, "u16");
	must_hold((const uint64_t[]){UINT32_MAX, 65536, 0}, "u32");
}

/* The lowest bit that differs may be that of any of them. */
CM_TEST(addresses_keep_every_bit)
{
	must_hold((const uint64_t[]){ADDRESS, ADDRESS + 512, ADDRESS + (1u << 30)}, "u32");
	must_hold((const uint64_t[]){ADDRESS + (1u << 30), ADDRESS, ADDRESS + 512}, "u32");
	must_hold((const uint64_t[]){ADDRESS + 512, ADDRESS + (1u << 30), ADDRESS}, "u32");
	must_hold((const uint64_t[]){ADDRESS, ADDRESS, ADDRESS}, "u8");
}
