/* SPDX-License-Identifier: MIT */
#include "tools/plot/columns.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cm_columns_open(struct cm_columns *columns)
{
	memset(columns, 0, sizeof(*columns));
	columns->file = open_memstream(&columns->bytes, &columns->count);
	columns->text_file = open_memstream(&columns->text, &columns->text_count);
	if (!columns->file || !columns->text_file)
		return -ENOMEM;
	cm_json_init(&columns->json, columns->text_file);
	return 0;
}

int cm_columns_close(struct cm_columns *columns)
{
	const int failed = columns->file ? fclose(columns->file) : 0;

	return failed | (columns->text_file ? fclose(columns->text_file) : 0) ? -ENOMEM : 0;
}

void cm_columns_free(struct cm_columns *columns)
{
	free(columns->bytes);
	free(columns->text);
}

/* How the values of a column are stored. */
struct packing {
	uint64_t base;
	unsigned shift;
	unsigned bytes; /* 8: as doubles */
};

static struct packing choose_packing(size_t count, cm_value_fn value, const void *data)
{
	struct packing packing = {.base = count ? UINT64_MAX : 0, .bytes = 1};
	uint64_t most = 0, bits = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		const uint64_t v = value(data, i);

		packing.base = v < packing.base ? v : packing.base;
		most = v > most ? v : most;
	}
	/* Small numbers need no base, and NEVER and BEFORE are recognised by their value. */
	if (most <= UINT32_MAX)
		packing.base = 0;
	for (i = 0; i < count; i++)
		bits |= value(data, i) - packing.base;
	if (most > UINT32_MAX && bits)
		packing.shift = (unsigned)__builtin_ctzll(bits);
	most = (most - packing.base) >> packing.shift;
	packing.bytes = most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
	return packing;
}

/* JavaScript's numbers are doubles: exact up to 2^53, beyond all addresses and sizes. */
static void put_real(FILE *file, uint64_t value)
{
	const double real = (double)value;
	uint64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	bits = htole64(bits);
	(void)fwrite_unlocked(&bits, sizeof(bits), 1, file);
}

static void put_value(FILE *file, const struct packing *packing, uint64_t value)
{
	const uint64_t stored = htole64((value - packing->base) >> packing->shift);

	if (packing->bytes == 8)
		put_real(file, value);
	else
		(void)fwrite_unlocked(&stored, packing->bytes, 1, file);
}

static size_t align(FILE *file)
{
	static const char zeros[8];
	const long at = ftell(file);

	if (at % 8)
		(void)fwrite(zeros, 1, 8 - (size_t)(at % 8), file);
	return (size_t)ftell(file);
}

static void put_description(struct cm_json *json, const char *name, const struct packing *packing,
			    size_t start, size_t count, bool differences)
{
	static const char *const types[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "f64"};

	cm_json_array(json, NULL);
	cm_json_text(json, NULL, name);
	cm_json_text(json, NULL, types[packing->bytes]);
	cm_json_unsigned(json, NULL, start);
	cm_json_unsigned(json, NULL, count);
	cm_json_unsigned(json, NULL, packing->bytes == 8 ? 0 : packing->base);
	cm_json_unsigned(json, NULL, packing->bytes == 8 ? 1 : UINT64_C(1) << packing->shift);
	cm_json_bool(json, NULL, differences);
	cm_json_end(json);
}

void cm_columns_add(struct cm_columns *columns, const char *name, size_t count, cm_value_fn value,
		    const void *data)
{
	const struct packing packing = choose_packing(count, value, data);
	const size_t start = align(columns->file);
	size_t i;

	for (i = 0; i < count; i++)
		put_value(columns->file, &packing, value(data, i));
	put_description(&columns->json, name, &packing, start, count, false);
}

void cm_columns_add_growing(struct cm_columns *columns, const char *name, size_t count,
			    cm_value_fn value, const void *data)
{
	const struct packing packing = {.bytes = 4};
	const size_t start = align(columns->file);
	uint32_t last = 0, now;
	size_t i;

	/* Numbers that do not grow after all wrap, here and where they are read. */
	for (i = 0; i < count; i++, last = now) {
		now = (uint32_t)value(data, i);
		put_value(columns->file, &packing, (uint32_t)(now - last));
	}
	put_description(&columns->json, name, &packing, start, count, true);
}
