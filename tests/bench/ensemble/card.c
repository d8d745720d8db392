/* SPDX-License-Identifier: MIT */
#include "card.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_BELOW (CARD_CHUNK / 2)
#define UNIT        512
#define UNITS       (CARD_CHUNK / UNIT)
#define WORDS       (UNITS / 64)

#define ADDRESSES UINT64_C(0x700000000000)
#define RANGES    UINT64_C(0x600000000000)
#define SLOTS     (UINT64_C(1) << 24) /* chunks of reserved addresses */
#define EVENTS    4096

#define WORK_NS 10000
#define HOST_NS 2000 /* until the host submits the next one */
#define AHEAD   1000

/* What the calls of a driver of today take, in ns: orders of magnitude, no more. A wait of the host
 * also takes until the device is done, which is not counted. */
static const uint64_t call_ns[CARD_CALLS] = {
	[CARD_ALLOC] = 15000, [CARD_FREE] = 8000,    [CARD_CREATE] = 20000, [CARD_MAP] = 5000,
	[CARD_UNMAP] = 15000, [CARD_ACCESS] = 15000, [CARD_RECORD] = 1500,  [CARD_WAIT] = 1500,
	[CARD_QUERY] = 700,   [CARD_SYNC] = 1500,
};

/* A chunk that small requests share. */
struct shared {
	uint32_t empty;       /* units */
	uint16_t size[UNITS]; /* of the request that begins there, in units */
	uint64_t taken[WORDS];
};

/* Some chunks with an address, by rising address. */
struct memory {
	uint64_t addr;
	uint64_t bytes;
	struct shared *shared; /* NULL: one request has them all */
};

struct page {
	uint64_t bytes;
	uint32_t users; /* its handle, and each chunk of addresses that it is mapped at */
};

static struct {
	uint64_t bytes;
	struct card_counters counters;
	struct memory *memory;
	size_t memories, memory_room;
	struct page *page;
	size_t pages, page_room;
	uint32_t *mapped; /* the page at each chunk of reserved addresses, from 1 on */
	uint64_t reserved;
	uint64_t now_ns;
	uint64_t done_ns[CARD_CONTEXTS_MAX]; /* when each context's work is over */
	uint64_t event_ns[EVENTS];           /* when what it captured is over */
	bool event_used[EVENTS];
	uint64_t work;
} card;

