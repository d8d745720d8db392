/* SPDX-License-Identifier: MIT */
#include "allocator/entry/uncached.h"

#include <string.h>
#include <sys/mman.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/heap.h"
#include "allocator/cache.h"
#include "allocator/oom/oom.h"
#include "allocator/state/limit.h"
#include "allocator/state/state.h"

#define FIRST_ROWS 1024

/* The map hashes the bits above a device's grain. Handles differ below them, so they are
 * rotated. */
static uint64_t map_key_of(enum cm_uncached_name name, uint64_t key)
{
	return name >= CM_NAME_ARRAY ? key << CM_GRAIN_SHIFT | key >> (64 - CM_GRAIN_SHIFT) : key;
}

static bool grow_rows(struct cm_uncached *uncached)
{
	uint32_t room = uncached->room ? uncached->room * 2 : FIRST_ROWS;
	void *rows;

	if (uncached->row)
		rows = mremap(uncached->row, uncached->room * sizeof(*uncached->row),
			      room * sizeof(*uncached->row), MREMAP_MAYMOVE);
	else
		rows = mmap(NULL, room * sizeof(*uncached->row), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rows == MAP_FAILED)
		return false;
	uncached->row = rows;
	uncached->room = room;
	if (!uncached->rows)
		uncached->rows = 1;
	return true;
}

void cm_uncached_fini(struct cm_uncached *uncached)
{
	uint32_t name;

	for (name = 0; name < CM_NAME_COUNT; name++)
		cm_ptr_map_fini(&uncached->map[name]);
	if (uncached->row)
		(void)munmap(uncached->row, uncached->room * sizeof(*uncached->row));
	uncached->row = NULL;
}

static uint32_t find_locked(const struct cm_uncached *uncached, enum cm_uncached_name name,
			    uint64_t key)
{
	return cm_ptr_map_find(&uncached->map[name], map_key_of(name, key));
}

static void count_more(struct cm_cache *cache, const struct cm_uncached_memory *memory,
		       uint64_t key)
{
	struct cm_device *device = cm_cache_device(cache, memory->device);

	if (!device)
		return;
	/* What was taken comes first, so that it is never less than what is counted. */
	if (memory->bytes >= memory->taken)
		cm_limit_note(device, memory->bytes - memory->taken);
	cm_cache_count_uncached(cache, memory->device, memory->kind, key, (int64_t)memory->bytes);
	if (memory->bytes < memory->taken)
		cm_limit_give(device, memory->taken - memory->bytes);
}

static void count_less(struct cm_cache *cache, const struct cm_uncached_memory *memory,
		       uint64_t key)
{
	cm_cache_count_uncached(cache, memory->device, memory->kind, key, -(int64_t)memory->bytes);
	cm_cache_give_limit(cache, memory->device, memory->bytes);
}

/* Frees the row once nothing refers to it. */
static void give_row_locked(struct cm_cache *cache, uint32_t index)
{
	struct cm_uncached *uncached = &cache->uncached;
	struct cm_uncached_row *row = &uncached->row[index];

	if (row->times || row->held)
		return;
	if (row->name != CM_NAME_MAPPING)
		count_less(cache, &row->memory, row->key);
	*row = (struct cm_uncached_row){.link = uncached->spare};
	uncached->spare = index;
}

static void let_go_locked(struct cm_cache *cache, uint32_t index)
{
	cache->uncached.row[index].held--;
	give_row_locked(cache, index);
}

/* The driver has just returned that name: its former owner was freed without our hooks. */
static void forget_lost_locked(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key)
{
	struct cm_uncached *uncached = &cache->uncached;
	uint32_t index = find_locked(uncached, name, key), target;

	if (!index)
		return;
	(void)cm_ptr_map_remove(&uncached->map[name], uncached->row[index].key);
	target = uncached->row[index].target;
	uncached->row[index].times = 0;
	give_row_locked(cache, index);
	if (target)
		let_go_locked(cache, target);
}

/* A row under its name; 0: not enough host memory. */
static uint32_t add_row_locked(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key,
			       const struct cm_uncached_memory *memory)
{
	struct cm_uncached *uncached = &cache->uncached;
	uint32_t index;

	forget_lost_locked(cache, name, key);
	index = uncached->spare;
	if (!key || cm_ptr_map_reserve(&uncached->map[name]) ||
	    (!index && uncached->rows == uncached->room && !grow_rows(uncached)))
		return 0;
	if (index)
		uncached->spare = uncached->row[index].link;
	else
		index = uncached->rows++;
	uncached->row[index] = (struct cm_uncached_row){
		.memory = *memory, .key = map_key_of(name, key), .name = name, .times = 1};
	cm_ptr_map_add(&uncached->map[name], uncached->row[index].key, index);
	return index;
}

