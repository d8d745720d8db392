/* SPDX-License-Identifier: MIT */
#include "bare.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocator/base/bins.h"
#include "allocator/base/page_map.h"

/* As much as no workload has live at a time, and as many pieces. */
#define RANGE_BYTES (UINT64_C(1) << 40)
#define ROWS_MAX    (1u << 20)
/* No memory stands there; 0 would be a failure. */
#define RANGE_ADDR (UINT64_C(1) << 40)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_block *block;
static struct cm_bins bins;
static struct cm_page_map map;
static uint32_t rows = 1, spare; /* row 0 means none */

static uint32_t take_row(void)
{
	uint32_t index = spare;

	if (index)
		spare = block[index].link_next;
	else if (rows < ROWS_MAX)
		index = rows++;
	return index;
}

static void give_row(uint32_t index)
{
	block[index].state = CM_BLOCK_NONE;
	block[index].link_next = spare;
	spare = index;
}

int bare_open(void)
{
	uint32_t all;

	block = calloc(ROWS_MAX, sizeof(*block));
	if (!block || cm_page_map_init(&map, block) ||
	    cm_page_map_add(&map, RANGE_ADDR, RANGE_BYTES, 0, true)) {
		fprintf(stderr, "bench: no memory\n");
		return -1;
	}
	cm_bins_init(&bins, block);
	all = take_row();
	block[all].addr = RANGE_ADDR;
	block[all].size = RANGE_BYTES;
	block[all].state = CM_BLOCK_FREE;
	cm_bins_insert(&bins, all);
	return 0;
}

/* What lies behind the first `size` bytes becomes a free block of its own. */
static void split(uint32_t index, uint64_t size)
{
	uint32_t rest = take_row(), next = block[index].next;

	if (!rest)
		return;
	block[rest].addr = block[index].addr + size;
	block[rest].size = block[index].size - size;
	block[rest].prev = index;
	block[rest].next = next;
	block[rest].state = CM_BLOCK_FREE;
	if (next)
		block[next].prev = rest;
	block[index].next = rest;
	block[index].size = size;
	cm_bins_insert(&bins, rest);
}

static void *take(uint64_t size)
{
	uint32_t index = cm_bins_find(&bins, size).index;

	if (!index)
		return NULL;
	cm_bins_remove(&bins, index);
	if (block[index].size > size)
		split(index, size);
	block[index].state = CM_BLOCK_LIVE;
	cm_page_map_enter(&map, block[index].addr, index);
	return (void *)(uintptr_t)block[index].addr;
}

/* The second block goes into the first, which is before it. */
static void join(uint32_t first, uint32_t second)
{
	uint32_t next = block[second].next;

	block[first].size += block[second].size;
	block[first].next = next;
	if (next)
		block[next].prev = first;
	give_row(second);
}

static void give(uint64_t addr)
{
	uint32_t index = cm_page_map_find(&map, 0, addr), left, right;

	if (!index)
		return;
	left = block[index].prev;
	right = block[index].next;
	if (block[right].state == CM_BLOCK_FREE) {
		cm_bins_remove(&bins, right);
		join(index, right);
	}
	if (block[left].state == CM_BLOCK_FREE) {
		cm_bins_remove(&bins, left);
		join(left, index);
		index = left;
	}
	block[index].state = CM_BLOCK_FREE;
	cm_bins_insert(&bins, index);
}

void *bare_alloc(size_t bytes, unsigned stream)
{
	void *got;

	(void)stream;
	(void)pthread_mutex_lock(&lock);
	got = take(cm_size_grains(bytes));
	(void)pthread_mutex_unlock(&lock);
	return got;
}

void bare_free(void *block_addr)
{
	(void)pthread_mutex_lock(&lock);
	give((uint64_t)(uintptr_t)block_addr);
	(void)pthread_mutex_unlock(&lock);
}
