/* SPDX-License-Identifier: MIT */
/*
 * Letters to the program's own mailbox, as cudamemstat sends them, but for which nobody waits: what
 * the library's helper thread does about one it does beside what the program does next. Nothing
 * where the library is not loaded, or the mailbox not opened. Thread-safe but for the opening.
 */
#ifndef CM_TESTS_PROOF_LETTERS_H
#define CM_TESTS_PROOF_LETTERS_H

#include "tests/proof/state.h"

/* Once the library has begun. */
void proof_open_mailbox(const struct proof_hand *hand);

/* One of the things that a tool can ask for, unless the last letter is not answered yet. An answer
 * that makes no sense is wrong. */
void proof_post_letter(const struct proof_hand *hand, uint64_t what);

/* Whether what is asked twice is answered alike, where nobody but the helper comes between. */
bool proof_expects_same(void);

/* The helper looks what time it is. */
void proof_wake_helper(void);

/* No letter is under way from here on. */
void proof_await_answer(const struct proof_hand *hand);

#endif
