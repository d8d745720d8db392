/* SPDX-License-Identifier: MIT */
/*
 * The memory of a made-up process: a region with blocks, segments, counters and events as the
 * library writes them, without a device. All invariants of a region hold.
 *
 * One thread; the counters change under the device's sequence lock, as readers expect.
 */
#ifndef CM_TOOLS_DEMO_HEAP_H
#define CM_TOOLS_DEMO_HEAP_H

#include <stdatomic.h>

#include "stats/intern.h"
#include "stats/region.h"

#define CM_DEMO_BLOCKS   4096
#define CM_DEMO_SEGMENTS 1024
#define CM_DEMO_FRAMES   8

/* A card, which several processes share. */
struct cm_demo_card {
	_Atomic int64_t used; /* bytes that segments of all processes take */
	int64_t total;
	int64_t others; /* bytes of contexts and programs without the library */
};

struct cm_demo_heap {
	struct cm_region *region;
	struct cm_device_row *row;
	struct cm_demo_card *card;
	struct cm_intern_table texts, stacks;
	uint32_t blocks; /* rows of the tables that were ever used */
	uint32_t segments;
	uint32_t spare_blocks[CM_DEMO_BLOCKS]; /* of these, the free ones */
	uint32_t spare_count;
	uint64_t next_addr; /* of the next segment */
};

/* A frame of a stack: where the program was. */
struct cm_demo_frame {
	const char *function;
	const char *file;
	uint32_t line;
};

/*
 * Makes the region of this process in `dir` (NULL: the usual folder), with one card. 0 or a
 * negative errno.
 */
int cm_demo_heap_init(struct cm_demo_heap *heap, const char *dir, struct cm_demo_card *card,
		      uint32_t card_number, const char *command);

/* The id of a stack, innermost frame first; 0: no space. */
uint32_t cm_demo_heap_stack(struct cm_demo_heap *heap, const struct cm_demo_frame *frames,
			    size_t count);

/* Allocates. The block's row; 0: out of memory, which is counted and recorded. */
uint32_t cm_demo_heap_alloc(struct cm_demo_heap *heap, int64_t bytes, uint32_t stack);
/* Frees a block that was allocated: it is pending until cm_demo_heap_poll. */
void cm_demo_heap_free(struct cm_demo_heap *heap, uint32_t block);
/* The work before the frees has ended: pending blocks are ready. */
void cm_demo_heap_poll(struct cm_demo_heap *heap);
/* Returns the segments without a live block. Bytes returned. */
int64_t cm_demo_heap_trim(struct cm_demo_heap *heap);
/* Counts requests whose memory was freed since; no block changes. */
void cm_demo_heap_count_traffic(struct cm_demo_heap *heap, int64_t requests);

/* Answers a command of a tool; waits so long for one. */
void cm_demo_heap_serve(struct cm_demo_heap *heap, int timeout_ms);

#endif
