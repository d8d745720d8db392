/* SPDX-License-Identifier: MIT */
/*
 * A time of a recording or a snapshot, as --at and --since have it: "+90", "+15m" and "+2h" after
 * its begin, "-10m" before its end, "14:05" or "14:05:30" of the day on which it began (or the next
 * day, if it began later), or "2026-03-04 14:05:30". By the time zone of the reader, but UTC for a
 * date that ends in Z, as reports print it. Pure but for the zone.
 */
#ifndef CM_TOOLS_OUTPUT_MOMENT_H
#define CM_TOOLS_OUTPUT_MOMENT_H

#include <stdint.h>

/* Times are of CLOCK_REALTIME, in ns; the result may lie outside the recording. 0, -EINVAL. */
int cm_moment_parse(const char *text, uint64_t first_ns, uint64_t last_ns, uint64_t *ret_ns);

#endif
