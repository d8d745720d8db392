/* SPDX-License-Identifier: MIT */
#include "interpose/driver/context_registry.h"

#include <string.h>

#include "allocator/base/lock.h"
#include "interpose/driver/driver_ops.h"

/* As many as a fence captures; guarded by the lock. */
static struct cm_lock lock;
static struct cm_noted noted[CM_FENCE_CONTEXTS];
static size_t count;

static struct cm_noted *find_locked(CUcontext ctx)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (noted[i].ctx == ctx)
			return &noted[i];
	return NULL;
}

struct cm_noted cm_noted_read(CUcontext ctx)
{
	const struct cm_noted *found;
	struct cm_noted copy = {0};

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		copy = *found;
	cm_lock_release(&lock);
	return copy;
}

CUcontext cm_noted_find(CUdevice device, unsigned kinds)
{
	CUcontext ctx = NULL;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < count; i++)
		if (noted[i].device == device && noted[i].kind & kinds)
			ctx = noted[i].ctx;
	cm_lock_release(&lock);
	return ctx;
}

bool cm_noted_add(CUcontext ctx, CUdevice device, enum cm_noted_kind kind)
{
	struct cm_noted *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (!found && count < CM_FENCE_CONTEXTS) {
		found = &noted[count++];
		*found = (struct cm_noted){.ctx = ctx, .kind = kind};
	}
	if (found) {
		found->device = device;
		found->kind = kind == CM_NOTED_MET ? found->kind : kind;
	}
	cm_lock_release(&lock);
	return found;
}

void cm_noted_remove(CUcontext ctx)
{
	struct cm_noted *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		*found = noted[--count];
	cm_lock_release(&lock);
}

void cm_noted_count_users(CUcontext ctx, int change)
{
	struct cm_noted *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->users += (unsigned)change;
	cm_lock_release(&lock);
}

void cm_noted_open_to(CUcontext ctx, CUdevice device)
{
	struct cm_noted *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->open_to |= UINT64_C(1) << device;
	cm_lock_release(&lock);
}

bool cm_noted_begin_visits(CUcontext ret_list[CM_FENCE_CONTEXTS], size_t *ret_count)
{
	bool begins = true;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < count; i++)
		begins &= !noted[i].leaving;
	for (i = 0; i < count && begins; i++) {
		noted[i].visits++;
		ret_list[i] = noted[i].ctx;
	}
	if (begins)
		*ret_count = count;
	cm_lock_release(&lock);
	return begins;
}

void cm_noted_end_visits(const CUcontext *list, size_t n)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < n; i++)
		find_locked(list[i])->visits--;
	cm_lock_release(&lock);
}

static void nap(void)
{
	cm_driver_ops()->sleep_ns(CM_FENCE_NAP_NS);
}

static void set_leaving(CUcontext ctx, bool leaving)
{
	struct cm_noted *found;

	cm_lock_acquire(&lock);
	found = find_locked(ctx);
	if (found)
		found->leaving = leaving;
	cm_lock_release(&lock);
}

void cm_noted_bid_leave(CUcontext ctx)
{
	set_leaving(ctx, true);
	while (cm_noted_read(ctx).visits)
		nap();
}

void cm_noted_has_stayed(CUcontext ctx)
{
	set_leaving(ctx, false);
}

void cm_noted_await_removal(CUcontext ctx)
{
	while (cm_noted_read(ctx).leaving)
		nap();
}

void cm_noted_forget_all(void)
{
	cm_lock_init(&lock);
	count = 0;
}
