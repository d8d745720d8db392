/* SPDX-License-Identifier: MIT */
#include "interpose/symbols/hooks.h"

#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/next_symbol.h"

const struct cm_hook cm_hooks[] = {
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
const size_t cm_hook_count = sizeof(cm_hooks) / sizeof(cm_hooks[0]);

/*
 * Few rows, and their third letter tells most of them apart: for a name that is none of them the
 * scan takes about as long as dlsym itself.
 */
const struct cm_hook *cm_hook_find(const char *symbol)
{
	size_t i;

	if (!cm_text_has_prefix(symbol, "cu"))
		return NULL;
	for (i = 0; i < cm_hook_count; i++) {
		const struct cm_hook *hook = &cm_hooks[i];

		if (hook->symbol[2] == symbol[2] && cm_text_is_equal(hook->symbol, symbol))
			return hook;
	}
	return NULL;
}
