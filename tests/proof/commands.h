/* SPDX-License-Identifier: MIT */
/*
 * Commands to the program's own library, as cudamemstat sends them. Nobody waits for the answer:
 * the library's helper thread runs a command beside what the program does next. All functions do
 * nothing where the library is not loaded or the command channel is not open. Thread-safe but for
 * proof_open_channel.
 */
#ifndef CM_TESTS_PROOF_COMMANDS_H
#define CM_TESTS_PROOF_COMMANDS_H

#include "tests/proof/state.h"

/* Maps the command channel. To be called once, after the library's start. */
void proof_open_channel(const struct proof_hand *hand);

/*
 * Posts one of the commands that a tool can send, chosen by `what`, unless the last one is still
 * running. Judges the answer to the last one.
 */
void proof_post_command(const struct proof_hand *hand, uint64_t what);

/* Whether two equal questions get equal answers, where only the helper may come between them. */
bool proof_expects_same(void);

/* Wakes the helper, which then looks at the clock. */
void proof_wake_helper(void);

/* Waits until the last command is answered, for a minute at most. */
void proof_await_answer(const struct proof_hand *hand);

#endif
