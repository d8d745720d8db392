/* SPDX-License-Identifier: MIT */
/*
 * Blocks by their slots, and what is in them: both ends are filled, fetched in stream order, and
 * compared once they have arrived.
 */
#ifndef CM_TESTS_PROOF_CONTENTS_H
#define CM_TESTS_PROOF_CONTENTS_H

#include "tests/proof/state.h"

/* The slot that an argument means: in a free-running program each thread has its own. */
struct proof_slot *proof_slot_of(const struct proof_hand *hand, uint64_t arg);

/* One whose work can be added to, and that is not lent from here on; NULL: empty, an array, or
 * in a stream that is captured. */
struct proof_slot *proof_workable(struct proof_hand *hand, uint64_t arg);

bool proof_is_hosts(const struct proof_slot *slot);

/* Words at each end that are looked at, and where the second end begins. */
uint32_t proof_words_of(const struct proof_slot *slot);
CUdeviceptr proof_tail_of(const struct proof_slot *slot);

uint32_t proof_next_value(struct proof_hand *hand);

/* The CPU writes both ends; nothing else may do so meanwhile. */
void proof_write_by_cpu(struct proof_hand *hand, struct proof_slot *slot);

/* A kernel, and a fill behind it, write both ends. */
bool proof_launch_touch(struct proof_hand *hand, const struct proof_context *ctx, CUstream stream,
			struct proof_slot *slot, uint32_t value, uint64_t ns);

/* Fetches both ends, behind what was done to the block before. */
void proof_fetch(struct proof_hand *hand, struct proof_slot *slot);

/* Waits, and compares what that has brought; false where it could not be waited for. */
bool proof_wait_stream(struct proof_hand *hand, unsigned c, unsigned s);
void proof_finish(struct proof_hand *hand, unsigned c);

/* A stream goes: its work goes on, and only a wait for the whole context tells when it is
 * through. */
void proof_forget_stream(unsigned c, unsigned s);

#endif
