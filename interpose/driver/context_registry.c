/* SPDX-License-Identifier: MIT */
#include "interpose/driver/context_registry.h"

#include <string.h>

#include "allocator/base/gate.h"
#include "allocator/base/lock.h"
#include "interpose/driver/current.h"
#include "interpose/driver/driver_ops.h"

/* As many as a fence covers; guarded by the lock. */
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_REGISTRY);
static struct cm_known_context registry[CM_FENCE_CONTEXTS];
static size_t count;

static struct cm_known_context *find_locked(CUcontext ctx)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (registry[i].ctx == ctx)
			return &registry[i];
	return NULL;
}

struct cm_known_context cm_registry_read(CUcontext ctx)
{
	const struct cm_known_context *found;
	struct cm_known_context copy = {0};

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		copy = *found;
	cm_lock_release(&lock);
	return copy;
}

CUcontext cm_registry_find(CUdevice device, unsigned kinds)
{
	CUcontext ctx = NULL;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < count; i++)
		if (registry[i].device == device && registry[i].kind & kinds)
			ctx = registry[i].ctx;
	cm_lock_release(&lock);
	return ctx;
}

bool cm_registry_add(CUcontext ctx, CUdevice device, enum cm_context_kind kind)
{
	struct cm_known_context *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (!found && count < CM_FENCE_CONTEXTS) {
		found = &registry[count++];
		*found = (struct cm_known_context){
			.ctx = ctx, .kind = kind, .is_found = kind == CM_CONTEXT_SEEN};
	}
	if (found) {
		found->device = device;
		found->kind = kind == CM_CONTEXT_SEEN ? found->kind : kind;
	}
	cm_lock_release(&lock);
	return found;
}

void cm_registry_remove(CUcontext ctx)
{
	struct cm_known_context *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		*found = registry[--count];
	cm_lock_release(&lock);
}

void cm_registry_count_users(CUcontext ctx, int change)
{
	struct cm_known_context *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->users += (unsigned)change;
	cm_lock_release(&lock);
}

void cm_registry_open_to(CUcontext ctx, CUdevice device)
{
	struct cm_known_context *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->open_to |= UINT64_C(1) << device;
	cm_lock_release(&lock);
}

bool cm_registry_pin_all(CUcontext ret_list[CM_FENCE_CONTEXTS], size_t *ret_count)
{
	bool can_pin = true;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < count; i++)
		can_pin &= !registry[i].in_teardown;
	for (i = 0; i < count && can_pin; i++) {
		registry[i].pins++;
		ret_list[i] = registry[i].ctx;
	}
	if (can_pin)
		*ret_count = count;
	cm_lock_release(&lock);
	return can_pin;
}

bool cm_registry_pin(CUcontext ctx)
{
	struct cm_known_context *found;
	bool can_pin;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	can_pin = found && !found->in_teardown;
	if (can_pin)
		found->pins++;
	cm_lock_release(&lock);
	return can_pin;
}

void cm_registry_unpin_all(const CUcontext *list, size_t n)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < n; i++)
		find_locked(list[i])->pins--;
	cm_lock_release(&lock);
}

static void backoff(void)
{
	cm_driver_ops()->sleep_ns(CM_GATE_BACKOFF_NS);
}

static void set_in_teardown(CUcontext ctx, bool in_teardown)
{
	struct cm_known_context *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->in_teardown = in_teardown;
	cm_lock_release(&lock);
}

void cm_registry_begin_teardown(CUcontext ctx)
{
	set_in_teardown(ctx, true);
	cm_context_forget_streams();
	while (cm_registry_read(ctx).pins)
		backoff();
}

void cm_registry_abort_teardown(CUcontext ctx)
{
	set_in_teardown(ctx, false);
}

void cm_registry_await_removal(CUcontext ctx)
{
	while (cm_registry_read(ctx).in_teardown)
		backoff();
}

void cm_registry_forget_all(void)
{
	cm_lock_init(&lock, CM_LOCK_REGISTRY, 0);
	count = 0;
}
