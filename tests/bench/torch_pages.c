/* SPDX-License-Identifier: MIT */
#include "torch_pages.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define MIB        ((uint64_t)1 << 20)
#define GRAIN      512
#define SMALL_MAX  MIB
#define SMALL_PAGE (2 * MIB)
#define LARGE_PAGE (20 * MIB)

/* What is unmapped consists of whole pages. No two neighbours are both free, or both unmapped. */
enum state { FREE, UNMAPPED, USED };

struct piece {
	struct range *range;
	uint64_t addr;
	uint64_t size;
	enum state state;
	struct piece *before, *after; /* in the range */
	struct piece *prev, *next;    /* in the list of all that are free, or unmapped */
};

struct range {
	uint64_t addr;
	uint64_t size;
	uint64_t page;
	unsigned stream;
	bool small;
	struct piece *first;
	CUmemGenericAllocationHandle *handle; /* of each page, 0: unmapped */
	struct range *next;                   /* by rising address */
};

static struct range *ranges;
static struct piece *lists[USED]; /* by state */

/* --- ranges and pieces ---------------------------------------------------------------------- */

static void take(struct piece *piece)
{
	if (piece->prev)
		piece->prev->next = piece->next;
	else
		lists[piece->state] = piece->next;
	if (piece->next)
		piece->next->prev = piece->prev;
	piece->state = USED;
}

/* Into the list of that state; the piece is in none. */
static void put(struct piece *piece, enum state state)
{
	piece->state = state;
	piece->prev = NULL;
	piece->next = lists[state];
	if (piece->next)
		piece->next->prev = piece;
	lists[state] = piece;
}

static struct range *add_range(bool small, unsigned stream)
{
	struct range *range = calloc(1, sizeof(*range)), **last = &ranges;
	size_t room, total;
	CUdeviceptr addr;

	if (!range || cuMemGetInfo(&room, &total) != CUDA_SUCCESS)
		goto err_range;
	range->page = small ? SMALL_PAGE : LARGE_PAGE;
	range->size = (total + total / 8 + range->page - 1) / range->page * range->page;
	range->handle = calloc(range->size / range->page, sizeof(*range->handle));
	range->first = malloc(sizeof(*range->first));
	if (!range->handle || !range->first ||
	    cuMemAddressReserve(&addr, range->size, 0, 0, 0) != CUDA_SUCCESS)
		goto err_range;
	range->addr = addr;
	range->small = small;
	range->stream = stream;
	*range->first = (struct piece){.range = range, .addr = addr, .size = range->size};
	put(range->first, UNMAPPED);
	while (*last)
		last = &(*last)->next;
	*last = range;
	return range;
err_range:
	if (range) {
		free(range->handle);
		free(range->first);
	}
	free(range);
	return NULL;
}

static void remove_range(struct range *range)
{
	struct range **at = &ranges;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	take(range->first);
	(void)cuMemAddressFree(range->addr, range->size);
	free(range->handle);
	free(range->first);
	free(range);
}

/* The second of two neighbours, which is in no list, goes into the first. */
static void join(struct piece *left, struct piece *right)
{
	left->size += right->size;
	left->after = right->after;
	if (right->after)
		right->after->before = left;
	free(right);
}

/* Makes a piece that is in no list free or unmapped, with its neighbours of that state; what it is
 * part of then. */
static struct piece *settle(struct piece *piece, enum state state)
{
	struct piece *before = piece->before, *after = piece->after;

	if (after && after->state == state) {
		take(after);
		join(piece, after);
	}
	if (before && before->state == state) {
		take(before);
		join(before, piece);
		piece = before;
	}
	put(piece, state);
	return piece;
}

/* What is behind the first `size` bytes of a piece that is in no list becomes one of its own, of
 * that state. False: no memory. */
static bool split(struct piece *piece, uint64_t size, enum state state)
{
	struct piece *rest = piece->size > size ? malloc(sizeof(*rest)) : NULL;

	if (!rest)
		return piece->size == size;
	*rest = *piece;
	rest->addr += size;
	rest->size -= size;
	rest->before = piece;
	if (rest->after)
		rest->after->before = rest;
	piece->after = rest;
	piece->size = size;
	if (state != USED)
		put(rest, state);
	return true;
}

/* --- pages ---------------------------------------------------------------------------------- */

static void unmap_pages(struct range *range, uint64_t from, uint64_t to)
{
	for (; from < to; from++) {
		(void)cuMemUnmap(range->addr + from * range->page, range->page);
		(void)cuMemRelease(range->handle[from]);
		range->handle[from] = 0;
	}
}

/* All of them or none. */
static bool map_pages(struct range *range, uint64_t from, uint64_t to)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = access.location};
	uint64_t at;

	for (at = from; at < to; at++) {
		if (cuMemCreate(&range->handle[at], range->page, &prop, 0) == CUDA_SUCCESS)
			continue;
		while (at-- > from) {
			(void)cuMemRelease(range->handle[at]);
			range->handle[at] = 0;
		}
		return false;
	}
	for (at = from; at < to; at++)
		(void)cuMemMap(range->addr + at * range->page, range->page, 0, range->handle[at],
			       0);
	(void)cuMemSetAccess(range->addr + from * range->page, (to - from) * range->page, &access,
			     1);
	return true;
}

