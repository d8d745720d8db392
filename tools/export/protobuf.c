/* SPDX-License-Identifier: MIT */
#include "tools/export/protobuf.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/reserve.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2 };

void cm_protobuf_fini(struct cm_protobuf *message)
{
	free(message->bytes);
	memset(message, 0, sizeof(*message));
}

void cm_protobuf_clear(struct cm_protobuf *message)
{
	message->count = 0;
}

static void append_raw(struct cm_protobuf *message, const void *bytes, size_t count)
{
	if (!cm_reserve(&message->bytes, &message->room, message->count + count)) {
		message->failed = true;
		return;
	}
	if (count)
		memcpy(message->bytes + message->count, bytes, count);
	message->count += count;
}

/* Seven bits per byte, lowest first. */
static void append_varint(struct cm_protobuf *message, uint64_t number)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (uint8_t)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
		number >>= 7;
		n++;
	} while (number);
	append_raw(message, bytes, n);
}

static void append_tag(struct cm_protobuf *message, uint32_t field, enum wire wire)
{
	append_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

void cm_protobuf_number(struct cm_protobuf *message, uint32_t field, uint64_t number)
{
	append_tag(message, field, WIRE_VARINT);
	append_varint(message, number);
}

void cm_protobuf_double(struct cm_protobuf *message, uint32_t field, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	bits = htole64(bits);
	append_tag(message, field, WIRE_64);
	append_raw(message, &bits, sizeof(bits));
}

static void append_bytes(struct cm_protobuf *message, uint32_t field, const void *bytes,
			 size_t count)
{
	append_tag(message, field, WIRE_BYTES);
	append_varint(message, count);
	append_raw(message, bytes, count);
}

void cm_protobuf_text(struct cm_protobuf *message, uint32_t field, const char *text)
{
	append_bytes(message, field, text, strlen(text));
}

void cm_protobuf_message(struct cm_protobuf *message, uint32_t field,
			 const struct cm_protobuf *inner)
{
	append_bytes(message, field, inner->bytes, inner->count);
	message->failed |= inner->failed;
}

void cm_protobuf_packed(struct cm_protobuf *message, uint32_t field, const uint64_t *numbers,
			size_t count, struct cm_protobuf *inner)
{
	size_t i;

	cm_protobuf_clear(inner);
	for (i = 0; i < count; i++)
		append_varint(inner, numbers[i]);
	cm_protobuf_message(message, field, inner);
}
