/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_parts.h"

uint64_t fake_work_number; /* of all drivers: it only has to move */
uint64_t fake_work_ended;

bool fake_is_over(const struct fake_work *work)
{
	return work->end_ns != FAKE_FOREVER && work->end_ns <= fake->now_ns;
}

void fake_drop_ended(void)
{
	size_t i, n = 0;

	for (i = 0; i < fake->works; i++)
		if (!fake_is_over(&fake->work[i]))
			fake->work[n++] = fake->work[i];
	fake->works = n;
}

/* Work that has ended is not in the table: what remains decides, and the present. */
static uint64_t end_of(const struct fake_work *work)
{
	uint64_t start = fake->now_ns;
	size_t i;

	for (i = 0; i < fake->works && fake->work[i].number < work->number; i++)
		if (fake->work[i].ctx == work->ctx &&
		    (fake->work[i].stream == work->stream || fake->work[i].number < work->floor) &&
		    fake->work[i].end_ns > start)
			start = fake->work[i].end_ns;
	return start == FAKE_FOREVER || work->duration_ns == FAKE_FOREVER
		       ? FAKE_FOREVER
		       : start + work->duration_ns;
}

static uint64_t submit(uint64_t ctx, uint64_t stream, uint64_t addr, uint64_t bytes,
		       uint64_t duration_ns, bool counted)
{
	struct fake_work work = {.ctx = ctx,
				 .stream = stream,
				 .addr = addr,
				 .bytes = bytes,
				 .duration_ns = duration_ns};

	(void)pthread_mutex_lock(&fake->lock);
	fake_drop_ended();
	if (!fake_find_context(ctx))
		fake_complain("work in no context", ctx, addr);
	else
		work.floor = fake_find_context(ctx)->floor;
	work.number = fake->next_work++;
	work.end_ns = end_of(&work);
	fake->work = fake_grow(fake->work, &fake->work_room, fake->works + 1, sizeof(work));
	if (fake_find_context(ctx) && !fake_find_context(ctx)->error)
		fake->work[fake->works++] = work;
	(void)__atomic_fetch_add(&fake_work_number, counted, __ATOMIC_RELAXED);
	(void)__atomic_fetch_add(&fake_work_ended, counted, __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&fake->lock);
	return work.number;
}

uint64_t fake_submit(uint64_t ctx, uint64_t stream, uint64_t addr, uint64_t bytes,
		     uint64_t duration_ns)
{
	return submit(ctx, stream, addr, bytes, duration_ns, true);
}

uint64_t fake_copy(uint64_t ctx, uint64_t stream, uint64_t addr, uint64_t bytes,
		   uint64_t duration_ns)
{
	return submit(ctx, stream, addr, bytes, duration_ns, false);
}

/* What waited for work that has just ended gets an end of its own. */
static void reckon_again(void)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].end_ns == FAKE_FOREVER)
			fake->work[i].end_ns = end_of(&fake->work[i]);
}

static struct fake_work *find_work(uint64_t number)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].number == number)
			return &fake->work[i];
	return NULL;
}

void fake_finish(uint64_t number)
{
	struct fake_work *work;

	(void)pthread_mutex_lock(&fake->lock);
	work = find_work(number);
	if (work && work->duration_ns == FAKE_FOREVER) {
		work->duration_ns = 0;
		reckon_again();
	}
	fake_drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

bool fake_is_done(uint64_t number)
{
	bool done;

	(void)pthread_mutex_lock(&fake->lock);
	fake_drop_ended();
	done = !find_work(number);
	(void)pthread_mutex_unlock(&fake->lock);
	return done;
}

bool fake_is_blocked(uint64_t number)
{
	const struct fake_work *work;
	bool blocked;

	(void)pthread_mutex_lock(&fake->lock);
	work = find_work(number);
	blocked = work && work->duration_ns != FAKE_FOREVER && work->end_ns == FAKE_FOREVER;
	(void)pthread_mutex_unlock(&fake->lock);
	return blocked;
}

void fake_advance(uint64_t ns)
{
	(void)pthread_mutex_lock(&fake->lock);
	fake_set_now(fake->now_ns + ns);
	fake_drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_end_forever(void)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].duration_ns == FAKE_FOREVER)
			fake->work[i].duration_ns = 0;
	fake->slept_ns = 0;
	reckon_again();
}

