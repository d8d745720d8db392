/* SPDX-License-Identifier: MIT */
#include "interpose/symbols/hook_table.h"

#include <stddef.h>

#include "interpose/symbols/next_symbol.h"

/* Few rows, and the third letter excludes most of them: a miss costs about as much as dlsym
 * itself. */
const struct cm_hook *cm_hook_find(const char *symbol)
{
	size_t i;

	if (!cm_text_has_prefix(symbol, "cu"))
		return NULL;
	for (i = 0; i < CM_HOOK_COUNT; i++) {
		const struct cm_hook *hook = &cm_hooks[i];

		if (hook->symbol[2] == symbol[2] && cm_text_is_equal(hook->symbol, symbol))
			return hook;
	}
	return NULL;
}
