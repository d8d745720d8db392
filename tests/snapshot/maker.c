/* SPDX-License-Identifier: MIT */
/*
 * Makes a region whose every event, block and stack is known:
 *
 *   maker DIR [EVENTS BLOCKS [STACKS] | shards COUNT]
 *
 * A small solver is played on two devices and pinned memory: weights that stay, activations that
 * come and go, a buffer that is forgotten in each step, a request that fails. The stacks are this
 * program's own, with an inlined function and Python frames among them; its modules are in the map.
 * With EVENTS and BLOCKS the first device has so many, for measurements; with STACKS they come from
 * so many stacks, with sizes and lifetimes as those of a training. With "shards" the first device
 * has several segments, and COUNT shards, 1 or 2. Prints the path of the region.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "stats/region.h"
#include "tests/snapshot/scene.h"
#include "tests/split_device.h"

#define STEPS 6

static struct place place[3];

/* In the optimized build it is there only in its caller. */
static inline __attribute__((always_inline)) struct cm_block *inlined_get(uint64_t bytes)
{
	return cuda_get(&place[0], bytes);
}

__attribute__((noinline)) static void load_weights(void)
{
	int i;

	for (i = 0; i < 4; i++)
		(void)cuda_get(&place[0], (8 + (uint64_t)i) * MIB);
}

__attribute__((noinline)) static void solver_step(int step)
{
	struct cm_block *activation, *scratch;

	scene.annotation = add_text(step % 2 ? "odd step" : "even step");
	activation = inlined_get((uint64_t)(step + 1) * MIB);
	scratch = cuda_get(&place[0], 300 * KIB);
	put(&place[0], scratch, true);
	put(&place[0], activation, step < STEPS - 1);
	(void)cuda_get(&place[0], 100000 + (uint64_t)step);
	scene.annotation = 0;
}

__attribute__((noinline)) static void fail_for_memory(void)
{
	note(&place[0], CM_ACTION_OOM, 3 * GIB, 90 * GIB, capture());
	scene.heap = 1;
	note(&place[1], CM_ACTION_OOM, CM_FREE_UNKNOWN, 91 * GIB, capture());
	cm_counters_count(device_row(0), CM_SCALAR_num_ooms, 1);
	cm_counters_count(device_row(1), CM_SCALAR_num_ooms, 1);
}

static void play(void)
{
	int step;

	open_place(&place[0], 0, UINT64_C(0x7f0000000000), 128 * MIB, 0);
	scene.heap = 1;
	open_place(&place[1], 1, UINT64_C(0x7f8000000000), 2 * MIB, CM_SEGMENT_SMALL);
	scene.heap = 0;
	open_place(&place[2], CM_DEVICE_NONE, UINT64_C(0x7e0000000000), 4 * MIB, CM_SEGMENT_HOST);
	load_weights();
	scene.heap = 1;
	(void)cuda_get(&place[1], 1000);
	scene.heap = 0;
	(void)cuda_get(&place[2], 4 * MIB);
	for (step = 0; step < STEPS; step++)
		solver_step(step);
	scene.heap = 2;
	fail_for_memory();
	scene.heap = 0;
}

__attribute__((noinline)) static void play_many(uint64_t events, uint64_t blocks)
{
	struct cm_block *block;
	uint64_t i;

	scene.plain = true;
	open_place(&place[0], 0, UINT64_C(0x7f0000000000), 512 * GIB, 0);
	for (i = 0; i < blocks; i++)
		(void)cuda_get(&place[0], 512 + i % 60000);
	block = cuda_get(&place[0], MIB);
	for (i = blocks + 2; i + 3 <= events; i += 3) {
		note(&place[0], CM_ACTION_FREE_REQUESTED, block->addr, MIB, 0);
		note(&place[0], CM_ACTION_FREE_COMPLETED, block->addr, MIB, 0);
		note(&place[0], CM_ACTION_ALLOC, block->addr, MIB, 0);
	}
}

