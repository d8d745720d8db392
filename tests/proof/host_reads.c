/* SPDX-License-Identifier: MIT */
#include "tests/proof/host_reads.h"

#include "tests/proof/answers.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/host_copies.h"
#include "tests/proof/operations.h"

#define AREAS 6 /* of each hand */
#define JUNK  0xdeadbeefu

/* The memory of an area. Only the last ones may be written without a copy. */
enum area_kind { AREA_PINNED, AREA_PORTABLE, AREA_MAPPED, AREA_ASKED, AREA_MANAGED, AREA_KINDS };

static struct area {
	uint32_t *words; /* NULL: not allocated */
	CUdeviceptr addr;
	enum area_kind kind;
	unsigned ctx;
	uint32_t n;   /* words under way; 0: none */
	bool is_read; /* by the device: the host may write it again */
	uint32_t value;
	size_t op;
} areas[PROOF_THREADS][AREAS];

static bool alloc_area(struct proof_hand *hand, struct area *area)
{
	const size_t bytes = PROOF_ENDS;
	void *host = NULL;
	bool ok = false;

	switch (area->kind) {
	case AREA_PORTABLE:
		ok = MEMORY(hand, cuMemHostAlloc, &host, bytes, CU_MEMHOSTALLOC_PORTABLE);
		break;
	case AREA_MAPPED:
		ok = MEMORY(hand, cuMemHostAlloc, &host, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
		break;
	case AREA_MANAGED:
		ok = MEMORY(hand, cuMemAllocManaged, &area->addr, bytes, CU_MEM_ATTACH_GLOBAL);
		host = (void *)(uintptr_t)area->addr;
		break;
	case AREA_PINNED:
	case AREA_ASKED:
	case AREA_KINDS:
		ok = MEMORY(hand, cuMemAllocHost_v2, &host, bytes);
		break;
	}
	if (ok && area->kind == AREA_ASKED)
		ok = CALL(hand, cuMemHostGetDevicePointer_v2, &area->addr, host, 0);
	else if (ok)
		area->addr = (uintptr_t)host;
	area->words = ok ? host : NULL;
	return ok;
}

/* One of the hand's areas, in its current context, with nothing under way. NULL: there is none. */
static struct area *find_area(struct proof_hand *hand, uint64_t arg)
{
	struct area *area = &areas[hand->number][arg % AREAS];

	if (!proof_state.run.host_reads || area->n || (area->words && area->ctx != hand->ctx))
		return NULL;
	if (area->words)
		return area;
	area->ctx = hand->ctx;
	area->kind = (enum area_kind)(arg / AREAS %
				      (proof_state.run.mapped ? AREA_KINDS : AREA_MAPPED));
	return alloc_area(hand, area) ? area : NULL;
}

static void submit(const struct proof_hand *hand, struct area *area, uint32_t n, uint32_t value,
		   bool is_read)
{
	area->n = n;
	area->value = value;
	area->is_read = is_read;
	area->op = hand->op;
}

static void fill(struct area *area, uint32_t value)
{
	uint32_t i;

	cm_holdings_cpu_writes(area->words, PROOF_ENDS);
	for (i = 0; i < PROOF_ENDS / sizeof(uint32_t); i++)
		((volatile uint32_t *)area->words)[i] = value;
}

static struct proof_copy copy_of(const struct proof_slot *slot)
{
	return (struct proof_copy){.bytes = proof_words_of(slot) * sizeof(uint32_t),
				   .ctx = proof_state.context[slot->ctx].handle,
				   .stream = proof_stream_of(slot)->handle,
				   .event = proof_stream_of(slot)->event};
}

/* A block of the hand's context that copies can name. */
static struct proof_slot *find_block(struct proof_hand *hand, uint64_t arg)
{
	struct proof_slot *slot = proof_workable(hand, arg);

	return slot && slot->ctx == hand->ctx && !proof_is_hosts(slot) ? slot : NULL;
}

void proof_do_arrive(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_slot *slot = find_block(hand, arg[0]);
	struct area *area = slot && slot->known ? find_area(hand, arg[1]) : NULL;
	struct proof_copy copy;

	if (!area)
		return;
	fill(area, JUNK);
	copy = copy_of(slot);
	copy.dst = (uintptr_t)area->words;
	copy.src = slot->addr;
	copy.to_host = true;
	if (proof_copy_in_form(hand, &copy, arg[2]))
		submit(hand, area, proof_words_of(slot), slot->value, false);
}

void proof_do_depart(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = find_block(hand, arg[0]);
	struct area *area = slot ? find_area(hand, arg[1]) : NULL;
	struct proof_copy copy;

	if (!area)
		return;
	slot->value = proof_next_value(hand);
	slot->fresh = false;
	fill(area, slot->value);
	copy = copy_of(slot);
	copy.dst = slot->addr;
	copy.src = (uintptr_t)area->words;
	slot->known = proof_copy_in_form(hand, &copy, arg[2]);
	copy.dst = proof_tail_of(slot);
	slot->known = slot->known && proof_copy_in_form(hand, &copy, arg[2]);
	submit(hand, area, proof_words_of(slot), slot->value, true);
}

void proof_do_meet(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_context *ctx = &proof_state.context[hand->ctx];
	const struct proof_stream *stream = &ctx->stream[proof_stream_number(hand, arg[0])];
	struct area *area = stream->capturing ? NULL : find_area(hand, arg[1]);
	struct proof_write write;

	if (!area)
		return;
	fill(area, JUNK);
	write = (struct proof_write){.dst = area->addr,
				     .value = proof_next_value(hand),
				     .n = PROOF_WORDS,
				     .touch = area->kind < AREA_MAPPED ? NULL : ctx->touch,
				     .stream = stream->handle};
	if (proof_write_in_form(hand, &write, arg[2]))
		submit(hand, area, PROOF_WORDS, write.value, false);
}

static void read_area(struct proof_hand *hand, struct area *area)
{
	uint32_t i, n = area->n;

	area->n = 0;
	if (area->is_read) {
		fill(area, JUNK);
		return;
	}
	cm_holdings_cpu_reads(area->words, n * sizeof(uint32_t));
	for (i = 0; i < n && !proof_state.broken; i++)
		if (((volatile uint32_t *)area->words)[i] != area->value)
			proof_wrong(hand,
				    "behind a free: what operation %zu submitted is %#x, and must "
				    "be %#x",
				    area->op + 1, area->words[i], area->value);
	/* Not the value: a block that can't be exported was not written by another process. */
	if (proof_state.run.transcript)
		(void)fprintf(proof_state.run.transcript, "%zu read %zu\n", hand->op + 1,
			      area->op + 1);
}

void proof_read_behind_free(struct proof_hand *hand, unsigned ctx)
{
	const CUdevice device = proof_state.context[ctx].device;
	unsigned t, i;

	if (!proof_state.run.host_reads)
		return;
	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < AREAS; i++)
			if ((t == hand->number || !proof_state.run.free_running) && areas[t][i].n &&
			    proof_state.context[areas[t][i].ctx].device == device)
				read_area(hand, &areas[t][i]);
}

bool proof_is_area(CUdeviceptr addr)
{
	unsigned t, i;

	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < AREAS; i++)
			if (areas[t][i].words && (uintptr_t)areas[t][i].words == addr)
				return true;
	return false;
}

void proof_forget_areas(unsigned ctx)
{
	unsigned t, i;

	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < AREAS; i++)
			if (areas[t][i].words && areas[t][i].ctx == ctx)
				areas[t][i] = (struct area){0};
}

void proof_free_areas(struct proof_hand *hand)
{
	unsigned t, i;
	bool ok;

	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < AREAS; i++) {
			struct area *area = &areas[t][i];

			if (!area->words || !proof_visit(hand, area->ctx))
				continue;
			if (area->kind == AREA_MANAGED)
				ok = CALL(hand, cuMemFree_v2, area->addr);
			else
				ok = CALL(hand, cuMemFreeHost, area->words);
			proof_leave(hand, area->ctx);
			if (ok)
				*area = (struct area){0};
		}
}
