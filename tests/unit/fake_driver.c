/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_driver.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB          (UINT64_C(1) << 20)
#define PAGE         (2 * MIB)
#define DEVICE_BASE  UINT64_C(0x700000000000)
#define DEVICE_BYTES (UINT64_C(1) << 40)
#define RANGE_BASE   UINT64_C(0x600000000000)
#define HANG_NS      UINT64_C(100000000000) /* nobody sleeps for so long on purpose */

static uint64_t work_number; /* of all drivers: it only has to move */
static struct fake_driver *fake;
static __thread uint32_t gates; /* entered by this thread */

static void complain(const char *what, uint64_t a, uint64_t b)
{
	if (!fake->complaint[0])
		(void)snprintf(fake->complaint, sizeof(fake->complaint), "%s (%#llx, %#llx)", what,
			       (unsigned long long)a, (unsigned long long)b);
}

/* The lock is held, but for who asks for ticks. */
static void set_now(uint64_t now_ns)
{
	__atomic_store_n(&fake->now_ns, now_ns, __ATOMIC_RELAXED);
}

static void *grow(void *rows, size_t *room, size_t want, size_t size)
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
	driver->next_range = RANGE_BASE;
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

static struct fake_context *find_context(uint64_t ctx)
{
	return ctx && ctx <= FAKE_CONTEXTS_MAX && fake->context[ctx - 1].handle
		       ? &fake->context[ctx - 1]
		       : NULL;
}

/* --- work and time ------------------------------------------------------------------------ */

static bool is_over(const struct fake_work *work)
{
	return work->end_ns != FAKE_FOREVER && work->end_ns <= fake->now_ns;
}

static void drop_ended(void)
{
	size_t i, n = 0;

	for (i = 0; i < fake->works; i++)
		if (!is_over(&fake->work[i]))
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
	drop_ended();
	if (!find_context(ctx))
		complain("work in no context", ctx, addr);
	else
		work.floor = find_context(ctx)->floor;
	work.number = fake->next_work++;
	work.end_ns = end_of(&work);
	fake->work = grow(fake->work, &fake->work_room, fake->works + 1, sizeof(work));
	if (find_context(ctx) && !find_context(ctx)->error)
		fake->work[fake->works++] = work;
	(void)__atomic_fetch_add(&work_number, counted, __ATOMIC_RELAXED);
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
	drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

bool fake_is_done(uint64_t number)
{
	bool done;

	(void)pthread_mutex_lock(&fake->lock);
	drop_ended();
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
	set_now(fake->now_ns + ns);
	drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

static void end_forever(void)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].duration_ns == FAKE_FOREVER)
			fake->work[i].duration_ns = 0;
	fake->slept_ns = 0;
	reckon_again();
}

/* The host waits until the context's work with a smaller number has ended. */
static void wait_for(uint64_t ctx, uint64_t mark)
{
	size_t i;

	for (i = 0; i < fake->works; i++) {
		if (fake->work[i].ctx != ctx || fake->work[i].number >= mark)
			continue;
		if (fake->work[i].end_ns == FAKE_FOREVER) {
			if (!fake->forgiving)
				complain("the host hangs", ctx, fake->work[i].number);
			end_forever();
		}
		if (fake->work[i].end_ns > fake->now_ns)
			set_now(fake->work[i].end_ns);
	}
	drop_ended();
}

void fake_finish_all(void)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	end_forever();
	for (i = 0; i < fake->works; i++)
		if (fake->work[i].end_ns > fake->now_ns)
			set_now(fake->work[i].end_ns);
	drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

/* --- the referee -------------------------------------------------------------------------- */

static bool touches(const struct fake_work *work, uint64_t addr, uint64_t bytes)
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

static struct fake_page *find_page(uint64_t addr)
{
	size_t i;

	for (i = 0; i < fake->pages; i++)
		if (fake->page[i].addr && addr >= fake->page[i].addr &&
		    addr - fake->page[i].addr < fake->page[i].bytes)
			return &fake->page[i];
	return NULL;
}

/* Whether the context may use all of the range. */
static bool is_given(const struct fake_context *context, uint64_t addr, uint64_t bytes)
{
	struct fake_page *page;
	size_t i;

	while (addr >= RANGE_BASE && addr < fake->next_range) {
		page = find_page(addr);
		if (!page || !(page->open >> page->device & 1) || page->device != context->device)
			return false;
		page->user = context->handle;
		if (addr + bytes <= page->addr + page->bytes)
			return true;
		bytes -= page->addr + page->bytes - addr;
		addr = page->addr + page->bytes;
	}
	for (i = 0; i < fake->memories; i++)
		if (addr >= fake->memory[i].addr &&
		    addr + bytes <= fake->memory[i].addr + fake->memory[i].bytes)
			return fake->memory[i].ctx == context->handle;
	return false;
}