static void change_outside(enum cm_action action, uint64_t addr, uint64_t size)
{
	struct cm_stat4 *bytes = &device_row(0)->other_bytes[CM_UNCACHED_ASYNC];
	struct cm_stat4 *count = &device_row(0)->other_count[CM_UNCACHED_ASYNC];

	note(&place[0], action, addr, size, 0);
	if (action == CM_ACTION_OUTSIDE_ALLOC) {
		cm_stat4_raise(bytes, (int64_t)size);
		cm_stat4_raise(count, 1);
	} else {
		cm_stat4_lower(bytes, (int64_t)size);
		cm_stat4_lower(count, 1);
	}
}

/* Memory in the cache and outside, alternating. The first of that has no event unless it is
 * `whole`. */
static void play_outside(bool whole)
{
	const uint64_t addr = UINT64_C(0x7e0000000000);

	cm_stat4_raise(&device_row(0)->other_bytes[CM_UNCACHED_ASYNC], 5 * MIB);
	cm_stat4_raise(&device_row(0)->other_count[CM_UNCACHED_ASYNC], 1);
	open_place(&place[0], 0, UINT64_C(0x7f0000000000), 64 * MIB, 0);
	if (whole)
		note(&place[0], CM_ACTION_OUTSIDE_ALLOC, addr - GIB, 5 * MIB, 0);
	(void)cuda_get(&place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_ALLOC, addr, 16 * MIB);
	(void)cuda_get(&place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_ALLOC, addr + GIB, 4 * MIB);
	(void)cuda_get(&place[0], 8 * MIB);
	change_outside(CM_ACTION_OUTSIDE_FREE, addr, 16 * MIB);
	(void)cuda_get(&place[0], 8 * MIB);
}

/* A stack of Python frames: layer<n> < forward < main. */
static uint32_t busy_stack(uint32_t n)
{
	char text[64];
	uint64_t *word;
	uint32_t id = scene.words, name, i;

	(void)row_at(CM_TABLE_STACK, id + 3);
	word = cm_region_row(scene.region, CM_TABLE_STACK, id);
	word[0] = cm_stack_word(3, 0, 0);
	for (i = 0; i < 3; i++) {
		if (i)
			(void)snprintf(text, sizeof(text), "%s\nmodel.py",
				       i == 1 ? "forward" : "main");
		else
			(void)snprintf(text, sizeof(text), "layer%u\nmodel.py", (unsigned)n);
		name = add_text(text);
		word = cm_region_row(scene.region, CM_TABLE_STACK, id);
		word[1 + i] = cm_frame_python(100 * i + n, name);
	}
	scene.words += 4;
	scene.region->header->record.stack_words = scene.words;
	scene.region->header->record.stack_count++;
	return id;
}

/* Two segments side by side, with everything that happens to one, and memory outside the cache. */
static void play_shards(void)
{
	const uint64_t outside = UINT64_C(0x7e0000000000);
	struct cm_block *block, *other;
	uint32_t i;

	scene.plain = true;
	scene.stack = busy_stack(1);
	open_place(&place[0], 0, UINT64_C(0x7f0000000000), 64 * MIB, 0);
	scene.stack = busy_stack(2);
	scene.heap = 2;
	open_place(&place[1], 0, UINT64_C(0x7f8000000000), 64 * MIB, 0);
	for (i = 0; i < 40; i++) {
		scene.stack = busy_stack(3 + i % 4);
		scene.annotation = add_text(i % 2 ? "odd step" : "even step");
		scene.heap = 0;
		block = cuda_get(&place[0], (1 + i % 3) * 100 * KIB);
		scene.heap = 2;
		other = cuda_get(&place[1], (1 + i % 5) * 200 * KIB);
		if (i % 4)
			put(&place[1], other, i % 8 != 1);
		scene.heap = 0;
		if (i % 3)
			put(&place[0], block, i < 30);
		if (i % 10 == 4)
			change_outside(CM_ACTION_OUTSIDE_ALLOC, outside + i * GIB, i * MIB);
		if (i % 20 == 19)
			change_outside(CM_ACTION_OUTSIDE_FREE, outside + (i - 5) * GIB,
				       (i - 5) * MIB);
	}
	note(&place[0], CM_ACTION_OOM, GIB, 90 * GIB, scene.stack);
	note(&place[0], CM_ACTION_OOM, CM_FREE_UNKNOWN, 91 * GIB, scene.stack);
	cm_counters_count(device_row(0), CM_SCALAR_num_ooms, 2);
	scene.annotation = 0;
}

