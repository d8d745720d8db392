/* SPDX-License-Identifier: MIT */
/*
 * The driver in this process: which loaded object it is, and its original functions in cm_real. An
 * entry point brings it in when the program reaches it; nothing here looks for a driver before
 * that. Lock-free, because callers may hold the loader's lock; racing threads do the same work
 * twice.
 */
#ifndef CM_INTERPOSE_SYMBOLS_REAL_H
#define CM_INTERPOSE_SYMBOLS_REAL_H

#include <stdbool.h>

#include "interpose/symbols/hook_table.h"

/* Whether the address lies in the driver's library. */
bool cm_driver_has_address(const void *address);

/* Whether a driver is loaded that has no symbol of this name. */
bool cm_driver_lacks(const char *symbol);

/* Fills in the originals after a look-up through dlsym: `found` is the real answer for `handle`.
 * Returns false and changes nothing unless that is the driver's. */
bool cm_driver_add_lookup(void *handle, const struct cm_hook *hook, void *found);

/* Fills in the originals for a program that calls `hook` by symbol: from the next object that has
 * it, else from the loaded driver, else by loading the driver. Returns false if there is none. */
bool cm_driver_add_symbol(const struct cm_hook *hook);

/* Whether a driver is known; until then every original is cm_real_missing. */
bool cm_real_is_loaded(void);

/* The original in effect, or NULL. */
void *cm_real_get(const struct cm_hook *hook);

/* Makes `function` the original, unless it is ours. If entry points give different functions, the
 * last one stays. */
void cm_real_set(const struct cm_hook *hook, void *function);

/* The driver's answer to cuGetProcAddress for this row, or NULL. */
void *cm_real_query(const struct cm_hook *hook);

/* Whether the driver has all that the cache needs. Asks cuGetProcAddress for what the driver does
 * not export, so it is for the first wrapped call, not for the entry points. */
bool cm_real_is_complete(void);

#endif
