/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_parts.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANG_NS UINT64_C(100000000000) /* nobody sleeps for so long on purpose */

struct fake_driver *fake;
static __thread uint32_t gates; /* entered by this thread */

void fake_complain(const char *what, uint64_t a, uint64_t b)
{
	if (!fake->complaint[0])
		(void)snprintf(fake->complaint, sizeof(fake->complaint), "%s (%#llx, %#llx)", what,
			       (unsigned long long)a, (unsigned long long)b);
}

/* The lock is held, but for who asks for ticks. */
void fake_set_now(uint64_t now_ns)
{
	__atomic_store_n(&fake->now_ns, now_ns, __ATOMIC_RELAXED);
}

void *fake_grow(void *rows, size_t *room, size_t want, size_t size)
{
	if (want <= *room)
		return rows;
	*room = want * 2;
	rows = realloc(rows, *room * size);
	if (!rows)
		abort();
	return rows;
}

void fake_driver_init(struct fake_driver *driver, uint64_t limit_bytes)
{
	memset(driver, 0, sizeof(*driver));
	(void)pthread_mutex_init(&driver->lock, NULL);
	(void)pthread_cond_init(&driver->gate_moved, NULL);
	driver->limit_bytes = limit_bytes;
	driver->call_ns = 1000;
	driver->next_work = 1;
	driver->next_range = FAKE_RANGE_BASE;
	fake = driver;
}

void fake_driver_fini(struct fake_driver *driver)
{
	free(driver->memory);
	free(driver->page);
	free(driver->work);
	free(driver->event);
	(void)pthread_cond_destroy(&driver->gate_moved);
	(void)pthread_mutex_destroy(&driver->lock);
	fake = NULL;
}

struct fake_context *fake_find_context(uint64_t ctx)
{
	return ctx && ctx <= FAKE_CONTEXTS_MAX && fake->context[ctx - 1].handle
		       ? &fake->context[ctx - 1]
		       : NULL;
}

/* --- contexts ----------------------------------------------------------------------------- */

static uint64_t create_context(uint32_t device, bool in_making)
{
	uint64_t ctx = 0;
	uint32_t i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < FAKE_CONTEXTS_MAX && !ctx; i++)
		if (!fake->context[i].handle) {
			ctx = i + 1;
			fake->context[i] = (struct fake_context){
				.handle = ctx, .device = device, .in_making = in_making};
		}
	(void)pthread_mutex_unlock(&fake->lock);
	return ctx;
}

uint64_t fake_context_create(uint32_t device)
{
	return create_context(device, false);
}

uint64_t fake_context_begin(uint32_t device)
{
	return create_context(device, true);
}

void fake_context_is_made(uint64_t ctx)
{
	(void)pthread_mutex_lock(&fake->lock);
	fake->context[ctx - 1].in_making = false;
	(void)pthread_mutex_unlock(&fake->lock);
}

static void break_context(struct fake_context *context, int error)
{
	context->error = error;
	fake_end_work_of(context->handle);
}

void fake_context_destroy(uint64_t ctx)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	if (fake_find_context(ctx))
		fake_find_context(ctx)->handle = 0;
	fake_end_work_of(ctx);
	fake_forget_memory_of(ctx);
	for (i = 0; i < fake->events; i++)
		if (fake->event[i].ctx == ctx)
			fake->event[i].ctx = 0;
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_context_break(uint64_t ctx, int error)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (fake_find_context(ctx))
		break_context(fake_find_context(ctx), error);
	(void)pthread_mutex_unlock(&fake->lock);
}

/* --- the operations ----------------------------------------------------------------------- */

static void judge_gate(enum fake_call call, uint64_t ctx)
{
	if (fake->capturing)
		fake_complain("a driver call while a capture is active", call, ctx);
	else if (!gates)
		fake_complain("a driver call outside the gate", call, ctx);
}

/* Begins a call with the lock taken: 0, or what it answers at once. */
int fake_begin(enum fake_call call, uint64_t ctx)
{
	struct fake_context *context;

	(void)pthread_mutex_lock(&fake->lock);
	fake->calls++;
	fake->called[call]++;
	fake_set_now(fake->now_ns + fake->call_ns);
	if (call != FAKE_EVENT_QUERY && call != FAKE_EVENT_QUERY_UNGATED)
		fake->slept_ns = 0;
	fake_drop_ended();
	if (call != FAKE_EVENT_QUERY_UNGATED && call != FAKE_EVENT_WAIT_UNGATED)
		judge_gate(call, ctx);
	context = fake_find_context(ctx);
	if (!context) {
		fake_complain("a driver call in no context", call, ctx);
		return FAKE_INVALID_VALUE;
	}
	if (fake->calls == fake->fail_call) {
		fake->failed = true;
		if (fake->fail_code == FAKE_STICKY_ERROR)
			break_context(context, FAKE_STICKY_ERROR);
		return fake->fail_code;
	}
	return context->error;
}

