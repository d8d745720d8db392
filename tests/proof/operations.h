/* SPDX-License-Identifier: MIT */
/*
 * The operations of a program, by the names of operations.def, and what of them others need too.
 * One that makes no sense at its place does nothing.
 */
#ifndef CM_TESTS_PROOF_OPERATIONS_H
#define CM_TESTS_PROOF_OPERATIONS_H

#include "tests/proof/state.h"

#define OP(name, weight, args) void proof_do_##name(struct proof_hand *hand, const uint64_t *arg);
#include "tests/proof/operations.def"
#undef OP

/* Gives back what is in the slot, which stays as it is. */
bool proof_free_kind(struct proof_hand *hand, struct proof_slot *slot);

/* Once more what could not be freed, where it can only be the program's. */
void proof_free_owed(struct proof_hand *hand);

/* A kernel on the block becomes part of the graph that its stream captures. */
void proof_touch_captured(struct proof_hand *hand, struct proof_slot *slot, uint64_t ns);

/* But for a relaxed one, a capture is ended by the thread that began it. */
void proof_end_captures(struct proof_hand *hand, bool any_mode);

/* No end of theirs has been heard: their streams go. For when nobody else is at work. */
void proof_drop_captures(struct proof_hand *hand);

/* What is written down must be what is held. */
void proof_check_counters(struct proof_hand *hand);

#endif
