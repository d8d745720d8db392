/* SPDX-License-Identifier: MIT */
/*
 * Contexts and streams of a program: which are open, which is current, what comes after what.
 */
#ifndef CM_TESTS_PROOF_CONTEXTS_H
#define CM_TESTS_PROOF_CONTEXTS_H

#include "tests/proof/state.h"

/* Opens one more context than before, which the hand is in then. */
void proof_open_next(struct proof_hand *hand);

/* Makes the hand's context current, also where another has come in its place. */
void proof_enter(struct proof_hand *hand);

/* For a call in another context than the hand's: false where that can't be made current. */
bool proof_visit(struct proof_hand *hand, unsigned c);
void proof_leave(struct proof_hand *hand, unsigned c);

struct proof_stream *proof_stream_of(const struct proof_slot *slot);

/* The stream that an argument means to a hand. */
unsigned proof_stream_number(const struct proof_hand *hand, uint64_t arg);

/* Work of `to` comes after what is in `from` now. A default stream is that of the current
 * context. */
bool proof_order(struct proof_hand *hand, unsigned from_ctx, struct proof_stream *from,
		 unsigned to_ctx, struct proof_stream *to);

/* The program lets go of it for good, as it would at its end. */
void proof_end_context(struct proof_hand *hand, unsigned c);

#endif
