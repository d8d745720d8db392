/* SPDX-License-Identifier: MIT */
/*
 * Whether the completions that the tool derives from the rings of events are those of the cache:
 * of each free whose block is not pending any more, and of no other; once, and before the next
 * allocation at the address.
 */
#ifndef CM_TESTS_UNIT_RING_CHECK_H
#define CM_TESTS_UNIT_RING_CHECK_H

#include <stdbool.h>

#include "stats/region.h"

/* What is wrong, or NULL. `gap`: recording was off for a while, so a completion may come late. */
const char *ring_check_complaint(const struct cm_region *region, bool gap);

#endif