void fake_hand_out(uint64_t ctx, uint64_t addr, uint64_t bytes)
{
	const struct fake_context *context;
	struct fake_memory memory = fake_memory_of(addr);
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	context = find_context(ctx);
	if (!context || !is_given(context, addr, bytes))
		complain("memory that the driver has not given", addr, bytes);
	for (i = 0; context && i < fake->works; i++) {
		struct fake_work *work = &fake->work[i];

		if (is_over(work) || !touches(work, addr, bytes))
			continue;
		/* Behind a barrier, but the CPU could touch host memory before it. */
		if (memory.device != FAKE_HOST && work->ctx == ctx &&
		    work->number < context->floor && !context->reached &&
		    contexts_alive(context->device) == 1)
			work->stale = true;
		else
			complain("handed out while work may touch it", addr, work->number);
	}
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_judge_reach(uint64_t ctx)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx == ctx && fake->work[i].stale && !is_over(&fake->work[i]))
			complain("others reach memory that old work touches", fake->work[i].addr,
				 fake->work[i].number);
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_reach(uint64_t ctx)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (find_context(ctx))
		find_context(ctx)->reached = true;
	(void)pthread_mutex_unlock(&fake->lock);
	fake_judge_reach(ctx);
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

static void end_work_of(uint64_t ctx)
{
	size_t i, n = 0;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx != ctx)
			fake->work[n++] = fake->work[i];
	fake->works = n;
}

static void break_context(struct fake_context *context, int error)
{
	context->error = error;
	end_work_of(context->handle);
}

/* Who gives memory to the driver while work of another context touches it has the driver to blame:
 * that work touches nothing of ours any more. */
static void forgive(uint64_t addr, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (touches(&fake->work[i], addr, bytes))
			fake->work[i].bytes = 0;
}

static void remove_memory(size_t at)
{
	forgive(fake->memory[at].addr, fake->memory[at].bytes);
	fake->used_bytes[fake->memory[at].device] -= fake->memory[at].bytes;
	fake->memories--;
	memmove(&fake->memory[at], &fake->memory[at + 1],
		(fake->memories - at) * sizeof(fake->memory[0]));
}

