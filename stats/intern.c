/* SPDX-License-Identifier: MIT */
#include "stats/intern.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_FIRST 4096u

/*
 * Open addressing; a slot is hash << 32 | id, 0 while it is empty. One that is full is replaced by
 * one of twice the size and stays mapped, since somebody may be looking in it: all the old ones
 * together are no larger than the last.
 */
struct cm_intern_index {
	struct cm_intern_index *older;
	uint32_t slots; /* a power of two */
	_Atomic uint64_t slot[];
};

static size_t index_bytes(uint32_t slots)
{
	return sizeof(struct cm_intern_index) + (size_t)slots * sizeof(uint64_t);
}

static struct cm_intern_index *map_index(uint32_t slots, struct cm_intern_index *older)
{
	struct cm_intern_index *index;

	index = mmap(NULL, index_bytes(slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (index == MAP_FAILED)
		return NULL;
	index->older = older;
	index->slots = slots;
	return index;
}

void cm_intern_table_init(struct cm_intern_table *intern, struct cm_region *region,
			  enum cm_table table, uint64_t *used, uint64_t *lost, uint64_t *count)
{
	intern->region = region;
	intern->table = table;
	intern->stride = region->header->table[table].stride;
	intern->capacity = region->header->table[table].capacity;
	intern->used = used;
	intern->lost = lost;
	intern->told_count = count;
	intern->count = 0;
	atomic_store(&intern->rows, 1);
	(void)pthread_mutex_init(&intern->lock, NULL);
	atomic_store(&intern->index, map_index(SLOTS_FIRST, NULL));
}

void cm_intern_table_fini(struct cm_intern_table *intern)
{
	struct cm_intern_index *index = atomic_exchange(&intern->index, NULL), *older;

	for (; index; index = older) {
		older = index->older;
		(void)munmap(index, index_bytes(index->slots));
	}
}

/* An odd multiplier of good spread: 2^64 divided by the golden ratio. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

/* Of two words at a time: the first product waits for no other. */
static uint64_t mix(uint64_t hash, const uint64_t *pair)
{
	hash = (hash ^ (pair[0] * SPREAD + pair[1])) * SPREAD;
	return hash ^ hash >> 32;
}

static uint32_t hash_bytes(const char *data, size_t bytes)
{
	uint64_t hash = bytes, pair[2];

	for (; bytes >= sizeof(pair); data += sizeof(pair), bytes -= sizeof(pair)) {
		memcpy(pair, data, sizeof(pair));
		hash = mix(hash, pair);
	}
	memset(pair, 0, sizeof(pair));
	memcpy(pair, data, bytes);
	return (uint32_t)(mix(hash, pair) >> 32);
}

/* Whether the bytes stand at `id`. One that is shorter may be the last that there is. */
static bool is_at(const struct cm_intern_table *intern, uint32_t id, const void *data, size_t bytes)
{
	const uint64_t rows = bytes / intern->stride;

	return rows <= atomic_load_explicit(&intern->rows, memory_order_relaxed) - id &&
	       !memcmp(cm_region_row(intern->region, intern->table, id), data, bytes);
}

/* The id, or 0 and the empty slot where it belongs. */
static uint32_t find_entry(const struct cm_intern_table *intern, struct cm_intern_index *index,
			   uint32_t hash, const void *data, size_t bytes,
			   _Atomic uint64_t **ret_slot)
{
	uint32_t at = hash & (index->slots - 1), id;
	uint64_t slot;

	for (;; at = (at + 1) & (index->slots - 1)) {
		/* Acquire: a thread that sees the id sees the bytes. */
		slot = atomic_load_explicit(&index->slot[at], memory_order_acquire);
		*ret_slot = &index->slot[at];
		id = (uint32_t)slot;
		if (!id)
			return 0;
		if (slot >> 32 == hash && is_at(intern, id, data, bytes))
			return id;
	}
}

static struct cm_intern_index *grow(struct cm_intern_table *intern, struct cm_intern_index *index)
{
	struct cm_intern_index *larger = map_index(index->slots * 2, index);
	uint32_t i, at;
	uint64_t slot;

	if (!larger)
		return NULL;
	for (i = 0; i < index->slots; i++) {
		slot = atomic_load_explicit(&index->slot[i], memory_order_relaxed);
		if (!slot)
			continue;
		at = (uint32_t)(slot >> 32) & (larger->slots - 1);
		while (atomic_load_explicit(&larger->slot[at], memory_order_relaxed))
			at = (at + 1) & (larger->slots - 1);
		atomic_store_explicit(&larger->slot[at], slot, memory_order_relaxed);
	}
	atomic_store_explicit(&intern->index, larger, memory_order_release);
	return larger;
}

/* Copies the bytes behind what is in use. 0: no room. */
static uint32_t append_bytes(struct cm_intern_table *intern, const void *data, size_t bytes)
{
	const uint32_t id = atomic_load_explicit(&intern->rows, memory_order_relaxed);
	const uint64_t rows = bytes / intern->stride;

	if (rows > intern->capacity - id ||
	    cm_region_commit(intern->region, intern->table, id + (uint32_t)rows))
		return 0;
	memcpy(cm_region_row(intern->region, intern->table, id), data, bytes);
	atomic_store_explicit(&intern->rows, id + (uint32_t)rows, memory_order_relaxed);
	/* Release: a reader of the region that sees the count may read the rows. */
	__atomic_store_n(intern->used, id + rows, __ATOMIC_RELEASE);
	return id;
}

static uint32_t add_locked(struct cm_intern_table *intern, uint32_t hash, const void *data,
			   size_t bytes)
{
	struct cm_intern_index *index = atomic_load_explicit(&intern->index, memory_order_relaxed);
	_Atomic uint64_t *slot;
	uint32_t id;

	/* Never more than half full: a search ends soon, and always. */
	if (index && intern->count >= index->slots / 2)
		index = grow(intern, index);
	if (!index)
		return 0;
	id = find_entry(intern, index, hash, data, bytes, &slot);
	if (id)
		return id; /* another thread was faster */
	id = append_bytes(intern, data, bytes);
	if (!id)
		return 0;
	intern->count++;
	if (intern->told_count)
		__atomic_store_n(intern->told_count, intern->count, __ATOMIC_RELAXED);
	atomic_store_explicit(slot, (uint64_t)hash << 32 | id, memory_order_release);
	return id;
}

uint32_t cm_intern_table_add(struct cm_intern_table *intern, const void *data, size_t bytes)
{
	const uint32_t hash = hash_bytes(data, bytes);
	struct cm_intern_index *index = atomic_load_explicit(&intern->index, memory_order_acquire);
	_Atomic uint64_t *slot;
	uint32_t id;

	id = index ? find_entry(intern, index, hash, data, bytes, &slot) : 0;
	if (id)
		return id;
	(void)pthread_mutex_lock(&intern->lock);
	id = add_locked(intern, hash, data, bytes);
	(void)pthread_mutex_unlock(&intern->lock);
	if (!id)
		__atomic_fetch_add(intern->lost, 1, __ATOMIC_RELAXED);
	return id;
}
