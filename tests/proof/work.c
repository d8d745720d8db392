/* SPDX-License-Identifier: MIT */
/* What is done to blocks, in the order of streams. */
#include "tests/proof/answers.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/operations.h"
#include "tests/sim/cudasim.h"

void proof_do_touch(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_slot_of(hand, arg[0]);
	uint32_t value = proof_next_value(hand);

	if (slot->kind != PROOF_NONE && proof_stream_of(slot)->capturing)
		proof_touch_captured(hand, slot, arg[1]);
	slot = proof_workable(hand, arg[0]);
	if (!slot || !proof_visit(hand, slot->ctx))
		return;
	if (proof_launch_touch(hand, &proof_state.context[slot->ctx], proof_stream_of(slot)->handle,
			       slot, value, arg[1])) {
		slot->value = value;
		slot->known = true;
	}
	proof_leave(hand, slot->ctx);
}

static bool copy_within(struct proof_hand *hand, const struct proof_slot *to,
			const struct proof_slot *from, uint64_t ns)
{
	CUdeviceptr dst = to->addr, src = from->addr;
	uint64_t dst_bytes = to->bytes, src_bytes = from->bytes, n = PROOF_WORDS * 4;
	void *params[] = {&dst, &dst_bytes, &src, &src_bytes, &n, &ns};
	CUstream stream = proof_stream_of(to)->handle;

	return CALL(hand, cuLaunchKernel, proof_state.context[to->ctx].copy, 1, 1, 1, 1, 1, 1, 0,
		    stream, params, NULL) &&
	       CALL(hand, cuMemcpyAsync, proof_tail_of(to), proof_tail_of(from), n, stream);
}

static bool copy_between(struct proof_hand *hand, const struct proof_slot *to,
			 const struct proof_slot *from)
{
	CUcontext dst = proof_state.context[to->ctx].handle,
		  src = proof_state.context[from->ctx].handle;
	CUstream stream = proof_stream_of(to)->handle;

	if (proof_is_hosts(to) || proof_is_hosts(from))
		return CALL(hand, cuMemcpyAsync, to->addr, from->addr, PROOF_WORDS * 4, stream) &&
		       CALL(hand, cuMemcpyAsync, proof_tail_of(to), proof_tail_of(from),
			    PROOF_WORDS * 4, stream);
	return CALL(hand, cuMemcpyPeerAsync, to->addr, dst, from->addr, src, PROOF_WORDS * 4,
		    stream) &&
	       CALL(hand, cuMemcpyPeerAsync, proof_tail_of(to), dst, proof_tail_of(from), src,
		    PROOF_WORDS * 4, stream);
}

void proof_do_copy(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *to = proof_workable(hand, arg[0]), *from = proof_workable(hand, arg[1]);
	bool ok;

	if (!to || !from || to == from || to->bytes < PROOF_ENDS || from->bytes < PROOF_ENDS ||
	    !from->known)
		return;
	if (!proof_order(hand, from->ctx, proof_stream_of(from), to->ctx, proof_stream_of(to)) ||
	    !proof_visit(hand, to->ctx))
		return;
	ok = to->ctx == from->ctx ? copy_within(hand, to, from, arg[2])
				  : copy_between(hand, to, from);
	proof_leave(hand, to->ctx);
	to->known = ok;
	to->fresh = false;
	to->value = from->value;
	/* What is written to the source later must not arrive. */
	(void)proof_order(hand, to->ctx, proof_stream_of(to), from->ctx, proof_stream_of(from));
}

void proof_do_move(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_workable(hand, arg[0]);
	unsigned number = proof_stream_number(hand, arg[1]);
	struct proof_stream *to;

	if (!slot || slot->kind == PROOF_ASYNC)
		return;
	to = &proof_state.context[slot->ctx].stream[number];
	if (to->capturing || !proof_order(hand, slot->ctx, proof_stream_of(slot), slot->ctx, to))
		return;
	slot->stream = number;
}

void proof_do_check(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_workable(hand, arg[0]);

	if (slot)
		proof_fetch(hand, slot);
}

void proof_do_host(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_workable(hand, arg[0]);

	if (!slot || !proof_is_hosts(slot))
		return;
	if (proof_wait_stream(hand, slot->ctx, slot->stream))
		proof_write_by_cpu(hand, slot);
}

void proof_do_sync(struct proof_hand *hand, const uint64_t *arg)
{
	(void)proof_wait_stream(hand, (unsigned)arg[0], proof_stream_number(hand, arg[1]));
}

void proof_do_finish(struct proof_hand *hand, const uint64_t *arg)
{
	proof_finish(hand, (unsigned)arg[0]);
}

void proof_do_query(struct proof_hand *hand, const uint64_t *arg)
{
	const struct proof_stream *stream =
		&proof_state.context[arg[0]].stream[proof_stream_number(hand, arg[1])];
	CUresult res;

	if (stream->capturing || !proof_visit(hand, (unsigned)arg[0]))
		return;
	res = cuStreamQuery(stream->handle);
	if (res != CUDA_SUCCESS && res != CUDA_ERROR_NOT_READY && !proof_is_tolerated(res))
		proof_wrong(hand, "cuStreamQuery answered %d", (int)res);
	proof_leave(hand, (unsigned)arg[0]);
}

void proof_do_pass(struct proof_hand *hand, const uint64_t *arg)
{
	(void)hand;
	if (proof_state.simulated)
		cudasim_advance(arg[0]);
}

/* A kernel of another context, which comes after what was done to the block, if anything was. */
static bool reach(struct proof_hand *hand, struct proof_slot *slot, unsigned c, uint64_t ns)
{
	struct proof_context *ctx = &proof_state.context[c];
	struct proof_stream *stream = &ctx->stream[1];
	bool ok;

	if (!slot || slot->kind != PROOF_DEVICE || stream->capturing || slot->ctx == c ||
	    (!ctx->peer[slot->ctx] && ctx->device != proof_state.context[slot->ctx].device))
		return false;
	if (!slot->fresh && !proof_order(hand, slot->ctx, proof_stream_of(slot), c, stream))
		return false;
	if (!proof_visit(hand, c))
		return false;
	slot->value = proof_next_value(hand);
	slot->fresh = false;
	ok = proof_launch_touch(hand, ctx, stream->handle, slot, slot->value, ns);
	proof_leave(hand, c);
	return ok;
}

void proof_do_reach(struct proof_hand *hand, const uint64_t *arg)
{
	struct proof_slot *slot = proof_workable(hand, arg[0]);
	unsigned c = (unsigned)arg[1];

	if (reach(hand, slot, c, arg[2]))
		slot->known = proof_order(hand, c, &proof_state.context[c].stream[1], slot->ctx,
					  proof_stream_of(slot));
}
