/* SPDX-License-Identifier: MIT */
/*
 * A card and its driver, as far as the memory of an allocator is concerned: what is taken of the
 * card, what the driver's calls take, and when work is over. The card allocates chunks of 2 MiB;
 * requests below 1 MiB share them in units of 512 bytes. Time is virtual: calls take what is
 * planned, a queue of work for each context runs beside the host, who may be so many pieces ahead.
 * It trusts its caller: whether allocators are right the proof suites ask.
 *
 * One card at a time, one thread.
 */
#ifndef CM_BENCH_ENSEMBLE_CARD_H
#define CM_BENCH_ENSEMBLE_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/ops.h"

#define CARD_CHUNK        UINT64_C(0x200000)
#define CARD_CONTEXTS_MAX 4

enum card_call {
	CARD_ALLOC,
	CARD_FREE,
	CARD_CREATE, /* memory without an address, and the end of it */
	CARD_RELEASE,
	CARD_MAP,
	CARD_UNMAP,
	CARD_ACCESS,
	CARD_RECORD, /* an event of a context, a barrier, a question */
	CARD_WAIT,
	CARD_QUERY,
	CARD_SYNC, /* the host waits */
	CARD_CALLS
};

/* Since card_open, but for the peak. */
struct card_counters {
	uint64_t calls[CARD_CALLS];
	uint64_t ns;   /* that they took, waits apart */
	uint64_t used; /* bytes */
	uint64_t peak; /* since card_reset_peak */
};

void card_open(uint64_t bytes);
void card_close(void);
const struct card_counters *card_counters(void);
void card_reset_peak(void);

/* A piece of work of 10 us behind all before it in the context, every 2 us; the host waits where it
 * would be more than 1000 of them ahead. */
void card_work(uint32_t context);
/* The host waits for all contexts, as a program does by itself: not counted. */
void card_wait(void);

/* 0, or CM_DRIVER_OUT_OF_MEMORY. */
int card_alloc(uint64_t bytes, uint64_t *ret_addr);
/* Waits for the device, as cuMemFree is seen to. */
void card_free(uint64_t addr);

/* All of it as the library's allocator sees it. Contexts are numbers from 1 on there. */
const struct cm_driver_ops *card_ops(void);

#endif
