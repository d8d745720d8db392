/* SPDX-License-Identifier: MIT */
/*
 * The rows of hooks.def with the addresses of our functions. Data only, so that the folders below
 * reach the wrappers through it without calling them.
 */
#include "interpose/symbols/hook_table.h"
#include "interpose/symbols/hooks.h"

const struct cm_hook cm_hooks[CM_HOOK_COUNT] = {
#define CM_HOOK(symbol, base, version, flags) \
	{#symbol,                             \
	 base,                                \
	 version,                             \
	 flags,                               \
	 (void *)cm_wrap_##symbol,            \
	 (void *)symbol,                      \
	 (cm_real_slot *)&cm_real.symbol},
#define CM_USE(symbol, base, version, flags) \
	{#symbol, base, version, flags, NULL, NULL, (cm_real_slot *)&cm_real.symbol},
#define CM_KNOWN(symbol, base, version, flags) {#symbol, base, version, flags, NULL, NULL, NULL},
#define CM_ALIAS(symbol, base, version, flags) {#symbol, base, version, flags, NULL, NULL, NULL},
#include "interpose/symbols/hooks.def"
};
