/* SPDX-License-Identifier: MIT */
#include "tools/plot/png.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/gzip.h"

#define GZIP_HEAD 10 /* bytes before the deflated data */
#define GZIP_TAIL 8  /* and behind */

/* The check value of a chunk: ISO 3309, bit by bit, as pictures are small. */
static uint32_t crc_add(uint32_t crc, const uint8_t *bytes, size_t count)
{
	size_t i;
	int bit;

	for (i = 0; i < count; i++) {
		crc ^= bytes[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return crc;
}

static void put_word(FILE *file, uint32_t word)
{
	word = htobe32(word);
	(void)fwrite(&word, sizeof(word), 1, file);
}

static void put_chunk(FILE *file, const char kind[4], const void *bytes, size_t count)
{
	uint32_t crc = crc_add(UINT32_MAX, (const uint8_t *)kind, 4);

	put_word(file, (uint32_t)count);
	(void)fwrite(kind, 4, 1, file);
	(void)fwrite(bytes, 1, count, file);
	put_word(file, ~crc_add(crc, bytes, count));
}

/* The check value of the data before they were deflated: RFC 1950. */
static uint32_t adler(const uint8_t *bytes, size_t count)
{
	uint32_t a = 1, b = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		a = (a + bytes[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

static void keep_bytes(void *to, const void *bytes, size_t count)
{
	(void)fwrite(bytes, 1, count, to);
}

/* The lines, each with a filter in front (0: none), as a zlib stream. */
static int put_data(FILE *file, const uint8_t *lines, size_t count)
{
	static const uint8_t head[] = {0x78, 0x9c};
	uint32_t check = htobe32(adler(lines, count));
	char *packed = NULL, *data;
	size_t bytes = 0;
	FILE *memory = open_memstream(&packed, &bytes);
	struct cm_gzip *gzip = memory ? cm_gzip_open(CM_GZIP_FAIR, keep_bytes, memory) : NULL;
	int err = gzip ? 0 : -ENOMEM;

	if (gzip) {
		cm_gzip_add(gzip, lines, count);
		cm_gzip_close(gzip);
	}
	if (memory && fclose(memory))
		err = -ENOMEM;
	data = err ? NULL : malloc(bytes + sizeof(head) + sizeof(check));
	if (data) {
		bytes -= GZIP_HEAD + GZIP_TAIL;
		memcpy(data, head, sizeof(head));
		memcpy(data + sizeof(head), packed + GZIP_HEAD, bytes);
		memcpy(data + sizeof(head) + bytes, &check, sizeof(check));
		put_chunk(file, "IDAT", data, sizeof(head) + bytes + sizeof(check));
	}
	free(packed);
	free(data);
	return data ? 0 : -ENOMEM;
}

int cm_png_write(const uint8_t *pixels, uint32_t width, uint32_t height, FILE *file)
{
	static const uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
	const uint32_t size[2] = {htobe32(width), htobe32(height)};
	const size_t line = (size_t)3 * width;
	uint8_t head[13] = {[8] = 8 /* bits */, [9] = 2 /* red, green, blue */};
	uint8_t *lines = malloc((line + 1) * height);
	uint32_t y;
	int err;

	if (!lines)
		return -ENOMEM;
	for (y = 0; y < height; y++) {
		lines[y * (line + 1)] = 0;
		memcpy(&lines[y * (line + 1) + 1], pixels + y * line, line);
	}
	memcpy(head, size, sizeof(size));
	(void)fwrite(signature, sizeof(signature), 1, file);
	put_chunk(file, "IHDR", head, sizeof(head));
	err = put_data(file, lines, (line + 1) * height);
	put_chunk(file, "IEND", "", 0);
	free(lines);
	return err;
}
