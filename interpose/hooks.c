/* SPDX-License-Identifier: MIT */
#include "interpose/hooks.h"

#include "interpose/doors.h"
#include "interpose/next_symbol.h"

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
#include "interpose/hooks.def"
};
const size_t cm_hook_count = sizeof(cm_hooks) / sizeof(cm_hooks[0]);

/* Few rows, most of which differ within a few characters: a scan takes less than dlsym itself. */
const struct cm_hook *cm_hook_find(const char *symbol)
{
	size_t i;

	for (i = 0; i < cm_hook_count; i++) {
		if (cm_text_is_equal(cm_hooks[i].symbol, symbol))
			return &cm_hooks[i];
	}
	return NULL;
}
