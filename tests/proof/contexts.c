/* SPDX-License-Identifier: MIT */
#include "tests/proof/contexts.h"

#include <string.h>

#include "tests/proof/answers.h"
#include "tests/proof/contents.h"
#include "tests/proof/host_reads.h"
#include "tests/proof/lending.h"
#include "tests/proof/operations.h"

#define MIB    UINT64_C(1048576)
#define COMING 2 /* the context that comes and goes, of the first device */

/* A kernel writes the whole block as far as order goes, and the words at its beginning in truth;
 * a fill and a copy behind it do so at the end. */
static const char module_text[] = "cudasim-module\n"
				  "kernel touch\n"
				  " params ptr u64 u32 u64 u64\n"
				  " time 1us 1ns p4\n"
				  " writes p0 p1\n"
				  " do fill p0 p2 p3\n"
				  "end\n"
				  "kernel copy\n"
				  " params ptr u64 ptr u64 u64 u64\n"
				  " time 1us 1ns p5\n"
				  " reads p2 p3\n"
				  " writes p0 p1\n"
				  " do copy p0 p2 p4\n"
				  "end\n";

static bool make_stream(struct proof_hand *hand, struct proof_context *ctx, unsigned i)
{
	struct proof_stream *stream = &ctx->stream[i];
	unsigned flags = i == 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;

	*stream = (struct proof_stream){0};
	return (!i || CALL(hand, cuStreamCreate, &stream->handle, flags)) &&
	       CALL(hand, cuEventCreate, &stream->event, CU_EVENT_DISABLE_TIMING);
}

static bool fill_context(struct proof_hand *hand, unsigned c)
{
	struct proof_context *ctx = &proof_state.context[c];
	CUmodule module;
	unsigned i;

	ctx->generation++;
	memset(ctx->peer, 0, sizeof(ctx->peer));
	memset(ctx->stream, 0, sizeof(ctx->stream));
	ctx->fetched = NULL;
	for (i = 0; i < PROOF_ALL_STREAMS; i++)
		if (!make_stream(hand, ctx, i))
			return false;
	if (!MEMORY(hand, cuMemAllocHost_v2, (void **)&ctx->fetched,
		    PROOF_THREADS * (PROOF_CHECKS + 1) * PROOF_ENDS))
		return false;
	return CALL(hand, cuModuleLoadData, &module, module_text) &&
	       CALL(hand, cuModuleGetFunction, &ctx->touch, module, "touch") &&
	       CALL(hand, cuModuleGetFunction, &ctx->copy, module, "copy");
}

static bool open_context(struct proof_hand *hand, unsigned c)
{
	struct proof_context *ctx = &proof_state.context[c];

	ctx->device = c < COMING ? (int)c : c == COMING ? 0 : (int)c - 1;
	if (c != COMING) {
		if (!CALL(hand, cuDevicePrimaryCtxRetain, &ctx->handle, ctx->device))
			return false;
		ctx->refs++;
		if (!CALL(hand, cuCtxSetCurrent, ctx->handle))
			return false;
	} else if (!MEMORY(hand, cuCtxCreate_v2, &ctx->handle, 0, ctx->device)) {
		ctx->handle = NULL;
		return false;
	}
	return fill_context(hand, c);
}

void proof_enter(struct proof_hand *hand)
{
	struct proof_context *ctx = &proof_state.context[hand->ctx];

	/* One that could not be opened is of generation 0. */
	if (hand->generation && hand->generation == ctx->generation)
		return;
	(void)CALL(hand, cuCtxSetCurrent, ctx->handle);
	hand->generation = ctx->generation;
}

bool proof_visit(struct proof_hand *hand, unsigned c)
{
	return c == hand->ctx || CALL(hand, cuCtxPushCurrent_v2, proof_state.context[c].handle);
}

void proof_leave(struct proof_hand *hand, unsigned c)
{
	CUcontext popped;

	if (c != hand->ctx)
		(void)CALL(hand, cuCtxPopCurrent_v2, &popped);
}