int fake_end(int result)
{
	(void)pthread_mutex_unlock(&fake->lock);
	return result;
}

/* As end, after what another thread does. */
int fake_end_later(int result)
{
	void (*meanwhile)(void *arg) = fake->meanwhile;

	fake->meanwhile = NULL;
	(void)fake_end(result);
	if (meanwhile)
		meanwhile(fake->meanwhile_arg);
	return result;
}

/* As begin, for what is of the process and no context's. */
int fake_begin_of_process_ungated(enum fake_call call)
{
	(void)pthread_mutex_lock(&fake->lock);
	fake->calls++;
	fake->called[call]++;
	fake_set_now(fake->now_ns + fake->call_ns);
	fake->slept_ns = 0;
	fake_drop_ended();
	if (fake->calls == fake->fail_call) {
		fake->failed = true;
		return fake->fail_code;
	}
	return 0;
}

int fake_begin_of_process(enum fake_call call)
{
	int err = fake_begin_of_process_ungated(call);

	judge_gate(call, 0);
	return err;
}

static struct fake_event *find_event(uint64_t ctx, uint64_t event)
{
	if (event && event <= fake->events && fake->event[event - 1].ctx == ctx)
		return &fake->event[event - 1];
	fake_complain("an event of another context, or of none", ctx, event);
	return NULL;
}

static int event_create(uint64_t ctx, uint64_t *ret_event)
{
	int err = fake_begin(FAKE_EVENT_CREATE, ctx);

	if (err)
		return fake_end(err);
	fake->event = fake_grow(fake->event, &fake->event_room, fake->events + 1,
				sizeof(fake->event[0]));
	fake->event[fake->events++] = (struct fake_event){.ctx = ctx};
	*ret_event = fake->events;
	return fake_end(0);
}

static int event_destroy(uint64_t ctx, uint64_t event)
{
	int err = fake_begin(FAKE_EVENT_DESTROY, ctx);

	if (!err && find_event(ctx, event))
		fake->event[event - 1].ctx = 0;
	return fake_end(err);
}

static int event_record(uint64_t ctx, uint64_t event)
{
	int err = fake_begin(FAKE_EVENT_RECORD, ctx);

	if (!err && find_event(ctx, event))
		fake->event[event - 1].mark = fake->next_work;
	return fake_end(err);
}

static int query(enum fake_call call, uint64_t ctx, uint64_t event)
{
	int err = fake_begin(call, ctx);

	if (!err && find_event(ctx, event) && !fake_is_complete(ctx, fake->event[event - 1].mark))
		err = CM_DRIVER_NOT_READY;
	return fake_end(err);
}

static int event_query(uint64_t ctx, uint64_t event)
{
	return query(FAKE_EVENT_QUERY, ctx, event);
}

static int event_query_ungated(uint64_t ctx, uint64_t event)
{
	return query(FAKE_EVENT_QUERY_UNGATED, ctx, event);
}

static int event_wait_ungated(uint64_t ctx, uint64_t event)
{
	int err = fake_begin(FAKE_EVENT_WAIT_UNGATED, ctx);

	if (!err && find_event(ctx, event))
		fake_wait_for(ctx, fake->event[event - 1].mark);
	return fake_end(err);
}

static int ctx_wait_event(uint64_t ctx, uint64_t event)
{
	int err = fake_begin(FAKE_CTX_WAIT_EVENT, ctx);
	struct fake_context *context;

	if (!err && find_event(ctx, event)) {
		context = fake_find_context(ctx);
		if (fake->event[event - 1].mark > context->floor)
			context->floor = fake->event[event - 1].mark;
	}
	return fake_end(err);
}

static int ctx_synchronize(uint64_t ctx)
{
	int err = fake_begin(FAKE_CTX_SYNCHRONIZE, ctx);

	if (!err)
		fake_wait_for(ctx, UINT64_MAX);
	return fake_end(err);
}

static bool ctx_is_dead(uint64_t ctx)
{
	int err = fake_begin(FAKE_CTX_IS_DEAD, ctx);

	return fake_end(err == FAKE_STICKY_ERROR);
}

static bool gate_enter(void)
{
	bool open;

	(void)pthread_mutex_lock(&fake->lock);
	open = !fake->capturing;
	if (open) {
		fake->inside_gate++;
		gates++;
	}
	(void)pthread_mutex_unlock(&fake->lock);
	return open;
}