/* Maps the first pages of what is unmapped, as many as `size` bytes want; the free piece that they
 * are in then, or NULL. */
static struct piece *map(struct piece *piece, uint64_t size)
{
	struct range *range = piece->range;
	uint64_t from = (piece->addr - range->addr) / range->page;
	uint64_t pages = (size + range->page - 1) / range->page;

	if (!map_pages(range, from, from + pages))
		return NULL;
	take(piece);
	if (!split(piece, pages * range->page, UNMAPPED)) {
		unmap_pages(range, from, from + pages);
		put(piece, UNMAPPED);
		return NULL;
	}
	return settle(piece, FREE);
}

/* Of a free piece, the pages that are wholly in it. */
static void unmap(struct piece *piece)
{
	struct range *range = piece->range;
	uint64_t from = (piece->addr - range->addr + range->page - 1) / range->page;
	uint64_t to = (piece->addr + piece->size - range->addr) / range->page;
	uint64_t start = range->addr + from * range->page;

	if (from >= to)
		return;
	take(piece);
	if (start > piece->addr) {
		if (!split(piece, start - piece->addr, USED)) {
			put(piece, FREE);
			return;
		}
		put(piece, FREE);
		piece = piece->after;
	}
	if (!split(piece, (to - from) * range->page, FREE)) {
		put(piece, FREE);
		return;
	}
	unmap_pages(range, from, to);
	(void)settle(piece, UNMAPPED);
}

void torch_pages_release(void)
{
	struct piece *piece, *following;
	struct range *range, *next;

	/* What remains of a piece goes to the front of the list, behind which the walk is. */
	for (piece = lists[FREE]; piece; piece = following) {
		following = piece->next;
		unmap(piece);
	}
	for (range = ranges; range; range = next) {
		next = range->next;
		if (range->first->state == UNMAPPED && !range->first->after)
			remove_range(range);
	}
}

/* --- requests ------------------------------------------------------------------------------- */

/* What fits best: the size counts together with what is unmapped behind it, so that the range does
 * not grow in the middle. The walk is by size, and ends where that sum no longer falls. */
static uint64_t reach(const struct piece *piece)
{
	return piece->size +
	       (piece->after && piece->after->state == UNMAPPED ? piece->after->size : 0);
}

/* The smallest free piece behind `last` in the order of sizes, then addresses. */
static struct piece *next_free(bool small, unsigned stream, uint64_t size, const struct piece *last)
{
	struct piece *best = NULL, *at;

	for (at = lists[FREE]; at; at = at->next) {
		if (at->size < size || at->range->small != small || at->range->stream != stream)
			continue;
		if (last &&
		    (at->size < last->size || (at->size == last->size && at->addr <= last->addr)))
			continue;
		if (!best || at->size < best->size ||
		    (at->size == best->size && at->addr < best->addr))
			best = at;
	}
	return best;
}

static struct piece *find(bool small, unsigned stream, uint64_t size)
{
	struct piece *best = next_free(small, stream, size, NULL), *next;

	while (best && reach(best) > best->size) {
		next = next_free(small, stream, size, best);
		if (!next || reach(next) >= reach(best))
			break;
		best = next;
	}
	return best;
}

/* The first place where free and unmapped pieces in a row are long enough: where it begins. */
static struct piece *find_place(bool small, unsigned stream, uint64_t size)
{
	struct piece *at, *start, *end, *best = NULL;
	struct range *range;
	uint64_t bytes;

	for (at = lists[UNMAPPED]; at; at = at->next) {
		if (at->range->small != small || at->range->stream != stream)
			continue;
		start = at->before && at->before->state == FREE ? at->before : at;
		bytes = 0;
		for (end = start; end && end->state != USED; end = end->after)
			bytes += end->size;
		if (bytes >= size && (!best || start->addr < best->addr))
			best = start;
	}
	if (best)
		return best;
	range = add_range(small, stream);
	return range && range->size >= size ? range->first : NULL;
}

/* A free piece of at least so many bytes, of new pages as far as need be; NULL: no memory. */
static struct piece *add_pages(bool small, unsigned stream, uint64_t size)
{
	struct piece *piece = find_place(small, stream, size), *next;
	uint64_t missing;

	if (!piece)
		return NULL;
	if (piece->state == UNMAPPED)
		piece = map(piece, size < piece->size ? size : piece->size);
	while (piece && piece->size < size) {
		next = piece->after;
		missing = size - piece->size;
		piece = map(next, missing < next->size ? missing : next->size);
	}
	return piece;
}

void *torch_pages_alloc(size_t bytes, unsigned stream)
{
	uint64_t size = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	bool small = size <= SMALL_MAX;
	struct piece *piece = find(small, stream, size);

	if (!piece)
		piece = add_pages(small, stream, size);
	if (!piece) {
		torch_pages_release();
		piece = add_pages(small, stream, size);
	}
	if (!piece)
		return NULL;
	take(piece);
	(void)split(piece, size, FREE);
	return piece;
}

void torch_pages_free(void *block)
{
	(void)settle(block, FREE);
}
