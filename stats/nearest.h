/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean ...?": the name of a list that is nearest to what was typed. Pure and thread-safe.
 */
#ifndef CM_STATS_NEAREST_H
#define CM_STATS_NEAREST_H

#include <stddef.h>

/*
 * The nearest of `count` names, or NULL if none is near. Near means few slips of one character
 * (missing, added, wrong, two swapped): one for a short word, three at most. A word that was cut
 * short finds its whole name: "max_split" is near to "max_split_size_mb".
 */
const char *cm_nearest_name(const char *typed, const char *const *names, size_t count);

#endif
