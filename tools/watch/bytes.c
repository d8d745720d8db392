/* SPDX-License-Identifier: MIT */
#include "tools/watch/bytes.h"

#include <string.h>

#include "stats/text.h"
#include "tools/output/reserve.h"

#define UNIT     512u
#define TEXT_MAX 1024u
#define GROUP    0x7fu
#define MORE     0x80u
#define RECENT   (sizeof(((struct cm_bytes_recent *)0)->change) / sizeof(int64_t))

/* Kinds of changes. */
#define KIND_PLAIN  0u
#define KIND_UNITS  1u
#define KIND_RECENT 2u

void cm_bytes_put(struct cm_bytes *bytes, const void *from, size_t count)
{
	bytes->bad |= !cm_reserve(&bytes->data, &bytes->room, bytes->count + count);
	if (bytes->bad || !count)
		return;
	memcpy(bytes->data + bytes->count, from, count);
	bytes->count += count;
}

void cm_bytes_put_number(struct cm_bytes *bytes, uint64_t number)
{
	uint8_t byte[10];
	size_t n = 0;

	for (; number > GROUP; number >>= 7)
		byte[n++] = (uint8_t)((number & GROUP) | MORE);
	byte[n++] = (uint8_t)number;
	cm_bytes_put(bytes, byte, n);
}

static void note_recent(struct cm_bytes_recent *recent, int64_t change)
{
	memmove(recent->change + 1, recent->change,
		sizeof(recent->change) - sizeof(recent->change[0]));
	recent->change[0] = change;
}

/* The place of a change, or of its opposite, among the recent ones. False: neither is there. */
static bool find_recent(const struct cm_bytes_recent *recent, int64_t change, uint64_t *ret_place)
{
	const int64_t opposite = (int64_t) - (uint64_t)change;
	size_t i;

	for (i = 0; i < RECENT; i++) {
		if (recent->change[i] != change && recent->change[i] != opposite)
			continue;
		*ret_place = i << 1 | (recent->change[i] != change);
		return true;
	}
	return false;
}

/* The sign is stored in the lowest bit, so that small numbers of either sign are short. */
static uint64_t fold(int64_t value)
{
	return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

/* The first byte has what kind of number it is in its lowest two bits, and five of its bits. */
void cm_bytes_put_change(struct cm_bytes *bytes, int64_t change, struct cm_bytes_recent *recent)
{
	unsigned kind = change % UNIT ? KIND_PLAIN : KIND_UNITS;
	uint64_t folded = fold(kind == KIND_UNITS ? change / (int64_t)UNIT : change);
	uint8_t first;

	if (find_recent(recent, change, &folded))
		kind = KIND_RECENT;
	first = (uint8_t)(kind | (folded & 0x1f) << 2 | (folded >> 5 ? MORE : 0));
	cm_bytes_put(bytes, &first, 1);
	if (folded >> 5)
		cm_bytes_put_number(bytes, folded >> 5);
	note_recent(recent, change);
}

void cm_bytes_put_text(struct cm_bytes *bytes, const char *text)
{
	const size_t length = strlen(text);

	cm_bytes_put_number(bytes, length);
	cm_bytes_put(bytes, text, length);
}

void cm_bytes_get(struct cm_bytes_reader *reader, void *to, size_t count)
{
	reader->bad |= count > reader->left;
	if (reader->bad) {
		memset(to, 0, count);
		return;
	}
	memcpy(to, reader->data, count);
	reader->data += count;
	reader->left -= count;
}

uint64_t cm_bytes_get_number(struct cm_bytes_reader *reader, uint64_t max)
{
	uint64_t number = 0;
	unsigned shift;
	uint8_t byte;

	for (shift = 0; shift < 64; shift += 7) {
		cm_bytes_get(reader, &byte, 1);
		number |= (uint64_t)(byte & GROUP) << shift;
		if (!(byte & MORE))
			break;
	}
	reader->bad |= shift >= 64 || number > max;
	return reader->bad ? 0 : number;
}

static int64_t get_recent(struct cm_bytes_reader *reader, uint64_t place,
			  const struct cm_bytes_recent *recent)
{
	const uint64_t change = place >> 1 < RECENT ? (uint64_t)recent->change[place >> 1] : 0;

	reader->bad |= place >> 1 >= RECENT;
	return (int64_t)(place & 1 ? -change : change);
}

int64_t cm_bytes_get_change(struct cm_bytes_reader *reader, struct cm_bytes_recent *recent)
{
	uint64_t folded, value;
	uint8_t first;
	int64_t change;

	cm_bytes_get(reader, &first, 1);
	folded = first >> 2 & 0x1f;
	if (first & MORE)
		folded |= cm_bytes_get_number(reader, UINT64_MAX >> 5) << 5;
	value = folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0);
	/* The product wraps if the number is hostile. */
	change = (int64_t)((first & 3) == KIND_UNITS ? value * UNIT : value);
	if ((first & 3) == KIND_RECENT)
		change = get_recent(reader, folded, recent);
	reader->bad |= (first & 3) > KIND_RECENT;
	note_recent(recent, change);
	return reader->bad ? 0 : change;
}

void cm_bytes_get_text(struct cm_bytes_reader *reader, char *to, size_t room)
{
	const size_t length = (size_t)cm_bytes_get_number(reader, TEXT_MAX);
	char text[TEXT_MAX + 1];

	cm_bytes_get(reader, text, length);
	text[reader->bad ? 0 : length] = '\0';
	(void)cm_text_clean(to, room, text);
}
