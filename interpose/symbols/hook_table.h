/* SPDX-License-Identifier: MIT */
/*
 * The rows of hooks.def as a table. It is filled in wrappers/hook_rows.c, where the wrappers are:
 * this folder knows them by their addresses alone. Constant, so thread-safe; valid before any
 * constructor has run.
 */
#ifndef CM_INTERPOSE_SYMBOLS_HOOK_TABLE_H
#define CM_INTERPOSE_SYMBOLS_HOOK_TABLE_H

/* A member of struct cm_real, whatever its type. */
typedef void *cm_real_slot __attribute__((may_alias));

struct cm_hook {
	const char *symbol;
	const char *base;
	int version;
	unsigned int flags; /* CM_HOOK_* */
	void *wrapper;      /* NULL but for CM_HOOK: not to be replaced */
	void *exported;     /* our symbol of this name, NULL but for CM_HOOK */
	cm_real_slot *real; /* NULL for CM_KNOWN and CM_ALIAS */
};

/* clang-format off */
enum {
	CM_HOOK_COUNT = 0
#define CM_HOOK(symbol, base, version, flags)  + 1
#define CM_USE(symbol, base, version, flags)   + 1
#define CM_KNOWN(symbol, base, version, flags) + 1
#define CM_ALIAS(symbol, base, version, flags) + 1
#include "interpose/symbols/hooks.def"
};
/* clang-format on */

/* In the order of hooks.def. */
extern const struct cm_hook cm_hooks[CM_HOOK_COUNT] __attribute__((visibility("hidden")));

/* The row of an exported name, or NULL. Calls nothing. */
const struct cm_hook *cm_hook_find(const char *symbol);

#endif