#define SLOT (64 * MIB)

/* Slots of 64 MiB, filled and emptied by a fixed sequence of numbers that look random. */
static void play_busy(uint64_t events, uint64_t slots, uint32_t stacks)
{
	struct {
		uint64_t size;
		uint32_t stack;
	} *slot = calloc(slots, sizeof(*slot));
	uint32_t *stack = calloc(stacks, sizeof(*stack));
	uint64_t i, seed = 1, n, addr;
	struct cm_block *block;

	if (!slot || !stack)
		fail("no memory");
	for (i = 0; i < stacks; i++)
		stack[i] = busy_stack((uint32_t)i);
	open_place(&place[0], 0, UINT64_C(0x7f0000000000), slots * SLOT, 0);
	for (i = 0; i + 3 < events;) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		n = (seed >> 33) % slots;
		addr = UINT64_C(0x7f0000000000) + n * SLOT;
		if (slot[n].size) {
			note(&place[0], CM_ACTION_FREE_REQUESTED, addr, slot[n].size,
			     slot[n].stack);
			note(&place[0], CM_ACTION_FREE_COMPLETED, addr, slot[n].size,
			     slot[n].stack);
			slot[n].size = 0;
			i += 2;
			continue;
		}
		/* Every 16th slot holds its memory, as weights do: up to 32 MiB, else up to 512
		 * KiB. */
		slot[n].size = 512 * (1 + (seed >> 40) % (n % 16 ? 1024 : 65536));
		slot[n].stack = stack[(n + seed / 3) % stacks];
		note(&place[0], CM_ACTION_ALLOC, addr, slot[n].size, slot[n].stack);
		i++;
	}
	for (n = 0; n < slots; n++) {
		if (slot[n].size) {
			block = append(&place[0], slot[n].size);
			block->requested = slot[n].size;
			block->state = CM_BLOCK_LIVE;
			block->stack = slot[n].stack;
			block->tick = scene.tick;
			cm_counters_alloc(device_row(0), CM_POOL_LARGE, (int64_t)slot[n].size,
					  (int64_t)slot[n].size);
		}
		if (slot[n].size < SLOT)
			append(&place[0], SLOT - slot[n].size)->state = CM_BLOCK_FREE;
	}
	free(slot);
	free(stack);
}

int main(int argc, char **argv)
{
	const bool shards = argc > 3 && !strcmp(argv[2], "shards");
	const bool many = argc > 3 && !shards;
	const uint64_t events = many ? strtoull(argv[2], NULL, 10) : 4096;
	const struct cm_region_params params = {
		.dir = argc > 1 ? argv[1] : ".", .version = CM_VERSION, .events = (uint32_t)events};

	begin(&params);
	if (many && argc > 4)
		play_busy(events, strtoull(argv[3], NULL, 10), (uint32_t)atoi(argv[4]));
	else if (shards)
		play_shards();
	else if (many)
		play_many(events, strtoull(argv[3], NULL, 10));
	else if (argc > 2)
		play_outside(!strcmp(argv[2], "whole"));
	else
		play();
	add_modules();
	close_place(&place[0]);
	if (!many)
		close_place(&place[1]);
	if (shards && atoi(argv[3]) > 1 && !split_device(scene.region))
		fail("no space");
	finish(params.dir);
	return 0;
}