struct proof_stream *proof_stream_of(const struct proof_slot *slot)
{
	return &proof_state.context[slot->ctx].stream[slot->stream];
}

unsigned proof_stream_number(const struct proof_hand *hand, uint64_t arg)
{
	unsigned i = (unsigned)arg % PROOF_STREAMS;

	return proof_state.run.free_running && i == PROOF_STREAMS - 1 ? PROOF_STREAMS + hand->number
								      : i;
}

bool proof_order(struct proof_hand *hand, unsigned from_ctx, struct proof_stream *from,
		 unsigned to_ctx, struct proof_stream *to)
{
	bool ok;

	if (from == to)
		return true;
	if (!proof_visit(hand, from_ctx))
		return false;
	ok = CALL(hand, cuEventRecord, from->event, from->handle);
	proof_leave(hand, from_ctx);
	if (!ok || !proof_visit(hand, to_ctx))
		return false;
	ok = CALL(hand, cuStreamWaitEvent, to->handle, from->event, 0);
	proof_leave(hand, to_ctx);
	return ok;
}

void proof_open_next(struct proof_hand *hand)
{
	if (!open_context(hand, proof_state.opened) && !proof_state.broken)
		proof_wrong(hand, "no context");
	proof_state.opened++;
	hand->generation = 0;
	proof_enter(hand);
}

void proof_do_open(struct proof_hand *hand, const uint64_t *arg)
{
	(void)arg;
	if (proof_state.opened < proof_state.run.contexts && !proof_state.captures)
		proof_open_next(hand);
}

void proof_do_context(struct proof_hand *hand, const uint64_t *arg)
{
	/* The primary contexts of the first devices. */
	static const unsigned own[PROOF_THREADS] = {0, 1, COMING + 1};
	const unsigned c = own[hand->number];

	hand->ctx = !proof_state.run.apart ? (unsigned)arg[0] : c < proof_state.opened ? c : 0;
	hand->generation = 0;
	proof_enter(hand);
}

/* Whether blocks are at home in it: then it stays. */
static bool is_home(unsigned c, unsigned s)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].kind != PROOF_NONE && proof_state.slot[i].ctx == c &&
		    proof_state.slot[i].stream == s)
			return true;
	return proof_is_lent_to(c, s);
}

/* With its work still under way, and blocks that were freed behind it. */
void proof_do_stream(struct proof_hand *hand, const uint64_t *arg)
{
	unsigned c = (unsigned)arg[0], s = proof_stream_number(hand, arg[1]);
	struct proof_stream *stream = &proof_state.context[c].stream[s];

	if (!s || stream->capturing || proof_state.run.free_running || is_home(c, s))
		return;
	(void)proof_wait_stream(hand, c, arg[2] % 2 ? s : 0);
	if (!proof_visit(hand, c))
		return;
	if (CALL(hand, cuStreamDestroy_v2, stream->handle) &&
	    CALL(hand, cuEventDestroy_v2, stream->event)) {
		proof_forget_stream(c, s);
		(void)make_stream(hand, &proof_state.context[c], s);
	}
	proof_leave(hand, c);
}

void proof_do_peer(struct proof_hand *hand, const uint64_t *arg)
{
	unsigned from = (unsigned)arg[0], to = (unsigned)arg[1];
	struct proof_context *ctx = &proof_state.context[from];
	CUresult res;

	if (proof_state.run.no_peers || ctx->device == proof_state.context[to].device ||
	    !proof_visit(hand, from))
		return;
	res = cuCtxEnablePeerAccess(proof_state.context[to].handle, 0);
	if (res == CUDA_SUCCESS || res == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		ctx->peer[to] = true;
	else
		(void)proof_heard(hand, "cuCtxEnablePeerAccess", res);
	proof_leave(hand, from);
}

void proof_do_limit(struct proof_hand *hand, const uint64_t *arg)
{
	(void)MEMORY(hand, cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, (arg[0] % 8 + 1) * MIB);
}

/* The program's own pages, and the memory of a pool, which is the device's. */
static bool is_of_no_context(const struct proof_slot *slot)
{
	return slot->kind == PROOF_REGISTERED || slot->kind == PROOF_ASYNC;
}

/* What does not go with the context. */
static void free_the_rest(struct proof_hand *hand, unsigned c)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++) {
		struct proof_slot *slot = &proof_state.slot[i];

		if (slot->kind == PROOF_NONE || slot->ctx != c || !is_of_no_context(slot) ||
		    !proof_visit(hand, c))
			continue;
		(void)proof_free_kind(hand, slot);
		proof_leave(hand, c);
		slot->kind = PROOF_NONE;
	}
}

