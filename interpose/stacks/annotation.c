/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/annotation.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/base/thread.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"

/* Names kept per thread. Deeper ones are only counted, to match their pops; events keep the
 * innermost kept name. */
#define LEVELS_MAX 32

static __thread struct {
	uint32_t count;
	uint32_t beyond; /* names beyond LEVELS_MAX, all nested in the kept ones */
	struct {
		uint32_t domain; /* a hash; equal hashes count as one domain */
		uint32_t text;
		char *early; /* the name, until it can be recorded; NULL: it has been */
	} level[LEVELS_MAX];
} names;

static uint32_t hash_domain(uintptr_t domain)
{
	return (uint32_t)(domain * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static int count_in(uint32_t domain, uint32_t count)
{
	int n = 0;

	while (count-- > 0)
		n += names.level[count].domain == domain;
	return n;
}

static void publish_innermost(void)
{
	cm_thread.annotation = names.count ? names.level[names.count - 1].text : 0;
}

/* Inside the hook: an allocation in a signal handler must not wait for the lock of the texts. */
static uint32_t record_range(uint32_t level, const char *name)
{
	const bool entered = cm_hook_enter();
	const uint32_t text = cm_record_range(level ? names.level[level - 1].text : 0, name);

	if (entered)
		cm_hook_leave();
	return text;
}

/* Not recorded: there is no region yet, or no space in it. */
static char *keep_early(const char *name, uint32_t text)
{
	return name && !text ? strdup(name) : NULL;
}

void cm_annotation_record_early(void)
{
	uint32_t i;

	for (i = 0; i < names.count; i++) {
		if (!names.level[i].early)
			continue;
		names.level[i].text = record_range(i, names.level[i].early);
		if (!names.level[i].text)
			return;
		free(names.level[i].early);
		names.level[i].early = NULL;
	}
	publish_innermost();
}

int cm_annotation_push(uintptr_t domain, const char *name)
{
	const uint32_t hash = hash_domain(domain);
	const int level = count_in(hash, names.count);

	cm_annotation_record_early();
	if (names.count == LEVELS_MAX)
		return level + (int)names.beyond++;
	names.level[names.count].domain = hash;
	names.level[names.count].text = name ? record_range(names.count, name) : 0;
	names.level[names.count].early = keep_early(name, names.level[names.count].text);
	names.count++;
	publish_innermost();
	return level;
}

int cm_annotation_pop(uintptr_t domain)
{
	const uint32_t hash = hash_domain(domain);
	uint32_t at = names.count;
	int level;

	if (names.beyond)
		return count_in(hash, names.count) + (int)--names.beyond;
	while (at > 0 && names.level[at - 1].domain != hash)
		at--;
	if (!at)
		return -1;
	level = count_in(hash, at - 1);
	free(names.level[at - 1].early);
	memmove(&names.level[at - 1], &names.level[at],
		(names.count - at) * sizeof(names.level[0]));
	names.count--;
	publish_innermost();
	cm_annotation_record_early();
	return level;
}

void cm_annotation_forget(void)
{
	uint32_t i;

	for (i = 0; i < names.count; i++)
		names.level[i].text = 0;
	publish_innermost();
}
