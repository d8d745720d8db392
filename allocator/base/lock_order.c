/* SPDX-License-Identifier: MIT */
#include "allocator/base/lock_order.h"

#ifndef NDEBUG

#include <assert.h>
#include <stdio.h>

#include "allocator/base/lock.h"
#include "allocator/base/thread.h"

static const char *const names[] = {
	"UNRANKED",
#define CM_LOCK_RANK(name) #name,
#include "allocator/base/lock_ranks.def"
#undef CM_LOCK_RANK
};

/* What assert() does, with a text of our own. */
static _Noreturn void fail(const struct cm_lock *lock, enum cm_lock_rank held)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "lock order: %s %u is taken while %s %u is held",
		       names[lock->rank], lock->row, names[held], cm_thread.locks.row[held]);
	__assert_fail(text, __FILE__, __LINE__, __func__);
}

void cm_lock_check_order(const struct cm_lock *lock)
{
	const struct cm_lock_holds *holds = &cm_thread.locks;
	enum cm_lock_rank held;

	assert(lock->rank != CM_LOCK_UNRANKED && lock->rank < CM_LOCK_RANKS);
	for (held = lock->rank; held < CM_LOCK_RANKS; held++)
		if (holds->count[held] && (held != lock->rank || lock->row <= holds->row[held]))
			fail(lock, held);
}

void cm_lock_note_held(const struct cm_lock *lock)
{
	uint8_t *count = &cm_thread.locks.count[lock->rank];
	uint8_t *row = &cm_thread.locks.row[lock->rank];

	if (!(*count)++ || *row < lock->row)
		*row = lock->row;
}

void cm_lock_note_released(const struct cm_lock *lock)
{
	uint8_t *count = &cm_thread.locks.count[lock->rank];
	uint8_t *row = &cm_thread.locks.row[lock->rank];

	assert(*count);
	if (--*count && *row == lock->row)
		(*row)--;
}

#endif
