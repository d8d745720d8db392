/* SPDX-License-Identifier: MIT */
#include "tools/output/intern.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 65536
#define FIRST_SLOTS 1024

struct cm_intern_item {
	const char *bytes;
	size_t count;
	uint64_t hash;
};

struct cm_intern_chunk {
	struct cm_intern_chunk *next;
	size_t used;
	size_t room;
	_Alignas(16) char bytes[];
};

void cm_intern_init(struct cm_intern *intern)
{
	memset(intern, 0, sizeof(*intern));
}

void cm_intern_fini(struct cm_intern *intern)
{
	struct cm_intern_chunk *next;

	for (; intern->chunk; intern->chunk = next) {
		next = intern->chunk->next;
		free(intern->chunk);
	}
	free(intern->item);
	free(intern->slot);
	memset(intern, 0, sizeof(*intern));
}

/* FNV-1a: fast for short keys. Collisions could be forced only by a file, to slow its own
 * reader. */
static uint64_t hash_of(const void *bytes, size_t count)
{
	const unsigned char *at = bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (i = 0; i < count; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

static char *store(struct cm_intern *intern, const void *bytes, size_t count)
{
	const size_t need = (count + 15) & ~(size_t)15;
	struct cm_intern_chunk *chunk = intern->chunk;
	size_t room;
	char *to;

	if (!chunk || chunk->room - chunk->used < need) {
		room = need > CHUNK_BYTES ? need : CHUNK_BYTES;
		chunk = malloc(sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->next = intern->chunk;
		chunk->used = 0;
		chunk->room = room;
		intern->chunk = chunk;
	}
	to = chunk->bytes + chunk->used;
	memcpy(to, bytes, count);
	chunk->used += need;
	return to;
}

static int grow(struct cm_intern *intern)
{
	const uint32_t slots = intern->slots ? intern->slots * 2 : FIRST_SLOTS;
	uint32_t *slot = calloc(slots, sizeof(*slot));
	struct cm_intern_item *item;
	uint32_t i, at;

	item = slot ? reallocarray(intern->item, slots / 2, sizeof(*item)) : NULL;
	if (!item) {
		free(slot);
		return -1;
	}
	intern->item = item;
	intern->room = slots / 2;
	for (i = 0; i < intern->count; i++) {
		for (at = (uint32_t)item[i].hash & (slots - 1); slot[at];)
			at = (at + 1) & (slots - 1);
		slot[at] = i + 1;
	}
	free(intern->slot);
	intern->slot = slot;
	intern->slots = slots;
	return 0;
}

uint32_t cm_intern_add(struct cm_intern *intern, const void *bytes, size_t count)
{
	const uint64_t hash = hash_of(bytes, count);
	struct cm_intern_item *item;
	uint32_t at;

	if (intern->count == intern->room && (intern->room > UINT32_MAX / 4 || grow(intern)))
		return CM_INTERN_NONE;
	for (at = (uint32_t)hash & (intern->slots - 1); intern->slot[at];) {
		item = &intern->item[intern->slot[at] - 1];
		if (item->hash == hash && item->count == count &&
		    !memcmp(item->bytes, bytes, count))
			return intern->slot[at] - 1;
		at = (at + 1) & (intern->slots - 1);
	}
	item = &intern->item[intern->count];
	item->bytes = store(intern, bytes, count);
	if (!item->bytes)
		return CM_INTERN_NONE;
	item->count = count;
	item->hash = hash;
	intern->slot[at] = ++intern->count;
	return intern->count - 1;
}

uint32_t cm_intern_text(struct cm_intern *intern, const char *text)
{
	return cm_intern_add(intern, text, strlen(text) + 1);
}

const void *cm_intern_bytes(const struct cm_intern *intern, uint32_t number, size_t *ret_count)
{
	if (ret_count)
		*ret_count = intern->item[number].count;
	return intern->item[number].bytes;
}