static void gate_leave(void)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (!gates)
		fake_complain("the gate is left, but was not entered", 0, 0);
	else
		gates--;
	fake->inside_gate--;
	(void)pthread_cond_broadcast(&fake->gate_moved);
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_capture(bool active)
{
	(void)pthread_mutex_lock(&fake->lock);
	while (active && fake->inside_gate)
		(void)pthread_cond_wait(&fake->gate_moved, &fake->lock);
	fake->capturing = active;
	(void)pthread_mutex_unlock(&fake->lock);
}

/* Without the lock, which would order threads that nothing else does, and hide that from TSan. */
static uint64_t tick(void)
{
	/* Goes with the time, and never stands still. Asked for under locks of the allocator. */
	return __atomic_add_fetch(&fake->ticks, 1, __ATOMIC_RELAXED) +
	       __atomic_load_n(&fake->now_ns, __ATOMIC_RELAXED);
}

static uint64_t now_ns(void)
{
	uint64_t now;

	(void)pthread_mutex_lock(&fake->lock);
	now = fake->now_ns;
	(void)pthread_mutex_unlock(&fake->lock);
	return now;
}

static void sleep_ns(uint64_t ns)
{
	/* Who sleeps lets others run: what is waited for may be another thread. */
	(void)sched_yield();
	(void)pthread_mutex_lock(&fake->lock);
	if (gates && !fake->modelled)
		fake_complain("the host sleeps inside the gate", ns, gates);
	fake_set_now(fake->now_ns + ns);
	fake->slept_ns += ns;
	fake->capturing |= fake->captures_in_sleep && !fake->inside_gate;
	if (fake->slept_ns > HANG_NS) {
		if (!fake->forgiving)
			fake_complain("the host waits without end", ns, fake->slept_ns);
		fake_end_forever();
	}
	fake_drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

/* Somebody else on device 0 gives what the test has planned. */
static void ask_peers(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret)
{
	(void)uuid;
	*ret = (struct cm_peers){0};
	(void)pthread_mutex_lock(&fake->lock);
	if (gates)
		fake_complain("others are asked inside the gate", wanted, gates);
	fake->peer_wanted = wanted;
	if (wanted && fake->peer_bytes) {
		ret->asked = 1;
		ret->given_bytes = fake->peer_gives;
		fake->limit_bytes += fake->peer_gives;
		fake->peer_bytes -= fake->peer_gives;
	}
	ret->count = fake->peer_bytes != 0;
	ret->held_bytes = (int64_t)fake->peer_bytes;
	(void)pthread_mutex_unlock(&fake->lock);
}

static void show_oom(void)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (gates)
		fake_complain("a failure is shown inside the gate", 0, gates);
	fake->ooms_shown++;
	(void)pthread_mutex_unlock(&fake->lock);
}

static void tell_oom(const struct cm_oom *oom)
{
	(void)pthread_mutex_lock(&fake->lock);
	fake->ooms_told++;
	fake->last_oom = *oom;
	(void)pthread_mutex_unlock(&fake->lock);
}

const struct cm_driver_ops *fake_driver_ops(void)
{
	static const struct cm_driver_ops ops = {
		.mem_alloc = fake_mem_alloc,
		.mem_free = fake_mem_free,
		.mem_info = fake_mem_info,
		.range_reserve = fake_range_reserve,
		.range_free = fake_range_free,
		.page_create = fake_page_create,
		.page_release = fake_page_release,
		.page_map = fake_page_map,
		.page_unmap = fake_page_unmap,
		.range_open = fake_range_open,
		.range_open_ungated = fake_range_open_ungated,
		.host_alloc = fake_host_alloc,
		.host_free = fake_host_free,
		.event_create = event_create,
		.event_destroy = event_destroy,
		.event_record = event_record,
		.event_query = event_query,
		.event_query_ungated = event_query_ungated,
		.event_wait_ungated = event_wait_ungated,
		.ctx_wait_event = ctx_wait_event,
		.ctx_synchronize = ctx_synchronize,
		.ctx_is_dead = ctx_is_dead,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
		.work_number = &fake_work_number,
		.work_ended = &fake_work_ended,
		.ask_peers = ask_peers,
		.tell_oom = tell_oom,
		.show_oom = show_oom,
		.tick = tick,
		.now_ns = now_ns,
		.sleep_ns = sleep_ns,
	};

	return &ops;
}

size_t fake_events_alive(void)
{
	size_t i, n = 0;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->events; i++)
		n += fake->event[i].ctx != 0;
	(void)pthread_mutex_unlock(&fake->lock);
	return n;
}
