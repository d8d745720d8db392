/* SPDX-License-Identifier: MIT */
/*
 * What the simulated driver still holds although the program has given all of it back.
 */
#ifndef CM_TESTS_PROOF_LOSSES_H
#define CM_TESTS_PROOF_LOSSES_H

#include "tests/proof/state.h"

/* The program has freed everything and its cache has been emptied: of all contexts that are not
 * broken nothing may be left, nor of those that are, once they have gone (`ended`). */
void proof_check_losses(const struct proof_hand *hand, bool ended);

#endif
