/* SPDX-License-Identifier: MIT */
/*
 * What the driver answers, and what is wrong with it. A wrong answer ends the process.
 */
#ifndef CM_TESTS_PROOF_ANSWERS_H
#define CM_TESTS_PROOF_ANSWERS_H

#include "tests/proof/state.h"

/* Ends the process with 99, the number of the operation and the text on stderr. */
__attribute__((format(printf, 2, 3))) _Noreturn void proof_wrong(const struct proof_hand *hand,
								 const char *format, ...);

/* The errors of the plan, from PROOF_TOLERATE, and the allocations that they may cost, from
 * PROOF_LOST; and whether this is one, or may follow from one. */
void proof_read_tolerated(void);
bool proof_is_tolerated(CUresult res);

/* The errors that a capture brings. */
bool proof_is_of_captures(CUresult res);

/* An answer that must be the same without the library: false where it is no success. The other is
 * for what may find no memory left. */
bool proof_heard(const struct proof_hand *hand, const char *what, CUresult res);
bool proof_heard_memory(const struct proof_hand *hand, const char *what, CUresult res);

#define CALL(hand, function, ...)   proof_heard(hand, #function, function(__VA_ARGS__))
#define MEMORY(hand, function, ...) proof_heard_memory(hand, #function, function(__VA_ARGS__))

#endif
