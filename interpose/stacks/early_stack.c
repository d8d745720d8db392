/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/early_stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "stats/modules.h"

enum state { NONE, BEING_KEPT, KEPT };

static struct early_stack {
	_Atomic uint32_t state; /* enum state; guards the rest */
	bool cut;
	const char *by;
	uint64_t unloads; /* when it was kept */
	size_t frames;
	uint64_t frame[CM_EARLY_FRAMES];
} kept[CM_CAUSE_COUNT];

void cm_early_stack_keep(enum cm_cause cause, const char *by, const struct cm_unwind_skip *own)
{
	struct early_stack *stack = &kept[cause];
	uint32_t none = NONE;
	int saved = errno;

	if (!atomic_compare_exchange_strong(&stack->state, &none, BEING_KEPT))
		return;
	stack->by = by;
	stack->unloads = cm_modules_unloads();
	stack->frames = cm_unwind(own, stack->unloads, stack->frame, CM_EARLY_FRAMES, &stack->cut);
	/* Release: a thread that sees KEPT sees the stack. */
	atomic_store_explicit(&stack->state, KEPT, memory_order_release);
	errno = saved;
}

size_t cm_early_stack_read(enum cm_cause cause, const char *by, uint64_t unloads, uint64_t *frames,
			   size_t max, bool *ret_cut)
{
	const struct early_stack *stack = &kept[cause];
	size_t count;

	*ret_cut = false;
	if (atomic_load_explicit(&stack->state, memory_order_acquire) != KEPT || stack->by != by ||
	    stack->unloads != unloads)
		return 0;
	count = stack->frames < max ? stack->frames : max;
	memcpy(frames, stack->frame, count * sizeof(frames[0]));
	*ret_cut = stack->cut || count < stack->frames;
	return count;
}

void cm_early_stack_forget(void)
{
	size_t i;

	for (i = 0; i < CM_CAUSE_COUNT; i++)
		atomic_store(&kept[i].state, NONE);
}
