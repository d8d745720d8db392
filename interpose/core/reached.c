/* SPDX-License-Identifier: MIT */
#include "interpose/core/reached.h"

#include <stdatomic.h>
#include <stddef.h>

/* Both are sequentially consistent: a thread that sets `tell` and then finds no note is called
 * later. */
static const char *_Atomic noted;
static void (*_Atomic told)(const char *symbol);

void cm_reached_note(const char *symbol)
{
	void (*tell)(const char *symbol);
	const char *none = NULL;

	(void)atomic_compare_exchange_strong(&noted, &none, symbol);
	tell = atomic_load(&told);
	if (tell)
		tell(symbol);
}

const char *cm_reached_noted(void)
{
	return atomic_load(&noted);
}

void cm_reached_on_note(void (*tell)(const char *symbol))
{
	atomic_store(&told, tell);
}