/* The host waits until the context's work with a smaller number has ended. */
void fake_wait_for(uint64_t ctx, uint64_t mark)
{
	size_t i;

	for (i = 0; i < fake->works; i++) {
		if (fake->work[i].ctx != ctx || fake->work[i].number >= mark)
			continue;
		if (fake->work[i].end_ns == FAKE_FOREVER) {
			if (!fake->forgiving)
				fake_complain("the host hangs", ctx, fake->work[i].number);
			fake_end_forever();
		}
		if (fake->work[i].end_ns > fake->now_ns)
			fake_set_now(fake->work[i].end_ns);
	}
	fake_drop_ended();
}

void fake_finish_all(void)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	fake_end_forever();
	for (i = 0; i < fake->works; i++)
		if (fake->work[i].end_ns > fake->now_ns)
			fake_set_now(fake->work[i].end_ns);
	fake_drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

bool fake_is_complete(uint64_t ctx, uint64_t mark)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx == ctx && fake->work[i].number < mark)
			return false;
	return true;
}

void fake_end_work_of(uint64_t ctx)
{
	size_t i, n = 0;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx != ctx)
			fake->work[n++] = fake->work[i];
	fake->works = n;
}

bool fake_touches(const struct fake_work *work, uint64_t addr, uint64_t bytes)
{
	return work->bytes && work->addr < addr + bytes && addr < work->addr + work->bytes;
}

static uint32_t contexts_alive(uint32_t device)
{
	uint32_t i, n = 0;

	for (i = 0; i < FAKE_CONTEXTS_MAX; i++)
		n += fake->context[i].handle != 0 && !fake->context[i].in_making &&
		     fake->context[i].device == device;
	return n;
}

static bool is_named(uint64_t addr, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < fake->names; i++)
		if (fake->named[i].addr < addr + bytes &&
		    addr < fake->named[i].addr + fake->named[i].bytes)
			return true;
	return false;
}

void fake_allocated(uint64_t ctx, uint64_t addr, uint64_t bytes)
{
	const struct fake_context *context;
	struct fake_memory memory = fake_memory_of(addr);
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	context = fake_find_context(ctx);
	if (!context || !fake_is_given(context, addr, bytes))
		fake_complain("memory that the driver has not given", addr, bytes);
	for (i = 0; context && i < fake->works; i++) {
		struct fake_work *work = &fake->work[i];

		if (fake_is_over(work) || !fake_touches(work, addr, bytes))
			continue;
		/* Behind a barrier, but the CPU could touch host memory before it. */
		if (memory.device != FAKE_HOST && work->ctx == ctx &&
		    work->number < context->floor && !context->reached && !is_named(addr, bytes) &&
		    contexts_alive(context->device) == 1)
			work->stale = true;
		else
			fake_complain("allocated while work may touch it", addr, work->number);
	}
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_judge_reach(uint64_t ctx)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx == ctx && fake->work[i].stale &&
		    !fake_is_over(&fake->work[i]))
			fake_complain("others reach memory that old work touches",
				      fake->work[i].addr, fake->work[i].number);
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_reach(uint64_t ctx)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (fake_find_context(ctx))
		fake_find_context(ctx)->reached = true;
	(void)pthread_mutex_unlock(&fake->lock);
	fake_judge_reach(ctx);
}

void fake_name(uint64_t addr, uint64_t bytes)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	if (fake->names < FAKE_NAMED_MAX)
		fake->named[fake->names++] = (struct fake_range){addr, bytes};
	for (i = 0; i < fake->works; i++)
		if (fake->work[i].stale && !fake_is_over(&fake->work[i]) &&
		    fake_touches(&fake->work[i], addr, bytes))
			fake_complain("memory is named that old work touches", addr,
				      fake->work[i].number);
	(void)pthread_mutex_unlock(&fake->lock);
}
