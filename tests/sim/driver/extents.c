/* SPDX-License-Identifier: MIT */
#include "extents.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* Up to EXACT units each length has a bin of its own, above it every power of two has STEPS. */
enum { EXACT = 32, EXACT_LOG = 5, STEPS_LOG = 3 };

static unsigned bin_of(uint32_t length)
{
	unsigned log;

	if (length < EXACT)
		return length;
	log = 31 - (unsigned)__builtin_clz(length);
	return EXACT + ((log - EXACT_LOG) << STEPS_LOG) +
	       ((length >> (log - STEPS_LOG)) & ((1u << STEPS_LOG) - 1));
}

/* The first bin in which every run is long enough. */
static unsigned bin_above(uint32_t length)
{
	unsigned bin = bin_of(length);
	unsigned log;

	if (length < EXACT)
		return bin;
	log = 31 - (unsigned)__builtin_clz(length);
	return length & ((1u << (log - STEPS_LOG)) - 1) ? bin + 1 : bin;
}

static void *reserve(size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return map == MAP_FAILED ? NULL : map;
}

static size_t unit_bytes(uint32_t count)
{
	return ((size_t)count + 1) * sizeof(struct sim_extent);
}

static size_t start_bytes(uint32_t count)
{
	return ((size_t)count / 64 + 1) * sizeof(uint64_t);
}

int sim_extents_init(struct sim_extents *extents, uint32_t count, uint32_t page)
{
	*extents = (struct sim_extents){.count = count, .page = page};
	extents->units = reserve(unit_bytes(count));
	extents->starts = reserve(start_bytes(count));
	if (!extents->units || !extents->starts)
		return -ENOMEM;
	for (unsigned i = 0; i < SIM_EXTENT_BINS; i++)
		extents->first[i] = SIM_NO_UNIT;
	return 0;
}

void sim_extents_fini(struct sim_extents *extents)
{
	if (extents->units)
		munmap(extents->units, unit_bytes(extents->count));
	if (extents->starts)
		munmap(extents->starts, start_bytes(extents->count));
	extents->units = NULL;
	extents->starts = NULL;
}

static void mark(struct sim_extents *extents, uint32_t unit, uint32_t length, bool used)
{
	extents->units[unit].length = length;
	extents->units[unit].used = used;
	extents->units[unit + length - 1].length = length;
	extents->units[unit + length - 1].used = used;
	extents->starts[unit / 64] |= (uint64_t)1 << (unit % 64);
}

static void unmark_start(struct sim_extents *extents, uint32_t unit)
{
	extents->starts[unit / 64] &= ~((uint64_t)1 << (unit % 64));
}

static void put(struct sim_extents *extents, uint32_t unit, uint32_t length)
{
	unsigned bin = bin_of(length);
	uint32_t head = extents->first[bin];

	mark(extents, unit, length, false);
	extents->units[unit].u.link.next = head;
	extents->units[unit].u.link.prev = SIM_NO_UNIT;
	if (head != SIM_NO_UNIT)
		extents->units[head].u.link.prev = unit;
	extents->first[bin] = unit;
	extents->full[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void unlink_run(struct sim_extents *extents, uint32_t unit)
{
	struct sim_extent *run = &extents->units[unit];
	unsigned bin = bin_of(run->length);
	uint32_t next = run->u.link.next;
	uint32_t prev = run->u.link.prev;

	if (next != SIM_NO_UNIT)
		extents->units[next].u.link.prev = prev;
	if (prev != SIM_NO_UNIT)
		extents->units[prev].u.link.next = next;
	else
		extents->first[bin] = next;
	if (extents->first[bin] == SIM_NO_UNIT)
		extents->full[bin / 64] &= ~((uint64_t)1 << (bin % 64));
}

void sim_extents_add(struct sim_extents *extents, uint32_t unit, uint32_t length)
{
	put(extents, unit, length);
}

void sim_extents_remove(struct sim_extents *extents, uint32_t unit)
{
	uint32_t length = extents->units[unit].length;

	unlink_run(extents, unit);
	mark(extents, unit, length, true);
	extents->units[unit].u.owner = NULL;
}

static uint32_t find(const struct sim_extents *extents, uint32_t length)
{
	unsigned bin = bin_above(length);
	unsigned word = bin / 64;
	uint64_t bits;

	if (bin >= SIM_EXTENT_BINS)
		return SIM_NO_UNIT;
	bits = extents->full[word] & (~(uint64_t)0 << (bin % 64));
	while (!bits && ++word < SIM_EXTENT_BINS / 64)
		bits = extents->full[word];
	return bits ? extents->first[word * 64 + (unsigned)__builtin_ctzll(bits)] : SIM_NO_UNIT;
}

uint32_t sim_extents_alloc(struct sim_extents *extents, uint32_t length, void *owner)
{
	uint32_t unit = find(extents, length);
	uint32_t rest;

	if (unit == SIM_NO_UNIT)
		return SIM_NO_UNIT;
	rest = extents->units[unit].length - length;
	unlink_run(extents, unit);
	mark(extents, unit, length, true);
	extents->units[unit].u.owner = owner;
	if (rest)
		put(extents, unit + length, rest);
	return unit;
}

static bool may_join(const struct sim_extents *extents, uint32_t unit)
{
	return unit > 0 && unit < extents->count && !(extents->page && unit % extents->page == 0);
}

uint32_t sim_extents_free(struct sim_extents *extents, uint32_t unit, uint32_t *ret_length)
{
	uint32_t length = extents->units[unit].length;
	uint32_t next = unit + length;

	if (may_join(extents, next) && extents->units[next].length && !extents->units[next].used) {
		unlink_run(extents, next);
		unmark_start(extents, next);
		length += extents->units[next].length;
	}
	if (may_join(extents, unit) && extents->units[unit - 1].length &&
	    !extents->units[unit - 1].used) {
		uint32_t prev = unit - extents->units[unit - 1].length;

		unlink_run(extents, prev);
		unmark_start(extents, unit);
		length += extents->units[prev].length;
		unit = prev;
	}
	put(extents, unit, length);
	*ret_length = length;
	return unit;
}

void *sim_extents_owner(const struct sim_extents *extents, uint32_t unit)
{
	uint32_t word = unit / 64;
	uint32_t last = extents->page ? unit / extents->page * extents->page / 64 : 0;
	uint64_t bits = extents->starts[word] & (~(uint64_t)0 >> (63 - unit % 64));
	uint32_t head;

	while (!bits) {
		if (word == last)
			return NULL;
		bits = extents->starts[--word];
	}
	head = word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
	if (!extents->units[head].used || unit >= head + extents->units[head].length)
		return NULL;
	return extents->units[head].u.owner;
}