void card_open(uint64_t bytes)
{
	card.bytes = bytes / CARD_CHUNK * CARD_CHUNK;
	if (!card.mapped)
		card.mapped = mmap(NULL, SLOTS * sizeof(*card.mapped), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (card.mapped == MAP_FAILED)
		abort();
}

/* The tables' memory is kept for the next card. */
void card_close(void)
{
	while (card.memories)
		free(card.memory[--card.memories].shared);
	memset(card.mapped, 0, card.reserved / CARD_CHUNK * sizeof(*card.mapped));
	memset(&card.counters, 0, sizeof(card.counters));
	memset(card.done_ns, 0, sizeof(card.done_ns));
	memset(card.event_used, 0, sizeof(card.event_used));
	card.pages = 0;
	card.reserved = card.now_ns = 0;
}

const struct card_counters *card_counters(void)
{
	return &card.counters;
}

void card_reset_peak(void)
{
	card.counters.peak = card.counters.used;
}

static void count(enum card_call call)
{
	card.counters.calls[call]++;
	card.counters.ns += call_ns[call];
	card.now_ns += call_ns[call];
}

/* --- work ----------------------------------------------------------------------------------- */

void card_work(uint32_t context)
{
	uint64_t *done = &card.done_ns[context];

	card.work++;
	card.now_ns += HOST_NS;
	if (*done < card.now_ns)
		*done = card.now_ns;
	*done += WORK_NS;
	if (*done > card.now_ns + AHEAD * WORK_NS)
		card.now_ns = *done - AHEAD * WORK_NS;
}

static void wait_until(uint64_t ns)
{
	if (card.now_ns < ns)
		card.now_ns = ns;
}

void card_wait(void)
{
	size_t i;

	for (i = 0; i < CARD_CONTEXTS_MAX; i++)
		wait_until(card.done_ns[i]);
}

/* --- memory --------------------------------------------------------------------------------- */

static int use(uint64_t bytes)
{
	if (bytes > card.bytes - card.counters.used)
		return CM_DRIVER_OUT_OF_MEMORY;
	card.counters.used += bytes;
	if (card.counters.used > card.counters.peak)
		card.counters.peak = card.counters.used;
	return 0;
}

static void *grow(void *rows, size_t *room, size_t size)
{
	*room = *room ? *room * 2 : 1024;
	rows = realloc(rows, *room * size);
	if (!rows)
		abort();
	return rows;
}

/* Whole chunks at the lowest address where they fit. */
static struct memory *take_chunks(uint64_t bytes)
{
	uint64_t addr = ADDRESSES;
	size_t i;

	bytes = (bytes + CARD_CHUNK - 1) / CARD_CHUNK * CARD_CHUNK;
	if (use(bytes))
		return NULL;
	for (i = 0; i < card.memories && addr + bytes > card.memory[i].addr; i++)
		addr = card.memory[i].addr + card.memory[i].bytes;
	if (card.memories == card.memory_room)
		card.memory = grow(card.memory, &card.memory_room, sizeof(*card.memory));
	memmove(&card.memory[i + 1], &card.memory[i], (card.memories++ - i) * sizeof(*card.memory));
	card.memory[i] = (struct memory){.addr = addr, .bytes = bytes};
	return &card.memory[i];
}

/* The first of so many empty units in a row; UNITS: there are none. */
static uint32_t find_units(const struct shared *shared, uint32_t units)
{
	uint32_t at, run = 0;

	if (shared->empty < units)
		return UNITS;
	for (at = 0; at < UNITS && run < units; at++) {
		if (!run && at % 64 == 0 && shared->taken[at / 64] == UINT64_MAX) {
			at += 63;
			continue;
		}
		run = shared->taken[at / 64] >> at % 64 & 1 ? 0 : run + 1;
	}
	return run == units ? at - units : UNITS;
}

static void mark_units(struct shared *shared, uint32_t at, uint32_t units)
{
	for (; units--; at++)
		shared->taken[at / 64] ^= UINT64_C(1) << at % 64;
}

static int alloc_small(uint64_t bytes, uint64_t *ret_addr)
{
	uint32_t units = (uint32_t)((bytes + UNIT - 1) / UNIT), at = UNITS;
	struct memory *memory = NULL;
	size_t i;

	for (i = 0; i < card.memories && at == UNITS; i++) {
		memory = &card.memory[i];
		at = memory->shared ? find_units(memory->shared, units) : UNITS;
	}
	if (at == UNITS) {
		memory = take_chunks(CARD_CHUNK);
		if (!memory)
			return CM_DRIVER_OUT_OF_MEMORY;
		memory->shared = calloc(1, sizeof(*memory->shared));
		if (!memory->shared)
			abort();
		memory->shared->empty = UNITS;
		at = 0;
	}
	memory->shared->empty -= units;
	memory->shared->size[at] = (uint16_t)units;
	mark_units(memory->shared, at, units);
	*ret_addr = memory->addr + (uint64_t)at * UNIT;
	return 0;
}

int card_alloc(uint64_t bytes, uint64_t *ret_addr)
{
	const struct memory *memory;

	count(CARD_ALLOC);
	if (bytes < SMALL_BELOW)
		return alloc_small(bytes, ret_addr);
	memory = take_chunks(bytes);
	if (!memory)
		return CM_DRIVER_OUT_OF_MEMORY;
	*ret_addr = memory->addr;
	return 0;
}

/* The memory that the address is in. */
static size_t find_memory(uint64_t addr)
{
	size_t low = 0, high = card.memories, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (card.memory[middle].addr <= addr)
			low = middle;
		else
			high = middle;
	}
	if (low >= card.memories || addr < card.memory[low].addr ||
	    addr - card.memory[low].addr >= card.memory[low].bytes)
		abort();
	return low;
}

void card_free(uint64_t addr)
{
	size_t at = find_memory(addr);
	struct memory *memory = &card.memory[at];
	struct shared *shared = memory->shared;
	uint32_t unit = (uint32_t)((addr - memory->addr) / UNIT);

	count(CARD_FREE);
	card_wait();
	if (shared) {
		mark_units(shared, unit, shared->size[unit]);
		shared->empty += shared->size[unit];
		if (shared->empty < UNITS)
			return;
		free(shared);
	}
	card.counters.used -= memory->bytes;
	memmove(memory, memory + 1, (--card.memories - at) * sizeof(*memory));
}

static int page_create(int32_t ordinal, uint64_t bytes, uint64_t *ret_page)
{
	(void)ordinal;
	count(CARD_CREATE);
	if (use(bytes))
		return CM_DRIVER_OUT_OF_MEMORY;
	if (card.pages == card.page_room)
		card.page = grow(card.page, &card.page_room, sizeof(*card.page));
	card.page[card.pages] = (struct page){bytes, 1};
	*ret_page = ++card.pages;
	return 0;
}

static void leave_page(uint64_t page)
{
	struct page *of = &card.page[page - 1];

	if (!--of->users)
		card.counters.used -= of->bytes;
}

/* --- as the allocator sees it --------------------------------------------------------------- */

static int mem_alloc(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	(void)ctx;
	return card_alloc(bytes, ret_addr);
}

