/* SPDX-License-Identifier: MIT */
/*
 * The driver in this process: which object it is, and its original functions in cm_real. The doors
 * bring it in as the program reaches it; nothing here looks for a driver before that. No locks, so
 * that the loader's own lock may be held by any caller; threads that race do the same work twice.
 */
#ifndef CM_INTERPOSE_SYMBOLS_REAL_H
#define CM_INTERPOSE_SYMBOLS_REAL_H

#include <stdbool.h>

#include "interpose/symbols/hook_table.h"

/* Whether the address lies in the driver's library. */
bool cm_driver_has_address(const void *address);

/*
 * Learns the originals from a successful look-up through dlsym: `found` is what the real one gave
 * for `handle`. False, and nothing learnt, where that is not the driver's.
 */
bool cm_driver_add_lookup(void *handle, const struct cm_hook *hook, void *found);

/*
 * Learns the originals for a program that calls `hook` by symbol: from the next object that has
 * it, else from the driver that is loaded, else by loading it. False where there is none.
 */
bool cm_driver_add_symbol(const struct cm_hook *hook);

/* Whether a driver has been brought in: until then every original is cm_real_missing. */
bool cm_real_is_loaded(void);

/* The original in effect, or NULL. */
void *cm_real_get(const struct cm_hook *hook);

/* Makes `function` the original, unless it is ours: where doors differ the last answer holds. */
void cm_real_set(const struct cm_hook *hook, void *function);

/* What the driver's cuGetProcAddress gives for the row, or NULL. */
void *cm_real_ask(const struct cm_hook *hook);

/*
 * Whether the driver has all that the cache needs. Asks the driver's cuGetProcAddress for what it
 * does not export. For the first wrapped call, not for the doors: it calls the driver.
 */
bool cm_real_is_complete(void);

#endif