/* What was in the context has gone with it. */
static void forget_context(unsigned c)
{
	unsigned i, t;
	uint32_t k, left;

	proof_forget_areas(c);
	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].ctx == c)
			proof_state.slot[i].kind = PROOF_NONE;
	for (i = 0; i < PROOF_OWED; i++)
		if (proof_state.owed[i].ctx == c)
			proof_state.owed[i].kind = PROOF_NONE;
	for (t = 0; t < PROOF_THREADS; t++) {
		struct proof_hand *hand = &proof_state.hand[t];

		hand->gone = 0;
		for (k = left = 0; k < hand->checks; k++)
			if (hand->check[k].ctx != c)
				hand->check[left++] = hand->check[k];
		hand->checks = left;
	}
}

static CUresult release_all(struct proof_hand *hand, struct proof_context *ctx)
{
	CUresult res = CUDA_SUCCESS;

	while (ctx->refs && !res) {
		res = cuDevicePrimaryCtxRelease_v2(ctx->device);
		ctx->refs -= proof_heard(hand, "cuDevicePrimaryCtxRelease_v2", res);
	}
	return res;
}

void proof_end_context(struct proof_hand *hand, unsigned c)
{
	struct proof_context *ctx = &proof_state.context[c];

	if (c != COMING)
		(void)release_all(hand, ctx);
	else if (ctx->handle && CALL(hand, cuCtxDestroy_v2, ctx->handle))
		ctx->handle = NULL;
}

static CUresult reset(struct proof_hand *hand, struct proof_context *ctx)
{
	const CUresult res = cuDevicePrimaryCtxReset_v2(ctx->device);

	(void)proof_heard(hand, "cuDevicePrimaryCtxReset_v2", res);
	return res;
}

static CUresult destroy(struct proof_hand *hand, struct proof_context *ctx)
{
	const CUresult res = cuCtxDestroy_v2(ctx->handle);

	(void)proof_heard(hand, "cuCtxDestroy_v2", res);
	return res;
}

/* Of earlier work that has failed: the call may have done what it was to do, and nobody can use
 * what was in the context. */
static bool is_of_earlier_work(CUresult res)
{
	return res == CUDA_ERROR_ILLEGAL_ADDRESS || res == CUDA_ERROR_LAUNCH_FAILED ||
	       res == CUDA_ERROR_ECC_UNCORRECTABLE;
}

/* With work under way, which the driver ends. Others may have it current. */
void proof_do_reset(struct proof_hand *hand, const uint64_t *arg)
{
	unsigned c = (unsigned)arg[0], i;
	struct proof_context *ctx = &proof_state.context[c];
	CUresult res;

	if (proof_state.captures || proof_state.run.free_running)
		return;
	proof_end_lending(hand, c);
	free_the_rest(hand, c);
	if (c == COMING)
		res = destroy(hand, ctx);
	else if (ctx->generation % 2)
		res = reset(hand, ctx);
	else
		res = release_all(hand, ctx);
	if (res == CUDA_SUCCESS || is_of_earlier_work(res))
		forget_context(c);
	for (i = 0; i < proof_state.opened; i++)
		proof_state.context[i].peer[c] = false;
	if (res == CUDA_SUCCESS)
		(void)open_context(hand, c);
	hand->ctx = c;
	hand->generation = 0;
	proof_enter(hand);
}
