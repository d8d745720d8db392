/* SPDX-License-Identifier: MIT */
#include "tests/proof/lending.h"

#include "tests/proof/answers.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/operations.h"

#define STREAM 1 /* of the other context */

static struct proof_stream *stream_of(const struct proof_slot *slot)
{
	return &proof_state.context[slot->lent_to].stream[STREAM];
}

void proof_take_back(struct proof_hand *hand, struct proof_slot *slot)
{
	slot->lent = false;
	if (!proof_order(hand, slot->lent_to, stream_of(slot), slot->ctx, proof_stream_of(slot)))
		slot->known = false;
}

bool proof_wait_for_lending(struct proof_hand *hand, const struct proof_slot *slot)
{
	return !slot->lent || proof_wait_stream(hand, slot->lent_to, STREAM);
}

/* The free of what is the driver's own is a native one, which does not wait for other devices. No
 * answer that both runs must have. The free may be refused: the block stays lent. */
void proof_before_free(struct proof_hand *hand, struct proof_slot *slot)
{
	FILE *transcript = proof_state.run.transcript;

	if (!slot->lent || (cm_holdings_are_here() && !slot->native))
		return;
	if (!proof_state.run.free_running)
		proof_state.run.transcript = NULL;
	(void)proof_wait_stream(hand, slot->lent_to, STREAM);
	proof_state.run.transcript = transcript;
}

void proof_end_lending(struct proof_hand *hand, unsigned c)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++) {
		struct proof_slot *slot = &proof_state.slot[i];

		if (slot->kind == PROOF_NONE || !slot->lent ||
		    (slot->ctx != c && slot->lent_to != c))
			continue;
		slot->lent = false;
		(void)proof_wait_stream(hand, slot->lent_to, STREAM);
	}
	for (i = 0; proof_state.run.lends && i < proof_state.opened; i++)
		if (i != c)
			(void)proof_wait_stream(hand, i, STREAM);
}

bool proof_is_lent_to(unsigned c, unsigned s)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (proof_state.slot[i].kind != PROOF_NONE && proof_state.slot[i].lent &&
		    proof_state.slot[i].lent_to == c && s == STREAM)
			return true;
	return false;
}

/* Adds a kernel of the block's own context, whatever context is current, and a fill behind it. */
static bool add_nodes(struct proof_hand *hand, const struct proof_slot *slot, CUgraph graph,
		      uint64_t how)
{
	const struct proof_context *ctx = &proof_state.context[slot->ctx];
	CUdeviceptr head = slot->addr;
	uint64_t bytes = slot->bytes, n = PROOF_WORDS, ns = (how >> 16) % 200000;
	uint32_t value = slot->value;
	void *params[] = {&head, &bytes, &value, &n, &ns};
	const CUDA_KERNEL_NODE_PARAMS_v2 kernel = {.func = ctx->touch,
						   .gridDimX = 1,
						   .gridDimY = 1,
						   .gridDimZ = 1,
						   .blockDimX = 1,
						   .blockDimY = 1,
						   .blockDimZ = 1,
						   .kernelParams = params};
	const CUDA_MEMSET_NODE_PARAMS fill = {.dst = proof_tail_of(slot),
					      .value = value,
					      .elementSize = sizeof(value),
					      .width = n,
					      .height = 1};
	CUgraphNode node;

	return CALL(hand, cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &kernel) &&
	       CALL(hand, cuGraphAddMemsetNode, &node, graph, &node, 1, &fill, ctx->handle);
}

/* A graph, a clone of it, or one with it as a child. */
static bool wrap(struct proof_hand *hand, CUgraph graph, uint64_t how, CUgraph *ret_outer)
{
	CUgraphNode node;

	switch (how % 3) {
	case 0:
		return CALL(hand, cuGraphClone, ret_outer, graph);
	case 1:
		return CALL(hand, cuGraphCreate, ret_outer, 0) &&
		       CALL(hand, cuGraphAddChildGraphNode, &node, *ret_outer, NULL, 0, graph);
	default:
		return true;
	}
}

static bool submit_graph(struct proof_hand *hand, struct proof_slot *slot, CUstream stream,
			 uint64_t how)
{
	CUgraph graph = NULL, outer = NULL;
	CUgraphExec exec = NULL;
	bool ok;

	slot->known = true;
	slot->value = proof_next_value(hand);
	ok = CALL(hand, cuGraphCreate, &graph, 0) && add_nodes(hand, slot, graph, how) &&
	     wrap(hand, graph, how >> 8, &outer) &&
	     MEMORY(hand, cuGraphInstantiateWithFlags, &exec, outer ? outer : graph, 0) &&
	     CALL(hand, cuGraphLaunch, exec, stream);
	if (exec)
		(void)CALL(hand, cuGraphExecDestroy, exec);
	if (outer)
		(void)CALL(hand, cuGraphDestroy, outer);
	if (graph)
		(void)CALL(hand, cuGraphDestroy, graph);
	return ok;
}

/* Both ends get a new value, or the first one's goes to the second. */
static bool submit(struct proof_hand *hand, struct proof_slot *slot, CUstream stream, uint64_t how)
{
	const uint64_t bytes = PROOF_WORDS * sizeof(uint32_t);
	const CUdeviceptr tail = proof_tail_of(slot);
	const CUcontext ctx = proof_state.context[slot->ctx].handle;

	switch (how % 6) {
	case 0:
		slot->known = true;
		slot->value = proof_next_value(hand);
		return CALL(hand, cuMemsetD32Async, slot->addr, slot->value, PROOF_WORDS, stream) &&
		       CALL(hand, cuMemsetD32Async, tail, slot->value, PROOF_WORDS, stream);
	case 1:
		return CALL(hand, cuMemcpyPeerAsync, tail, ctx, slot->addr, ctx, bytes, stream);
	case 2:
		return CALL(hand, cuMemcpyAsync, tail, slot->addr, bytes, stream);
	case 3:
	case 4:
		return submit_graph(hand, slot, stream, how / 6);
	default:
		return CALL(hand, cuStreamWriteValue32, stream, slot->addr,
			    slot->known ? slot->value : 0, 0);
	}
}

void proof_do_lend(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_workable(hand, arg[0]);
	const unsigned c = (unsigned)arg[1];
	struct proof_context *ctx = &proof_state.context[c];

	if (!proof_state.run.lends || !slot || slot->kind != PROOF_DEVICE || proof_state.captures ||
	    slot->bytes < PROOF_ENDS || ctx->stream[STREAM].capturing ||
	    ctx->device == proof_state.context[slot->ctx].device)
		return;
	if (!slot->fresh &&
	    !proof_order(hand, slot->ctx, proof_stream_of(slot), c, &ctx->stream[STREAM]))
		return;
	if (!proof_visit(hand, c))
		return;
	slot->fresh = false;
	slot->lent = true;
	slot->lent_to = c;
	if (!submit(hand, slot, ctx->stream[STREAM].handle, arg[2]))
		slot->known = false;
	proof_leave(hand, c);
}