void cm_uncached_add(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key,
		     const struct cm_uncached_memory *memory)
{
	struct cm_uncached *uncached = &cache->uncached;
	bool added = false;

	if (memory->bytes && name == CM_NAME_ADDRESS) {
		cm_cache_await_place(cache, key, memory->bytes);
		cm_heap_forget_lost(cache, key);
	}
	cm_lock_acquire(&uncached->lock);
	if (memory->bytes && add_row_locked(cache, name, key, memory)) {
		count_more(cache, memory, map_key_of(name, key));
		added = true;
	}
	cm_lock_release(&uncached->lock);
	if (!added)
		cm_cache_give_limit(cache, memory->device, memory->taken);
}

void cm_uncached_retain(struct cm_cache *cache, uint64_t handle)
{
	struct cm_uncached *uncached = &cache->uncached;
	uint32_t index;

	cm_lock_acquire(&uncached->lock);
	index = find_locked(uncached, CM_NAME_HANDLE, handle);
	if (index)
		uncached->row[index].times++;
	cm_lock_release(&uncached->lock);
}

void cm_uncached_map(struct cm_cache *cache, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	struct cm_uncached *uncached = &cache->uncached;
	struct cm_uncached_memory memory = {.bytes = bytes};
	uint32_t target, index;

	cm_lock_acquire(&uncached->lock);
	target = find_locked(uncached, CM_NAME_HANDLE, handle);
	index = target ? add_row_locked(cache, CM_NAME_MAPPING, addr, &memory) : 0;
	if (index) {
		uncached->row[index].target = target;
		uncached->row[target].held++;
	}
	cm_lock_release(&uncached->lock);
}

static uint32_t take_name_locked(struct cm_uncached *uncached, enum cm_uncached_name name,
				 uint64_t key)
{
	uint32_t index = find_locked(uncached, name, key);
	struct cm_uncached_row *row = &uncached->row[index];

	if (!index)
		return 0;
	row->held++;
	row->link = 0;
	if (!--row->times)
		(void)cm_ptr_map_remove(&uncached->map[name], row->key);
	return index;
}

uint32_t cm_uncached_take(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key)
{
	struct cm_uncached *uncached = &cache->uncached;

	return CM_WITH_LOCK(&uncached->lock, take_name_locked(uncached, name, key));
}

uint32_t cm_uncached_take_mapped(struct cm_cache *cache, uint64_t addr, uint64_t bytes)
{
	struct cm_uncached *uncached = &cache->uncached;
	uint64_t end = addr + bytes;
	uint32_t first = 0, index;

	cm_lock_acquire(&uncached->lock);
	while (addr < end && (index = take_name_locked(uncached, CM_NAME_MAPPING, addr)) != 0) {
		uncached->row[index].link = first;
		first = index;
		addr += uncached->row[index].memory.bytes;
	}
	cm_lock_release(&uncached->lock);
	return first;
}

void cm_uncached_drop(struct cm_cache *cache, uint32_t taken)
{
	struct cm_uncached *uncached = &cache->uncached;
	uint32_t target, next;

	if (!taken)
		return;
	cm_lock_acquire(&uncached->lock);
	for (; taken; taken = next) {
		next = uncached->row[taken].link;
		target = uncached->row[taken].target;
		let_go_locked(cache, taken);
		if (target)
			let_go_locked(cache, target);
	}
	cm_lock_release(&uncached->lock);
}

void cm_uncached_put_back(struct cm_cache *cache, uint32_t taken)
{
	struct cm_uncached *uncached = &cache->uncached;
	struct cm_uncached_row *row;
	uint32_t next;

	if (!taken)
		return;
	cm_lock_acquire(&uncached->lock);
	for (; taken; taken = next) {
		row = &uncached->row[taken];
		next = row->link;
		row->held--;
		if (row->ended)
			give_row_locked(cache, taken);
		/* Without room in the map it stays, as counted. */
		else if (!row->times++ && !cm_ptr_map_reserve(&uncached->map[row->name]))
			cm_ptr_map_add(&uncached->map[row->name], row->key, taken);
	}
	cm_lock_release(&uncached->lock);
}

void cm_uncached_forget_context(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_uncached *uncached = &cache->uncached;
	struct cm_uncached_row *row;
	uint32_t i;

	if (!ctx)
		return;
	cm_lock_acquire(&uncached->lock);
	for (i = 1; i < uncached->rows; i++) {
		row = &uncached->row[i];
		if (row->memory.ctx != ctx)
			continue;
		row->ended = true;
		if (row->times)
			(void)cm_ptr_map_remove(&uncached->map[row->name], row->key);
		row->times = 0;
		give_row_locked(cache, i);
	}
	cm_lock_release(&uncached->lock);
}

void cm_cache_report_uncached_oom(struct cm_cache *cache, uint32_t row, uint64_t ctx,
				  enum cm_uncached_kind kind, uint64_t bytes, bool limited)
{
	const struct cm_oom_attempt attempt = {.bytes = bytes, .size = bytes, .capped = limited};
	struct cm_oom oom = {0};

	cm_oom_note_uncached(cache, row, ctx, kind, &attempt, &oom);
	cm_oom_tell(cache, &oom);
}
