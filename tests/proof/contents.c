/* SPDX-License-Identifier: MIT */
#include "tests/proof/contents.h"

#include "tests/proof/answers.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/lending.h"

struct proof_slot *proof_slot_of(const struct proof_hand *hand, uint64_t arg)
{
	unsigned i = (unsigned)arg % PROOF_SLOTS;

	if (proof_state.run.free_running)
		i = i / PROOF_THREADS * PROOF_THREADS + hand->number;
	return &proof_state.slot[i];
}

struct proof_slot *proof_workable(struct proof_hand *hand, uint64_t arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg);

	if (slot->kind == PROOF_NONE || slot->kind == PROOF_ARRAY || !proof_words_of(slot) ||
	    proof_stream_of(slot)->capturing)
		return NULL;
	if (slot->lent)
		proof_take_back(hand, slot);
	return slot;
}

bool proof_is_hosts(const struct proof_slot *slot)
{
	return slot->kind == PROOF_PINNED || slot->kind == PROOF_HOST ||
	       slot->kind == PROOF_REGISTERED;
}

uint32_t proof_words_of(const struct proof_slot *slot)
{
	return slot->bytes >= PROOF_ENDS ? PROOF_WORDS : slot->bytes >= 4 ? 1 : 0;
}

CUdeviceptr proof_tail_of(const struct proof_slot *slot)
{
	return slot->addr + ((slot->bytes & ~UINT64_C(3)) - 4 * proof_words_of(slot));
}

uint32_t proof_next_value(struct proof_hand *hand)
{
	return (uint32_t)(++hand->serial * PROOF_THREADS + hand->number);
}

void proof_write_by_cpu(struct proof_hand *hand, struct proof_slot *slot)
{
	volatile uint32_t *head = (void *)(uintptr_t)slot->addr;
	volatile uint32_t *tail = (void *)(uintptr_t)proof_tail_of(slot);
	uint32_t n = proof_words_of(slot), i;

	slot->value = proof_next_value(hand);
	slot->known = true;
	slot->fresh = false;
	cm_holdings_cpu_writes(head, slot->bytes);
	for (i = 0; i < n; i++)
		head[i] = tail[i] = slot->value;
}

static void compare(struct proof_hand *hand, const struct proof_fetched *check)
{
	uint32_t i;

	cm_holdings_cpu_reads(check->words, 2 * check->n * sizeof(uint32_t));
	for (i = 0; i < 2 * check->n; i++)
		if (check->words[i] != check->value && !proof_state.broken)
			proof_wrong(hand,
				    "contents: what operation %zu fetched is %#x, and must be %#x",
				    check->op + 1, check->words[i], check->value);
}

/* Compares what has arrived: of one stream, or of a whole context. */
static void settle(struct proof_hand *hand, unsigned c, int stream)
{
	uint32_t i, left = 0;

	for (i = 0; i < hand->checks; i++) {
		struct proof_fetched *check = &hand->check[i];

		if (check->ctx == c && (stream < 0 || check->stream == (unsigned)stream))
			compare(hand, check);
		else
			hand->check[left++] = *check;
	}
	hand->checks = left;
}

static void settle_all(unsigned c, int stream)
{
	unsigned t;

	for (t = 0; t < PROOF_THREADS; t++)
		settle(&proof_state.hand[t], c, stream);
}

bool proof_wait_stream(struct proof_hand *hand, unsigned c, unsigned s)
{
	struct proof_stream *stream = &proof_state.context[c].stream[s];
	bool ok;

	if (stream->capturing || !proof_visit(hand, c))
		return false;
	ok = CALL(hand, cuStreamSynchronize, stream->handle);
	proof_leave(hand, c);
	if (ok && proof_state.run.free_running)
		settle(hand, c, (int)s);
	else if (ok)
		settle_all(c, (int)s);
	return ok;
}

void proof_forget_stream(unsigned c, unsigned s)
{
	unsigned t;
	uint32_t i;

	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < proof_state.hand[t].checks; i++)
			if (proof_state.hand[t].check[i].ctx == c &&
			    proof_state.hand[t].check[i].stream == s)
				proof_state.hand[t].check[i].stream = PROOF_STREAM_GONE;
}

void proof_finish(struct proof_hand *hand, unsigned c)
{
	if (proof_state.captures || proof_state.run.free_running || !proof_visit(hand, c))
		return;
	if (CALL(hand, cuCtxSynchronize))
		settle_all(c, -1);
	proof_leave(hand, c);
}

/* What was fetched first has arrived. */
static void wait_for_first(struct proof_hand *hand)
{
	const struct proof_fetched *first = &hand->check[0];

	if (first->stream == PROOF_STREAM_GONE)
		proof_finish(hand, first->ctx);
	else
		(void)proof_wait_stream(hand, first->ctx, first->stream);
}

/* Words that no fetch under way goes to. NULL: none is free. */
static uint32_t *find_room(struct proof_hand *hand, unsigned c)
{
	uint32_t *words = proof_state.context[c].fetched;
	uint32_t i, k;

	if (!words)
		return NULL;
	for (i = 0; i <= PROOF_CHECKS; i++) {
		uint32_t *at = words + (hand->number * (PROOF_CHECKS + 1) +
					hand->room_next++ % (PROOF_CHECKS + 1)) *
					       2 * PROOF_WORDS;

		for (k = 0; k < hand->checks && hand->check[k].words != at; k++)
			;
		if (k == hand->checks)
			return at;
	}
	return NULL;
}

void proof_fetch(struct proof_hand *hand, struct proof_slot *slot)
{
	struct proof_stream *stream = proof_stream_of(slot);
	uint32_t n = proof_words_of(slot), *words;
	struct proof_fetched *check;

	if (!slot->known || !n || slot->kind == PROOF_ARRAY || stream->capturing)
		return;
	if (hand->checks == PROOF_CHECKS)
		wait_for_first(hand);
	if (hand->checks == PROOF_CHECKS || !proof_visit(hand, slot->ctx))
		return;
	words = find_room(hand, slot->ctx);
	check = &hand->check[hand->checks];
	*check = (struct proof_fetched){.words = words,
					.value = slot->value,
					.n = n,
					.ctx = slot->ctx,
					.stream = slot->stream,
					.op = hand->op};
	if (words && CALL(hand, cuMemcpyDtoHAsync_v2, words, slot->addr, n * 4, stream->handle) &&
	    CALL(hand, cuMemcpyDtoHAsync_v2, words + n, proof_tail_of(slot), n * 4, stream->handle))
		hand->checks++;
	proof_leave(hand, slot->ctx);
}

bool proof_launch_touch(struct proof_hand *hand, const struct proof_context *ctx, CUstream stream,
			struct proof_slot *slot, uint32_t value, uint64_t ns)
{
	CUdeviceptr head = slot->addr;
	uint64_t bytes = slot->bytes, n = proof_words_of(slot);
	void *params[] = {&head, &bytes, &value, &n, &ns};

	slot->fresh = false;
	return CALL(hand, cuLaunchKernel, ctx->touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) &&
	       CALL(hand, cuMemsetD32Async, proof_tail_of(slot), value, n, stream);
}
