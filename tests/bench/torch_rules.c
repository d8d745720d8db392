/* SPDX-License-Identifier: MIT */
#include "torch_rules.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define MIB             ((uint64_t)1 << 20)
#define GRAIN           512
#define SMALL_MAX       MIB        /* rounded requests up to this are of the small pool */
#define SMALL_SEGMENT   (2 * MIB)  /* which takes so much at a time */
#define MEDIUM_BELOW    (10 * MIB) /* requests below this share segments */
#define MEDIUM_SEGMENT  (20 * MIB) /* of this size; others have their own */
#define SEGMENT_GRAIN   (2 * MIB)  /* rounded up to this */
#define LARGE_REMAINDER MIB        /* a remainder in the large pool must be more than this */

/* A piece of a segment. Free ones are on their pool's list. */
struct piece {
	CUdeviceptr addr;
	uint64_t size;
	unsigned stream;
	bool small;
	bool used;
	struct piece *before, *after; /* in the segment */
	struct piece *prev, *next;    /* in the list */
};

static struct piece *pools[2];

static struct piece **pool_of(const struct piece *piece)
{
	return &pools[piece->small];
}

static void put(struct piece *piece)
{
	struct piece **pool = pool_of(piece);

	piece->used = false;
	piece->prev = NULL;
	piece->next = *pool;
	if (*pool)
		(*pool)->prev = piece;
	*pool = piece;
}

static void take(struct piece *piece)
{
	if (piece->prev)
		piece->prev->next = piece->next;
	else
		*pool_of(piece) = piece->next;
	if (piece->next)
		piece->next->prev = piece->prev;
	piece->used = true;
}

/* The smallest that is large enough; of equal ones that at the lowest address. */
static struct piece *find(bool small, unsigned stream, uint64_t size)
{
	struct piece *best = NULL, *at;

	for (at = pools[small]; at; at = at->next) {
		if (at->stream != stream || at->size < size)
			continue;
		if (!best || at->size < best->size ||
		    (at->size == best->size && at->addr < best->addr))
			best = at;
	}
	return best;
}

static uint64_t segment_size(uint64_t size)
{
	if (size <= SMALL_MAX)
		return SMALL_SEGMENT;
	if (size < MEDIUM_BELOW)
		return MEDIUM_SEGMENT;
	return (size + SEGMENT_GRAIN - 1) / SEGMENT_GRAIN * SEGMENT_GRAIN;
}

void torch_rules_release(void)
{
	struct piece *at, *next;
	size_t i;

	for (i = 0; i < 2; i++) {
		for (at = pools[i]; at; at = next) {
			next = at->next;
			if (at->before || at->after)
				continue;
			take(at);
			(void)cuMemFree(at->addr);
			free(at);
		}
	}
}

static struct piece *add_segment(uint64_t size, unsigned stream)
{
	struct piece *piece = malloc(sizeof(*piece));
	uint64_t bytes = segment_size(size);
	CUdeviceptr addr;

	if (!piece)
		return NULL;
	if (cuMemAlloc(&addr, bytes) != CUDA_SUCCESS) {
		torch_rules_release();
		if (cuMemAlloc(&addr, bytes) != CUDA_SUCCESS) {
			free(piece);
			return NULL;
		}
	}
	*piece = (struct piece){
		.addr = addr, .size = bytes, .stream = stream, .small = size <= SMALL_MAX};
	put(piece);
	return piece;
}

static void split(struct piece *piece, uint64_t size)
{
	struct piece *rest = malloc(sizeof(*rest));

	if (!rest)
		return;
	*rest = *piece;
	rest->addr += size;
	rest->size -= size;
	rest->before = piece;
	if (rest->after)
		rest->after->before = rest;
	piece->after = rest;
	piece->size = size;
	put(rest);
}

void *torch_rules_alloc(size_t bytes, unsigned stream)
{
	uint64_t size = (bytes + GRAIN - 1) / GRAIN * GRAIN, remainder;
	bool small = size <= SMALL_MAX;
	struct piece *piece = find(small, stream, size);

	if (!piece)
		piece = add_segment(size, stream);
	if (!piece)
		return NULL;
	take(piece);
	remainder = piece->size - size;
	if (small ? remainder >= GRAIN : remainder > LARGE_REMAINDER)
		split(piece, size);
	return piece;
}

/* Joins a free piece to the one before it. */
static void join(struct piece *left, struct piece *right)
{
	left->size += right->size;
	left->after = right->after;
	if (right->after)
		right->after->before = left;
	free(right);
}

void torch_rules_free(void *block)
{
	struct piece *piece = block, *other = piece->before;

	if (other && !other->used) {
		take(other);
		join(other, piece);
		piece = other;
	}
	other = piece->after;
	if (other && !other->used) {
		take(other);
		join(piece, other);
	}
	put(piece);
}
