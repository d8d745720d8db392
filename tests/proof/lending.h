/* SPDX-License-Identifier: MIT */
/*
 * Blocks that work of another device has named, and that nothing else waits for: as long as one is
 * lent it is freed as it is. Natively a free does not wait for other devices, so there the program
 * does.
 */
#ifndef CM_TESTS_PROOF_LENDING_H
#define CM_TESTS_PROOF_LENDING_H

#include "tests/proof/state.h"

/* What is done to the block from here on comes after that work. */
void proof_take_back(struct proof_hand *hand, struct proof_slot *slot);

/* Waits until no other context works on the block; false if that failed. */
bool proof_wait_for_lending(struct proof_hand *hand, const struct proof_slot *slot);

/* The block is about to be freed. */
void proof_before_free(struct proof_hand *hand, struct proof_slot *slot);

/* A context is about to go, and its memory with it: the blocks that are lent to it, or of it, are
 * waited for, and those that were lent and freed. */
void proof_end_lending(struct proof_hand *hand, unsigned c);

/* Whether work in the stream may be what a block is lent for. */
bool proof_is_lent_to(unsigned c, unsigned s);

#endif
