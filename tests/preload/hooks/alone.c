/* SPDX-License-Identifier: MIT */
/*
 * What the test programs ask the library of hooks alone, by dlsym(RTLD_DEFAULT,
 * "cudamem_hooks_...").
 */
#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/hooks.h"
#include "interpose/symbols/real.h"
#include "interpose/wrappers/naming.h"

#pragma GCC visibility push(default)
unsigned int cudamem_hooks_calls(const char *symbol);
uint64_t cudamem_hooks_counted(enum cm_entry_point entry);
bool cudamem_hooks_complete(void);
int cudamem_hooks_record_event(void);
#pragma GCC visibility pop

/* Of pass.S, one a row of hooks.def. */
extern unsigned int calls[] __attribute__((visibility("hidden")));

static uint64_t counted[CM_ENTRY_COUNT];

/* Calls that name memory are passed on. */
#define NOTHING(name)                                                  \
	void name(const struct cm_naming *row, const uint64_t args[6]) \
	{                                                              \
		(void)row;                                             \
		(void)args;                                            \
	}
NOTHING(cm_name_range)
NOTHING(cm_name_block)
NOTHING(cm_name_vectors)
NOTHING(cm_name_batch)
NOTHING(cm_name_umem)
NOTHING(cm_name_all)

/* How often a hooked function was called through its wrapper. */
unsigned int cudamem_hooks_calls(const char *symbol)
{
	const struct cm_hook *hook = cm_hook_find(symbol);

	return __atomic_load_n(&calls[hook - cm_hooks], __ATOMIC_RELAXED);
}

uint64_t cudamem_hooks_counted(enum cm_entry_point entry)
{
	cm_entry_points_publish(counted);
	return __atomic_load_n(&counted[entry], __ATOMIC_RELAXED);
}

bool cudamem_hooks_complete(void)
{
	return cm_real_is_complete();
}

/* A function that we only use. */
int cudamem_hooks_record_event(void)
{
	return (int)cm_real.cuCtxRecordEvent(NULL, NULL);
}