void fake_context_destroy(uint64_t ctx)
{
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	if (find_context(ctx))
		find_context(ctx)->handle = 0;
	end_work_of(ctx);
	for (i = fake->memories; i-- > 0;)
		if (fake->memory[i].ctx == ctx)
			remove_memory(i);
	for (i = 0; i < fake->pages; i++)
		if (fake->page[i].addr && fake->page[i].user == ctx)
			forgive(fake->page[i].addr, fake->page[i].bytes);
	for (i = 0; i < fake->events; i++)
		if (fake->event[i].ctx == ctx)
			fake->event[i].ctx = 0;
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_context_break(uint64_t ctx, int error)
{
	(void)pthread_mutex_lock(&fake->lock);
	if (find_context(ctx))
		break_context(find_context(ctx), error);
	(void)pthread_mutex_unlock(&fake->lock);
}

/* --- the operations ----------------------------------------------------------------------- */

static void judge_gate(enum fake_call call, uint64_t ctx)
{
	if (fake->capturing)
		complain("a driver call while a capture is active", call, ctx);
	else if (!gates)
		complain("a driver call outside the gate", call, ctx);
}

/* Begins a call with the lock taken: 0, or what it answers at once. */
static int begin(enum fake_call call, uint64_t ctx)
{
	struct fake_context *context;

	(void)pthread_mutex_lock(&fake->lock);
	fake->calls++;
	fake->called[call]++;
	set_now(fake->now_ns + fake->call_ns);
	if (call != FAKE_EVENT_QUERY && call != FAKE_EVENT_QUERY_UNGATED)
		fake->slept_ns = 0;
	drop_ended();
	if (call != FAKE_EVENT_QUERY_UNGATED)
		judge_gate(call, ctx);
	context = find_context(ctx);
	if (!context) {
		complain("a driver call in no context", call, ctx);
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

static int end(int result)
{
	(void)pthread_mutex_unlock(&fake->lock);
	return result;
}

/* Where `bytes` fit between the device's memories; *ret_at is where they go in the table. */
static uint64_t find_gap(uint32_t device, uint64_t bytes, size_t *ret_at)
{
	uint64_t grain = bytes >= PAGE ? PAGE : 512, addr = DEVICE_BASE + device * DEVICE_BYTES;
	size_t i;

	for (i = 0; i < fake->memories; i++) {
		if (fake->memory[i].device < device)
			continue;
		if (fake->memory[i].device > device || addr + bytes <= fake->memory[i].addr)
			break;
		addr = (fake->memory[i].addr + fake->memory[i].bytes + grain - 1) / grain * grain;
	}
	*ret_at = i;
	return addr;
}

/* Memory of a device, or of the host; with the lock taken. */
static int take_memory(uint64_t ctx, uint32_t device, uint32_t kind, uint64_t bytes,
		       uint64_t *ret_addr)
{
	size_t at;

	if (bytes > fake->limit_bytes - fake->used_bytes[device])
		return CM_DRIVER_OUT_OF_MEMORY;
	*ret_addr = find_gap(device, bytes, &at);
	fake->memory = grow(fake->memory, &fake->memory_room, fake->memories + 1,
			    sizeof(fake->memory[0]));
	memmove(&fake->memory[at + 1], &fake->memory[at],
		(fake->memories - at) * sizeof(fake->memory[0]));
	fake->memory[at] = (struct fake_memory){*ret_addr, bytes, ctx, device, kind};
	fake->memories++;
	fake->used_bytes[device] += bytes;
	return 0;
}

/* As end, after what another thread does. */
static int end_later(int result)
{
	void (*meanwhile)(void *arg) = fake->meanwhile;

	fake->meanwhile = NULL;
	(void)end(result);
	if (meanwhile)
		meanwhile(fake->meanwhile_arg);
	return result;
}

static int mem_alloc(uint64_t ctx, uint64_t bytes, uint64_t *ret_addr)
{
	int err = begin(FAKE_MEM_ALLOC, ctx);

	return end_later(err ? err
			     : take_memory(ctx, find_context(ctx)->device, 0, bytes, ret_addr));
}

static int host_alloc(uint64_t ctx, uint64_t bytes, uint32_t kind, uint64_t *ret_addr)
{
	int err = begin(FAKE_HOST_ALLOC, ctx);

	return end_later(err ? err : take_memory(ctx, FAKE_HOST, kind, bytes, ret_addr));
}

/* As cuMemFree is seen to do, it waits for the context; for cuMemFreeHost it is the worst case. */
static int give_memory(uint64_t ctx, bool host, uint64_t addr)
{
	size_t i;

	for (i = 0; i < fake->memories; i++)
		if (fake->memory[i].addr == addr && fake->memory[i].ctx == ctx &&
		    (fake->memory[i].device == FAKE_HOST) == host)
			break;
	if (i == fake->memories) {
		complain("a free of what the driver has not given", ctx, addr);
		return FAKE_INVALID_VALUE;
	}
	wait_for(ctx, UINT64_MAX);
	remove_memory(i);
	return 0;
}

static int mem_free(uint64_t ctx, uint64_t addr)
{
	int err = begin(FAKE_MEM_FREE, ctx);

	return end(err ? err : give_memory(ctx, false, addr));
}

static int host_free(uint64_t ctx, uint64_t addr)
{
	int err = begin(FAKE_HOST_FREE, ctx);

	return end(err ? err : give_memory(ctx, true, addr));
}

/* As begin, for what is of the process and no context's. */
static int begin_of_process_ungated(enum fake_call call)
{
	(void)pthread_mutex_lock(&fake->lock);
	fake->calls++;
	fake->called[call]++;
	set_now(fake->now_ns + fake->call_ns);
	fake->slept_ns = 0;
	drop_ended();
	if (fake->calls == fake->fail_call) {
		fake->failed = true;
		return fake->fail_code;
	}
	return 0;
}

static int begin_of_process(enum fake_call call)
{
	int err = begin_of_process_ungated(call);

	judge_gate(call, 0);
	return err;
}

static int range_reserve(uint64_t bytes, uint64_t *ret_addr)
{
	int err = begin_of_process(FAKE_RANGE_RESERVE);

	if (err)
		return end(err);
	if (!bytes || bytes % PAGE)
		complain("a range that is no pages", bytes, 0);
	*ret_addr = fake->next_range;
	fake->next_range += bytes;
	return end_later(0);
}

static int range_free(uint64_t addr, uint64_t bytes)
{
	int err = begin_of_process(FAKE_RANGE_FREE);
	size_t i;

	for (i = 0; !err && i < fake->pages; i++)
		if (fake->page[i].addr >= addr && fake->page[i].addr < addr + bytes)
			complain("a range is freed with a page in it", addr, fake->page[i].addr);
	return end(err);
}

static int page_create(int32_t ordinal, uint64_t bytes, uint64_t *ret_page)
{
	int err = begin_of_process(FAKE_PAGE_CREATE);

	if (!err && bytes > fake->limit_bytes - fake->used_bytes[ordinal])
		err = CM_DRIVER_OUT_OF_MEMORY;
	if (err)
		return end(err);
	fake->page = grow(fake->page, &fake->page_room, fake->pages + 1, sizeof(fake->page[0]));
	fake->page[fake->pages++] = (struct fake_page){.bytes = bytes, .device = (uint32_t)ordinal};
	fake->used_bytes[ordinal] += bytes;
	*ret_page = fake->pages;
	return end(0);
}

static struct fake_page *page_of(uint64_t handle)
{
	if (handle && handle <= fake->pages && fake->page[handle - 1].bytes)
		return &fake->page[handle - 1];
	complain("a page that the driver has not given", handle, 0);
	return NULL;
}

static int page_release(uint64_t handle)
{
	int err = begin_of_process(FAKE_PAGE_RELEASE);
	struct fake_page *page = err ? NULL : page_of(handle);

	if (!page)
		return end(err ? err : FAKE_INVALID_VALUE);
	if (page->addr)
		complain("a page is released while it is mapped", handle, page->addr);
	fake->used_bytes[page->device] -= page->bytes;
	*page = (struct fake_page){0};
	return end(0);
}

static int page_map(uint64_t addr, uint64_t bytes, uint64_t handle)
{
	int err = begin_of_process(FAKE_PAGE_MAP);
	struct fake_page *page = err ? NULL : page_of(handle);

	if (!page)
		return end(err ? err : FAKE_INVALID_VALUE);
	if (addr % PAGE || bytes != page->bytes || addr < RANGE_BASE ||
	    addr + bytes > fake->next_range || find_page(addr) || page->addr)
		complain("a page is mapped where it can't be", addr, handle);
	page->addr = addr;
	return end(0);
}

static int page_unmap(uint64_t addr, uint64_t bytes)
{
	int err = begin_of_process(FAKE_PAGE_UNMAP);
	struct fake_page *page = err ? NULL : find_page(addr);
	size_t i;

	if (!page)
		return end(err ? err : FAKE_INVALID_VALUE);
	if (page->addr != addr || page->bytes != bytes)
		complain("not a whole page is unmapped", addr, bytes);
	for (i = 0; i < fake->works; i++)
		if (!is_over(&fake->work[i]) && touches(&fake->work[i], addr, bytes))
			complain("unmapped while work may touch it", addr, fake->work[i].number);
	page->addr = 0;
	page->open = 0;
	return end(0);
}

/* With the lock taken. */
static void open_pages(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	struct fake_page *page;
	uint64_t at;

	for (at = addr; at < addr + bytes; at += PAGE) {
		page = find_page(at);
		if (!page)
			complain("access to where no page is", at, 0);
		else
			page->open |= 1u << ordinal;
	}
}

static int range_open(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	int err = begin_of_process(FAKE_RANGE_OPEN);

	if (!err)
		open_pages(ordinal, addr, bytes);
	return end(err);
}

static int range_open_ungated(int32_t ordinal, uint64_t addr, uint64_t bytes)
{
	int err = begin_of_process_ungated(FAKE_RANGE_OPEN);

	if (!err)
		open_pages(ordinal, addr, bytes);
	return end(err);
}

bool fake_is_open_to(uint32_t device, uint64_t addr)
{
	const struct fake_page *page;
	bool is;

	(void)pthread_mutex_lock(&fake->lock);
	page = find_page(addr);
	is = page && page->open >> device & 1;
	(void)pthread_mutex_unlock(&fake->lock);
	return is;
}

static int mem_info(uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total)
{
	int err = begin(FAKE_MEM_INFO, ctx);

	if (err)
		return end(err);
	*ret_total = fake->limit_bytes;
	*ret_free = fake->limit_bytes - fake->used_bytes[find_context(ctx)->device];
	return end(0);
}

static struct fake_event *find_event(uint64_t ctx, uint64_t event)
{
	if (event && event <= fake->events && fake->event[event - 1].ctx == ctx)
		return &fake->event[event - 1];
	complain("an event of another context, or of none", ctx, event);
	return NULL;
}

static int event_create(uint64_t ctx, uint64_t *ret_event)
{
	int err = begin(FAKE_EVENT_CREATE, ctx);

	if (err)
		return end(err);
	fake->event = grow(fake->event, &fake->event_room, fake->events + 1,
			   sizeof(fake->event[0]));
	fake->event[fake->events++] = (struct fake_event){.ctx = ctx};
	*ret_event = fake->events;
	return end(0);
}

static int event_destroy(uint64_t ctx, uint64_t event)
{
	int err = begin(FAKE_EVENT_DESTROY, ctx);

	if (!err && find_event(ctx, event))
		fake->event[event - 1].ctx = 0;
	return end(err);
}

static int event_record(uint64_t ctx, uint64_t event)
{
	int err = begin(FAKE_EVENT_RECORD, ctx);

	if (!err && find_event(ctx, event))
		fake->event[event - 1].mark = fake->next_work;
	return end(err);
}

static bool is_complete(uint64_t ctx, uint64_t mark)
{
	size_t i;

	for (i = 0; i < fake->works; i++)
		if (fake->work[i].ctx == ctx && fake->work[i].number < mark)
			return false;
	return true;
}

static int query(enum fake_call call, uint64_t ctx, uint64_t event)
{
	int err = begin(call, ctx);

	if (!err && find_event(ctx, event) && !is_complete(ctx, fake->event[event - 1].mark))
		err = CM_DRIVER_NOT_READY;
	return end(err);
}

static int event_query(uint64_t ctx, uint64_t event)
{
	return query(FAKE_EVENT_QUERY, ctx, event);
}

static int event_query_ungated(uint64_t ctx, uint64_t event)
{
	return query(FAKE_EVENT_QUERY_UNGATED, ctx, event);
}

static int ctx_wait_event(uint64_t ctx, uint64_t event)
{
	int err = begin(FAKE_CTX_WAIT_EVENT, ctx);
	struct fake_context *context;

	if (!err && find_event(ctx, event)) {
		context = find_context(ctx);
		if (fake->event[event - 1].mark > context->floor)
			context->floor = fake->event[event - 1].mark;
	}
	return end(err);
}

static int ctx_synchronize(uint64_t ctx)
{
	int err = begin(FAKE_CTX_SYNCHRONIZE, ctx);

	if (!err)
		wait_for(ctx, UINT64_MAX);
	return end(err);
}

static bool ctx_is_dead(uint64_t ctx)
{
	int err = begin(FAKE_CTX_IS_DEAD, ctx);

	return end(err == FAKE_STICKY_ERROR);
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
		complain("the gate is left, but was not entered", 0, 0);
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
		complain("the host sleeps inside the gate", ns, gates);
	set_now(fake->now_ns + ns);
	fake->slept_ns += ns;
	if (fake->slept_ns > HANG_NS) {
		if (!fake->forgiving)
			complain("the host waits without end", ns, fake->slept_ns);
		end_forever();
	}
	drop_ended();
	(void)pthread_mutex_unlock(&fake->lock);
}

/* Somebody else on device 0 gives what the test has planned. */
static void ask_peers(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret)
{
	(void)uuid;
	*ret = (struct cm_peers){0};
	(void)pthread_mutex_lock(&fake->lock);
	if (gates)
		complain("others are asked inside the gate", wanted, gates);
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
		complain("a failure is shown inside the gate", 0, gates);
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
		.mem_alloc = mem_alloc,
		.mem_free = mem_free,
		.mem_info = mem_info,
		.range_reserve = range_reserve,
		.range_free = range_free,
		.page_create = page_create,
		.page_release = page_release,
		.page_map = page_map,
		.page_unmap = page_unmap,
		.range_open = range_open,
		.range_open_ungated = range_open_ungated,
		.host_alloc = host_alloc,
		.host_free = host_free,
		.event_create = event_create,
		.event_destroy = event_destroy,
		.event_record = event_record,
		.event_query = event_query,
		.event_query_ungated = event_query_ungated,
		.ctx_wait_event = ctx_wait_event,
		.ctx_synchronize = ctx_synchronize,
		.ctx_is_dead = ctx_is_dead,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
		.work_number = &work_number,
		.ask_peers = ask_peers,
		.tell_oom = tell_oom,
		.show_oom = show_oom,
		.tick = tick,
		.now_ns = now_ns,
		.sleep_ns = sleep_ns,
	};

	return &ops;
}

struct fake_memory fake_memory_of(uint64_t addr)
{
	struct fake_memory found = {0};
	size_t i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->memories; i++)
		if (addr >= fake->memory[i].addr &&
		    addr - fake->memory[i].addr < fake->memory[i].bytes)
			found = fake->memory[i];
	(void)pthread_mutex_unlock(&fake->lock);
	return found;
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
