/* SPDX-License-Identifier: MIT */
/* Captures, and the graphs that they become. */
#include "tests/proof/answers.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/operations.h"

/* Each thread has one graph at most that grows; and so has the program, where it is in one
 * order. */
static bool has_capture(const struct proof_hand *hand)
{
	const unsigned own = PROOF_STREAMS + hand->number;
	unsigned c;

	if (!proof_state.run.free_running)
		return proof_state.captures;
	for (c = 0; c < proof_state.opened; c++)
		if (proof_state.context[c].stream[own].capturing)
			return true;
	return false;
}

void proof_do_capture(struct proof_hand *hand, const uint64_t *arg)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_GLOBAL};
	unsigned c = (unsigned)arg[0], s = proof_stream_number(hand, PROOF_STREAMS - 1);
	unsigned mode = proof_state.run.free_running ? 0 : (unsigned)arg[2] % 3, g;
	struct proof_stream *stream = &proof_state.context[c].stream[s];
	struct proof_graph *graph;

	g = proof_state.run.free_running ? PROOF_GRAPHS + hand->number
					 : (unsigned)arg[2] % PROOF_GRAPHS;
	graph = &proof_state.graph[g];
	if (stream->capturing || has_capture(hand) || !proof_visit(hand, c))
		return;
	if (graph->exec && graph->generation == proof_state.context[graph->ctx].generation)
		(void)CALL(hand, cuGraphExecDestroy, graph->exec);
	*graph = (struct proof_graph){.ctx = c,
				      .value = proof_next_value(hand),
				      .generation = proof_state.context[c].generation};
	proof_state.begun++;
	if (CALL(hand, cuStreamBeginCapture_v2, stream->handle, modes[mode])) {
		stream->capturing = true;
		stream->mode = mode;
		stream->thread = hand->number;
		stream->graph = g;
		proof_state.captures++;
	} else {
		proof_state.ended++;
	}
	proof_leave(hand, c);
}

void proof_touch_captured(struct proof_hand *hand, struct proof_slot *slot, uint64_t ns)
{
	struct proof_stream *stream = proof_stream_of(slot);
	struct proof_graph *graph = &proof_state.graph[stream->graph];

	if (graph->count == PROOF_PER_GRAPH || graph->ctx != slot->ctx || !proof_words_of(slot) ||
	    slot->kind == PROOF_ARRAY || slot->kind == PROOF_ASYNC || !proof_visit(hand, slot->ctx))
		return;
	if (proof_launch_touch(hand, &proof_state.context[slot->ctx], stream->handle, slot,
			       graph->value, ns)) {
		graph->touched[graph->count].slot = (unsigned)(slot - proof_state.slot);
		graph->touched[graph->count++].serial = slot->serial;
	}
	proof_leave(hand, slot->ctx);
}

static void end_capture(struct proof_hand *hand, unsigned c, struct proof_stream *stream)
{
	struct proof_graph *made = &proof_state.graph[stream->graph];
	CUgraph graph = NULL;

	if (!proof_visit(hand, c))
		return;
	if (CALL(hand, cuStreamEndCapture, stream->handle, &graph) && graph) {
		if (!MEMORY(hand, cuGraphInstantiateWithFlags, &made->exec, graph, 0))
			made->exec = NULL;
		(void)CALL(hand, cuGraphDestroy, graph);
	}
	stream->capturing = false;
	proof_state.captures--;
	proof_state.ended++;
	proof_leave(hand, c);
}

void proof_end_captures(struct proof_hand *hand, bool any_mode)
{
	unsigned c, s;

	for (c = 0; c < proof_state.opened; c++)
		for (s = 1; s < PROOF_ALL_STREAMS; s++) {
			struct proof_stream *stream = &proof_state.context[c].stream[s];

			/* A free-running thread has a stream of its own for it, and looks at no
			 * other's. */
			if (proof_state.run.free_running && s != PROOF_STREAMS + hand->number)
				continue;
			if (stream->capturing &&
			    (stream->thread == hand->number ||
			     (any_mode && !proof_state.run.free_running && !stream->mode)))
				end_capture(hand, c, stream);
		}
}

void proof_drop_captures(struct proof_hand *hand)
{
	CUstreamCaptureStatus status;
	unsigned c, s;

	for (c = 0; c < proof_state.opened; c++)
		for (s = 1; s < PROOF_ALL_STREAMS && proof_visit(hand, c); s++) {
			struct proof_stream *stream = &proof_state.context[c].stream[s];

			if (stream->handle &&
			    CALL(hand, cuStreamIsCapturing, stream->handle, &status) &&
			    status != CU_STREAM_CAPTURE_STATUS_NONE)
				(void)CALL(hand, cuStreamDestroy_v2, stream->handle);
			stream->capturing = false;
			proof_leave(hand, c);
		}
	proof_state.captures = 0;
	proof_state.ended = proof_state.begun;
}

void proof_do_end(struct proof_hand *hand, const uint64_t *arg)
{
	(void)arg;
	proof_end_captures(hand, true);
}

/* Whether every block that the graph touches is still the one that it was made for. */
static bool is_launchable(const struct proof_graph *graph)
{
	uint32_t i;

	if (!graph->exec || graph->generation != proof_state.context[graph->ctx].generation)
		return false;
	for (i = 0; i < graph->count; i++) {
		const struct proof_slot *slot = &proof_state.slot[graph->touched[i].slot];

		if (slot->kind == PROOF_NONE || slot->lent ||
		    slot->serial != graph->touched[i].serial || proof_stream_of(slot)->capturing)
			return false;
	}
	return graph->count;
}

void proof_do_graph(struct proof_hand *hand, const uint64_t *arg)
{
	unsigned g = proof_state.run.free_running ? PROOF_GRAPHS + hand->number
						  : (unsigned)arg[0] % PROOF_GRAPHS;
	struct proof_graph *graph = &proof_state.graph[g];
	struct proof_stream *stream;
	uint32_t i;
	bool ok;

	if (!is_launchable(graph))
		return;
	stream = proof_stream_of(&proof_state.slot[graph->touched[0].slot]);
	for (i = 1; i < graph->count; i++)
		if (!proof_order(hand, graph->ctx,
				 proof_stream_of(&proof_state.slot[graph->touched[i].slot]),
				 graph->ctx, stream))
			return;
	if (!proof_visit(hand, graph->ctx))
		return;
	ok = CALL(hand, cuGraphLaunch, graph->exec, stream->handle);
	proof_leave(hand, graph->ctx);
	for (i = 0; i < graph->count; i++) {
		struct proof_slot *slot = &proof_state.slot[graph->touched[i].slot];

		slot->known = ok;
		slot->value = graph->value;
		(void)proof_order(hand, graph->ctx, stream, graph->ctx, proof_stream_of(slot));
	}
}