static int mem_free(uint64_t ctx, uint64_t addr)
{
	(void)ctx;
	card_free(addr);
	return 0;
}

static int mem_info(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total)
{
	(void)ctx;
	*ret_total = card.bytes;
	*ret_free = card.bytes - card.counters.used;
	return 0;
}

static int range_reserve(uint64_t bytes, uint64_t *ret_addr)
{
	if (bytes > SLOTS * CARD_CHUNK - card.reserved)
		return CM_DRIVER_OUT_OF_MEMORY;
	*ret_addr = RANGES + card.reserved;
	card.reserved += bytes;
	return 0;
}

static int range_free(uint64_t addr, uint64_t bytes)
{
	(void)addr;
	(void)bytes;
	return 0;
}

static int page_release(uint64_t page)
{
	count(CARD_RELEASE);
	leave_page(page);
	return 0;
}

static int page_map(uint64_t addr, uint64_t bytes, uint64_t page)
{
	uint64_t at = (addr - RANGES) / CARD_CHUNK, end = at + bytes / CARD_CHUNK;

	count(CARD_MAP);
	for (; at < end; at++) {
		if (card.mapped[at])
			abort();
		card.mapped[at] = (uint32_t)page;
		card.page[page - 1].users++;
	}
	return 0;
}

static int page_unmap(uint64_t addr, uint64_t bytes)
{
	uint64_t at = (addr - RANGES) / CARD_CHUNK, end = at + bytes / CARD_CHUNK;

	count(CARD_UNMAP);
	for (; at < end; at++) {
		if (!card.mapped[at])
			abort();
		leave_page(card.mapped[at]);
		card.mapped[at] = 0;
	}
	return 0;
}

static int range_open(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	(void)ordinal;
	(void)addr;
	(void)bytes;
	count(CARD_ACCESS);
	return 0;
}

static int event_create(uint64_t ctx, uint64_t *ret_event)
{
	uint64_t i;

	(void)ctx;
	for (i = 0; i < EVENTS; i++) {
		if (card.event_used[i])
			continue;
		card.event_used[i] = true;
		*ret_event = i + 1;
		return 0;
	}
	return CM_DRIVER_OUT_OF_MEMORY;
}

static int event_destroy(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	card.event_used[event - 1] = false;
	return 0;
}

static int event_record(uint64_t ctx, uint64_t event)
{
	count(CARD_RECORD);
	card.event_ns[event - 1] = card.done_ns[ctx - 1];
	return 0;
}

static int event_query(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	count(CARD_QUERY);
	return card.event_ns[event - 1] <= card.now_ns ? 0 : CM_DRIVER_NOT_READY;
}

static int event_wait(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	count(CARD_SYNC);
	wait_until(card.event_ns[event - 1]);
	return 0;
}

/* One queue a context, so all that is to come is behind what the event captured, if it is of the
 * same context. */
static int ctx_wait_event(uint64_t ctx, uint64_t event)
{
	count(CARD_WAIT);
	if (card.done_ns[ctx - 1] < card.event_ns[event - 1])
		card.done_ns[ctx - 1] = card.event_ns[event - 1];
	return 0;
}

static int ctx_synchronize(uint64_t ctx)
{
	count(CARD_SYNC);
	wait_until(card.done_ns[ctx - 1]);
	return 0;
}

static bool ctx_is_dead(uint64_t ctx)
{
	(void)ctx;
	return false;
}

static bool gate_enter(void)
{
	return true;
}

static void gate_leave(void)
{
}

/* Every look takes a moment, or who waits for the next one would wait for ever. */
static uint64_t now_ns(void)
{
	return card.now_ns += 1;
}

static void sleep_ns(uint64_t ns)
{
	card.now_ns += ns;
}

const struct cm_driver_ops *card_ops(void)
{
	static const struct cm_driver_ops ops = {
		.mem_alloc = mem_alloc,
		.mem_free = mem_free,
		.mem_info = mem_info,
		.range_reserve = range_reserve,
		.range_free = range_free,
		.page_create = page_create,
		.page_release = page_release,
		.page_map = page_map,
		.page_unmap = page_unmap,
		.range_open = range_open,
		.range_open_ungated = range_open,
		.event_create = event_create,
		.event_destroy = event_destroy,
		.event_record = event_record,
		.event_query = event_query,
		.event_query_ungated = event_query,
		.event_wait_ungated = event_wait,
		.ctx_wait_event = ctx_wait_event,
		.ctx_synchronize = ctx_synchronize,
		.ctx_is_dead = ctx_is_dead,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
		.work_number = &card.work,
		.work_ended = &card.work,
		.tick = now_ns,
		.now_ns = now_ns,
		.sleep_ns = sleep_ns,
	};

	return &ops;
}
